"""The map of a node: its zones, cores, memory and devices, and the pods that hold them.

`picture.NodePicture` is the picture as data; `picture_from_report` makes it of an exact report,
`picture_from_facts` of what is known of a cluster's node, be it amounts by zone alone.
`terminal_map` draws it as text, `map_json` tells it to programs, and annexes draw it in other
formats. Everything here is pure.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.insight.node_map.map_json import picture_document
    from numakube.insight.node_map.picture_from_facts import node_picture
    from numakube.insight.node_map.picture_from_report import picture_of_model
    from numakube.insight.node_map.planned_picture import PlannedNode, planned
    from numakube.insight.node_map.terminal_map import DEFAULT_WIDTH, lines_of, zone_lines

__all__ = [
    "DEFAULT_WIDTH",
    "PlannedNode",
    "lines_of",
    "node_picture",
    "picture_document",
    "picture_of_model",
    "planned",
    "zone_lines",
]

__getattr__ = lazy_names(
    __name__,
    {
        "picture_from_facts": "node_picture",
        "picture_from_report": "picture_of_model",
        "terminal_map": "DEFAULT_WIDTH zone_lines lines_of",
        "map_json": "picture_document",
        "planned_picture": "PlannedNode planned",
    },
)
