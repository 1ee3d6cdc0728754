"""NodeResourceTopology objects of any producer, read into one form. Pure.

``topology_view`` reads an object into a `NodeTopology`; ``exact_report`` is the annotation from
which ``model_report`` makes the kubelet model of the node; ``fingerprint`` has upstream's formats.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.topology.exact_report import ExactReport, Holding, uid_hash
    from numakube.topology.held_zones import zone_cpus
    from numakube.topology.model_report import node_of, remove_pod, report_of, zones_of
    from numakube.topology.nrt_conversion import convert_version
    from numakube.topology.report_notation import TreeTable, read_tree, write_tree
    from numakube.topology.report_update import current_reports
    from numakube.topology.topology_view import NodeTopology, view_of

__all__ = [
    "ExactReport",
    "Holding",
    "NodeTopology",
    "TreeTable",
    "convert_version",
    "current_reports",
    "node_of",
    "read_tree",
    "remove_pod",
    "report_of",
    "uid_hash",
    "view_of",
    "write_tree",
    "zone_cpus",
    "zones_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "exact_report": "ExactReport Holding uid_hash",
        "model_report": "report_of node_of remove_pod zones_of",
        "report_notation": "TreeTable read_tree write_tree",
        "report_update": "current_reports",
        "topology_view": "NodeTopology view_of",
        "held_zones": "zone_cpus",
        "nrt_conversion": "convert_version",
    },
)
