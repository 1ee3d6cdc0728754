"""The map of a node: its zones, cores, memory and devices, and the pods that hold them.

`picture.NodePicture` is the picture as data; `picture_from_report` makes it of an exact report,
`picture_from_facts` of what is known of a cluster's node, be it amounts by zone alone.
`terminal_map`, `svg`, `png` and `map_json` draw it. Everything here is pure: a picture in, a text
or bytes out.
"""
