"""The cluster that a simulation begins with: its nodes, and the pods that run on them already.

A real cluster as the beginning of a simulation: what runs, where, and what waits.

The facts come from a live cluster, a bundle or a dump. Pods keep their nodes and, where the node's
report says exactly what they hold, their CPUs, memory and devices.

What-ifs: the cluster with other kubelets, more nodes, fewer nodes, or nodes that are drained.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from string import ascii_lowercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from numakube.api.pod import has_ended
from numakube.errors import ConfigError, MalformedObject
from numakube.insight.collected import (
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TOPOLOGIES,
    TOPOLOGY_UPDATES,
)
from numakube.insight.node_groups import bound_copy
from numakube.insight.node_setup import (
    NodeSetup,
    kind_parts,
    nodes_like,
    nodes_of_kinds,
    observed_node,
)
from numakube.kubelet import overridden, parse_kubelet_options
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import uid_hash
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import counted
from numakube_planning.simulation.pod_owners import kind_of_owner
from numakube_planning.simulation.workload import Arrival, ArrivingWork, OwnerKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.kubelet.machine import Machine
    from numakube.topology import ExactReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that is on a node when the simulation begins.

    Attributes:
        pod: as the API server has it.
        seconds: how long it still runs; ``None`` for longer than the simulation.
    """

    pod: Pod
    node: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """The whole cluster.

    Attributes:
        running: what runs on its nodes, in order of admission.
        objects: what else scheduling looks at: by the fields of
            `numakube.scheduling.snapshot.cluster_objects.ClusterObjects`, objects by key.
    """

    nodes: tuple[NodeSetup, ...]
    running: tuple[RunningPod, ...] = ()
    objects: Mapping[str, Mapping[str, object]] = field(
        default_factory=lambda: MappingProxyType({})
    )


T = TypeVar("T")

_NEEDED: Final = (NODES, PODS, TOPOLOGIES, TOPOLOGY_UPDATES, PRIORITY_CLASSES)
"""What has to be read whole, as far as it is there."""


def cluster_of(
    facts: ClusterFacts, subject: str, *, machine: Machine | None = None
) -> SimulatedCluster:
    """Return the cluster of *facts* with everything that runs.

    Args:
        facts: what is known.
        subject: names the source in errors.
        machine: what every node is to be instead of what it is.

    Raises:
        MalformedObject: an object cannot be read, or a node has no zones; it says which.
    """
    for fact in facts.unreadable:
        if fact.what.split(" ")[0] in _NEEDED:
            raise MalformedObject(subject, f"{fact.what}: {fact.why}")
    nodes = tuple(_shared(_node(facts, name, subject, machine) for name in sorted(facts.nodes)))
    running = [pod for node in nodes for pod in _running(facts, node)]
    known = facts.objects
    objects = {one.name: dict(getattr(known, one.name)) for one in fields(known) if one.init}
    return SimulatedCluster(nodes=nodes, running=tuple(running), objects=objects)


def waiting_in(facts: ClusterFacts) -> ArrivingWork:
    """Return the pods of *facts* that have no node."""
    waiting = [pod for pod in facts.pods if not pod.spec.node_name and not has_ended(pod)]
    arrivals = (Arrival(at=0.0, pod=pod, owner=kind_of_owner(pod)) for pod in waiting)
    return ArrivingWork(arrivals=tuple(arrivals))


def _node(facts: ClusterFacts, name: str, subject: str, machine: Machine | None) -> NodeSetup:
    view = facts.view(name)
    if not isinstance(view, NodeTopology) and machine is None:
        why = "has no NodeResourceTopology" if view is None else f"NodeResourceTopology: {view}"
        raise MalformedObject(
            subject, f"{why}; without its zones nothing can be simulated", path=f"Node {name}"
        )
    topology, config = facts.topologies.get(name), facts.kubelet_configs.get(name)
    found = observed_node(facts.nodes[name], topology, config)
    if machine is not None:
        return replace(found, machine=machine)
    return replace(found, held=_held(facts, name))


def _shared(nodes: Iterable[NodeSetup]) -> Iterator[NodeSetup]:
    """Yield *nodes*, those that are alike with one machine and one configuration."""
    machines: list[Machine] = []
    configs: list[Any] = []
    for node in nodes:
        machine, config = _one_of(node.machine, machines), _one_of(node.config, configs)
        yield replace(node, machine=machine, config=config)


def _one_of(value: T, known: list[T]) -> T:
    for one in known:
        if one == value:
            return one
    known.append(value)
    return value


def _running(facts: ClusterFacts, node: NodeSetup) -> Iterator[RunningPod]:
    """Yield the pods of a node in the order in which its kubelet admitted them."""
    held = node.held.pods if node.held is not None else {}
    places = {uid: place for place, uid in enumerate(held)}
    pods = sorted(
        facts.pods_on(node.name),
        key=lambda pod: (
            places.get(pod.metadata.uid, len(places)),
            pod.metadata.creation_timestamp or "",
        ),
    )
    yield from (RunningPod(pod=pod, node=node.name) for pod in pods)


def _held(facts: ClusterFacts, name: str) -> ExactReport | None:
    """Return the exact report of a node, with pods by uid instead of by what stands for it."""
    view = facts.view(name)
    report = view.report if isinstance(view, NodeTopology) else None
    if report is None:
        return None
    uids = {uid_hash(pod.metadata.uid): pod.metadata.uid for pod in facts.pods_on(name)}
    # What nothing is known of but that it holds something goes on holding it.
    return replace(report, pods={uids.get(one, one): held for one, held in report.pods.items()})


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
        added: kinds of nodes that are added, see `numakube.insight.node_setup`.
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
    cluster: SimulatedCluster, workload: ArrivingWork, changes: Changes
) -> tuple[SimulatedCluster, ArrivingWork]:
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


def _changed_nodes(cluster: SimulatedCluster, changes: Changes) -> list[NodeSetup]:
    configs: dict[tuple[int, int], KubeletConfiguration] = {}
    nodes: list[NodeSetup] = []
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
    cluster: SimulatedCluster, nodes: Mapping[str, NodeSetup], changes: Changes
) -> tuple[list[NodeSetup], list[RunningPod]]:
    """Return the nodes that are added, and the daemons that those bring along that are like one."""
    new = nodes_of_kinds(changes.added, changes.kubelet, prefix=NEW, known=nodes)
    kinds = dict(zip(ascii_lowercase, changes.added, strict=False))
    daemons: list[RunningPod] = []
    for node in new:
        like = nodes_like(kinds[node.name[len(NEW)]], nodes)
        for other in cluster.running if like is not None else ():
            if like is not None and other.node == like.like and _is_of_daemon_set(other):
                pod = bound_copy(PodInfo(other.pod), node.name).pod
                daemons.append(replace(other, pod=pod, node=node.name))
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
