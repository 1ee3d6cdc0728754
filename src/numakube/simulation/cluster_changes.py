"""What-ifs: the cluster with other kubelets, more nodes, fewer nodes, or nodes that are drained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.insight.explain.empty_node import bound_copy
from numakube.kubelet.config_from_words import overridden, parse_kubelet_options
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.node_kinds import kind_parts, nodes_like, nodes_of_kinds
from numakube.simulation.pod_owners import kind_of_owner
from numakube.simulation.workload import Arrival, OwnerKind, Workload
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.simulation.cluster_model import RunningPod, SimulatedCluster, SimulatedNode

NEW: Final = "new-"
"""How the names of nodes begin that are added."""
_BRIEF: Final = 40
_LONGEST: Final = 1000
_FIELDS: Final = {
    "topologyManagerPolicy": "policy",
    "topologyManagerScope": "scope",
    "cpuManagerPolicy": "cpu",
    "memoryManagerPolicy": "memory",
    "reservedSystemCPUs": "reserved-cpus",
    "maxPods": "max-pods",
}
"""Fields of a KubeletConfiguration, and the words that mean the same here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be different.

    Attributes:
        kubelet: words that change every kubelet's configuration.
        added: kinds of nodes that are added, see `numakube.simulation.node_kinds`.
        removed: names of nodes that are removed with all that runs there.
        drained: names of nodes that take no new pods, and whose pods go elsewhere.
    """

    kubelet: Mapping[str, str]
    added: Sequence[str] = ()
    removed: Collection[str] = ()
    drained: Collection[str] = ()

    def __bool__(self) -> bool:
        """Tell whether anything is different."""
        return bool(self.kubelet or self.added or self.removed or self.drained)

    def __str__(self) -> str:
        return ", ".join(self._parts(most=_LONGEST))

    @property
    def brief(self) -> str:
        """The changes in so few words that they can name an arm."""
        return ", ".join(self._parts(most=_BRIEF))

    @property
    def sentence(self) -> str:
        """The changes in words that go on after a comma: ``with 10 more nodes like node-0``."""
        parts = [f"with {name}={value}" for name, value in self.kubelet.items()]
        parts += [f"with {_more(kind)}" for kind in self.added]
        parts += [f"without {name}" for name in self.removed]
        parts += [f"with {name} drained" for name in self.drained]
        return " and ".join(parts)

    def _parts(self, *, most: int) -> Iterator[str]:
        yield from (f"{name}={value}" for name, value in self.kubelet.items())
        for kind in self.added:
            yield f"+{kind}" if len(kind) < most else f"+{counted(_count(kind), 'node')}"
        for words, names in (("without {}", self.removed), ("{} drained", self.drained)):
            if len(", ".join(names)) < most:
                yield from (words.format(name) for name in names)
            else:
                yield words.format(counted(len(names), "node"))


def _count(kind: str) -> int:
    count, _, _ = kind_parts(kind)
    return count


def _more(kind: str) -> str:
    count, text, words = kind_parts(kind)
    more = f"{count} more {'node' if count == 1 else 'nodes'}"
    like = text.removeprefix("like ").strip()
    if " " in like or words:
        return f"{more} ({kind.strip()})" if len(kind) < _BRIEF else more
    return f"{more} like {like}"


def kubelet_words(texts: Sequence[str], *, flag: str = "--set") -> dict[str, str]:
    """Return what ``topologyManagerPolicy=restricted`` or ``policy=restricted`` say.

    Raises:
        ConfigError: there is no such setting.
    """
    words: dict[str, str] = {}
    for text in texts:
        words.update(parse_kubelet_options(text, flag=flag, fields=_FIELDS))
    return words


def changed(
    cluster: SimulatedCluster, workload: Workload, changes: Changes
) -> tuple[SimulatedCluster, Workload]:
    """Return *cluster* and *workload* with *changes*: pods that have to go arrive again.

    Raises:
        ConfigError: a node is named that does not exist, or a kind cannot be read.
    """
    known = {node.name for node in cluster.nodes}
    for name in (*changes.removed, *changes.drained):
        if name not in known:
            raise ConfigError(f"there is no node {name!r}; there are {_some(sorted(known))}")
    nodes = {node.name: node for node in _changed_nodes(cluster, changes)}
    new, daemons = _added(cluster, nodes, changes)
    emptied = {*changes.removed, *changes.drained}
    stay = tuple(one for one in cluster.running if not _goes(one, changes))
    going = [one for one in cluster.running if one.node in emptied and _is_replaced(one)]
    arrivals = (
        Arrival(at=0.0, pod=one.pod, owner=kind_of_owner(one.pod), seconds=one.seconds)
        for one in going
    )
    return (
        replace(cluster, nodes=(*nodes.values(), *new), running=(*stay, *daemons)),
        replace(workload, arrivals=(*arrivals, *workload.arrivals)),
    )


def _changed_nodes(cluster: SimulatedCluster, changes: Changes) -> list[SimulatedNode]:
    configs: dict[tuple[int, int], KubeletConfiguration] = {}
    nodes: list[SimulatedNode] = []
    for node in cluster.nodes:
        if node.name in changes.removed:
            continue
        key = id(node.config), id(node.machine)
        # Nodes that are alike go on sharing one configuration.
        config = configs.setdefault(key, overridden(node.config, node.machine, changes.kubelet))
        drained = node.unschedulable or node.name in changes.drained
        held = None if changes.kubelet else node.held
        nodes.append(replace(node, config=config, unschedulable=drained, held=held))
    return nodes


def _added(
    cluster: SimulatedCluster, nodes: Mapping[str, SimulatedNode], changes: Changes
) -> tuple[list[SimulatedNode], list[RunningPod]]:
    """Return the nodes that are added, and the daemons that those bring along that are like one."""
    new = nodes_of_kinds(changes.added, changes.kubelet, prefix=NEW, known=nodes)
    kinds = dict(zip(ascii_lowercase, changes.added, strict=False))
    daemons: list[RunningPod] = []
    for node in new:
        like = nodes_like(kinds[node.name[len(NEW)]], nodes)
        for one in cluster.running if like is not None else ():
            if like is not None and one.node == like.like and _is_of_daemon_set(one):
                pod = bound_copy(PodInfo(one.pod), node.name).pod
                daemons.append(replace(one, pod=pod, node=node.name))
    return list(new), daemons


def _goes(one: RunningPod, changes: Changes) -> bool:
    """Tell whether a pod leaves its node; those of DaemonSets stay where others are drained."""
    if one.node in changes.removed:
        return True
    return one.node in changes.drained and not _is_of_daemon_set(one)


def _is_replaced(one: RunningPod) -> bool:
    return kind_of_owner(one.pod) is not OwnerKind.POD


def _is_of_daemon_set(one: RunningPod) -> bool:
    controller = one.pod.metadata.controller
    return controller is not None and controller.kind in ("DaemonSet", "Node")


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
