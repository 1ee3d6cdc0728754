"""The picture of a node: its zones, cores, memory and devices, and which pod holds what.

`picture.NodePicture` is the picture as data; `from_report` makes it of an exact report,
`from_counts` of amounts by zone alone, `from_facts` of whichever a cluster has. `text`, `svg`,
`png` and `document` draw it. Everything here is pure: a picture in, a text or bytes out.
"""
