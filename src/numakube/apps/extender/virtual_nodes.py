"""Nodes that do not exist, as autoscalers ask about them.

An autoscaler tries pods on the template of every node group, and sends the template as a whole Node
object. It is judged as an idle node with the topology of its group; see
`numakube.simulation.node_groups`. A group of which nothing is known takes only pods that want
nothing of zones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.api.codec import Wire, convert, decode
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.yaml_text import load_yaml
from numakube.apps.extender.extender_messages import name_of
from numakube.apps.extender.refusal_texts import MARK, text_of
from numakube.errors import NumakubeError
from numakube.kube.catalog import CONFIG_MAPS
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed
from numakube.manifests.extender import NODE_GROUPS
from numakube.scheduling.numa.native.native_engine import wants_nothing
from numakube.scheduling.numa.topology_match import make_cache
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.simulation.node_groups import NodeGroupList, NodeGroups

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.extender.extender_messages import NodeList
    from numakube.apps.extender.filter_nodes import Judge, Judgement
    from numakube.kube.client import Client
    from numakube.kube.store import Change
    from numakube.scheduling.numa.topology_match_args import Settings
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

KEY: Final = "groups.yaml"
UNKNOWN_GROUP: Final = f"{MARK}node does not exist, and the topology of its group is not known"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ConfigMap(Wire, frozen=True):
    """Texts by name."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


def config_map_reflector(client: Client, namespace: str) -> Reflector[ConfigMap]:
    """Return what follows the ConfigMap in which groups are described; there may be none."""
    resource, name = CONFIG_MAPS.decoded_as(ConfigMap), f"metadata.name={NODE_GROUPS}"
    return Reflector(client, resource, namespace=namespace, fields=name, optional=True)


class VirtualNodes:
    """Judges nodes of which there is nothing but an object."""

    def __init__(self, judge: Judge, settings: Settings) -> None:
        self._judge = judge
        self._settings = settings
        self._groups = NodeGroups()

    def described(self, change: Change[ConfigMap]) -> None:
        """Take over what the ConfigMap says; one that cannot be read changes nothing."""
        if isinstance(change, Removed):
            self._groups = NodeGroups()
            return
        try:
            tree = load_yaml(change.object.data.get(KEY, ""), NODE_GROUPS) or {}
            groups = NodeGroups(convert(NodeGroupList, tree, NODE_GROUPS).groups)
            groups.check()
        except NumakubeError as error:
            _log.warning("node_groups_unreadable", config_map=NODE_GROUPS, error=str(error))
            return
        self._groups = groups

    def are_in(self, nodes: NodeList | None) -> bool:
        """Tell whether there are such nodes among *nodes*."""
        items = nodes.items if nodes is not None else None
        return any(name_of(one) not in self._judge.cluster.row_of for one in items or ())

    def add_to(self, found: Judgement, pod: PodInfo, nodes: NodeList) -> None:
        """Say in *found* what becomes of *pod* on those of *nodes* that do not exist."""
        kept = set(found.kept)
        items = nodes.items or ()
        for item in items:
            name = name_of(item)
            if name in self._judge.cluster.row_of:
                continue
            reason = self.refusal(pod, item)
            found.unresolvable.pop(name, None)
            if reason:
                found.unresolvable[name] = reason
            else:
                kept.add(name)
        found.kept = tuple(name for name in map(name_of, items) if name in kept)

    def refusal(self, pod: PodInfo, item: msgspec.Raw) -> str:
        """Return why *pod* would not run on a node like that; empty if it would."""
        try:
            node = decode(Node, bytes(item), subject="Node")
            report = self._groups.report_for(node, self._judge.cluster.nodes())
        except NumakubeError as error:
            return f"{MARK}{error}"
        if report is None:
            return "" if wants_nothing(pod) else UNKNOWN_GROUP
        info = NodeInfo(node, row=-1)
        info.numa = self._belief(report)
        status = self._judge.admits(pod, info)
        return "" if status.ok else text_of(status)

    def _belief(self, report: NodeResourceTopology) -> NumaBelief | None:
        cache = make_cache(self._settings.cache, frozenset())
        cache.set_report(report)
        return cache.belief(report.metadata.name)
