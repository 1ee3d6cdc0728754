"""NodeResourceTopologyUpdate (topology.numakube.dev): what has changed since a node's report.

Most of a NodeResourceTopology never changes: the machine, the kubelet's settings, what zones have.
An exporter that reports only surprises writes what pods change to this object, which is small. It
has the name of the report and belongs to it. `numakube.topology.report_update` puts both together.
"""

from typing import Final

from numakube.api.codec import Timestamp, Wire, always
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute

GROUP: Final = "topology.numakube.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "NodeResourceTopologyUpdate"
PLURAL: Final = "noderesourcetopologyupdates"


class NodeResourceTopologyUpdate(Wire, frozen=True):
    """What takes the place of the changing part of the report with the same name.

    Attributes:
        report: when the report that is updated was written; an update of another one says nothing.
        time: when this was written.
        available: of each zone, in the report's order, what is left of each of its resources.
        attributes: those of the node that change with its pods.
        vectors: of each zone its attribute for NUMA placement; empty if no zone has it.
        exact: the changing keys of the report's exact data.
    """

    metadata: ObjectMeta = ObjectMeta()
    report: Timestamp = ""
    time: Timestamp = ""
    available: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    vectors: tuple[str, ...] = ()
    exact: str = ""
    api_version: str = always(f"{GROUP}/{VERSION}")
    kind: str = always(KIND)
