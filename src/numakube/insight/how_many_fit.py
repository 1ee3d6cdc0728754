"""How many pods of a kind fit, and where: the scheduler's own cycles, one pod after the other.

    placed = place(engine, copies(pod, 8))     # these eight: where they go, why the rest does not
    room = room_for(engine, pod)               # as many as there is room for, node by node

Pods that are placed stay on the engine, booked as a scheduler books what it binds, so that the next
question is about the cluster with them; for the cluster without them, fill another engine. No pod
is evicted.

Where a pod does not mind which others are elsewhere, each node can be filled for itself, and nodes
that are `alike` need to be filled only once. They are compared by what changes when pods come: what
is requested and what can be given out, how many pods there are, what is known of the NUMA zones and
who holds what in them; a filter has looked at labels and taints before. Where something is known
that is not compared, a node is like no other: that costs time, never the right answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.koordinator.keys import NODE_DECIDING, POD_HOLDING
from numakube.scheduling.cycle import Attempt, Chosen, Cycle, FirstOfEquals
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.framework.status import failure
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.snapshot.pod_equivalence import depends_on_pods, is_local_to_pod
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Failed, Refused
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.topology_view import NodeTopology


MOST: Final = 10_000
"""Pods that are placed one by one, where each depends on all others; that takes a minute."""
_MOST_ON_A_NODE: Final = 4096
"""For profiles that do not mind how many pods a kubelet takes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of pods that were placed one after the other.

    Attributes:
        nodes: where each of those went that found a place, in order.
        first_refused: the pod at which it ended; ``None`` if all found a place.
        why: what the scheduler said of it; ``None`` if it was not even tried.
    """

    nodes: tuple[str, ...]
    first_refused: PodInfo | None = None
    why: Refused | Failed | None = None

    @property
    def reason(self) -> str:
        """What the scheduler said, in words."""
        return self.why.why if self.why is not None else ""


def copies(pod: Pod, count: int, *, of: str = "") -> Iterator[Pod]:
    """Yield *count* pods like *pod*, with names and uids of their own; *of* tells sets apart."""
    meta = pod.metadata
    for number in range(1, count + 1):
        uid = f"{meta.uid or meta.name}:{of}:{number}"
        own = msgspec.structs.replace(meta, name=f"{meta.name}-{number}", uid=uid)
        yield msgspec.structs.replace(pod, metadata=own)


def place(engine: Engine, pods: Iterable[Pod]) -> Placed:
    """Place *pods* by the scheduler's cycle until one fits nowhere."""
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    nodes: list[str] = []
    for info in map(PodInfo, pods):
        runtime = engine.runtime_for(info.scheduler_name)
        if not runtime.pre_enqueue(info).ok:
            return Placed(tuple(nodes), info)
        decision = cycle.decide(info, runtime)
        if not isinstance(decision, Chosen):
            return Placed(tuple(nodes), info, decision)
        if not book(engine, runtime, decision.state, info, decision.node).ok:
            return Placed(tuple(nodes), info)
        nodes.append(decision.node)
    return Placed(tuple(nodes))


def _for_ever() -> bool:
    return True


def room_for(
    engine: Engine, pod: Pod, *, most: int = MOST, may_go_on: Callable[[], bool] = _for_ever
) -> Mapping[str, int]:
    """Return by node how many pods like *pod* fit, beside each other; full nodes are missing.

    If it matters to such pods where others of them are, as many as there are, but at most *most*,
    are placed one by one, and the answer says where the scheduler puts them.

    *may_go_on* is asked before every pod. Once it says no, there is room for at least so many.
    """
    info = PodInfo(pod)
    if looks_around(info):
        wanted = takewhile(lambda _: may_go_on(), copies(pod, most))
        return Counter(place(engine, wanted).nodes)
    return dict(_node_by_node(engine, info, may_go_on))


def looks_around(pod: PodInfo) -> bool:
    """Tell whether it can matter to *pod* what its like do on other nodes."""
    volumes = (volume for volume in pod.pod.spec.volumes if volume.host_path is None)
    return depends_on_pods(pod) or not all(map(is_local_to_pod, volumes))


def _node_by_node(
    engine: Engine, pod: PodInfo, may_go_on: Callable[[], bool]
) -> Iterator[tuple[str, int]]:
    runtime = engine.runtime_for(pod.scheduler_name)
    if not runtime.pre_enqueue(pod).ok:
        return
    snapshot = engine.cluster.snapshot()
    attempt = Attempt(runtime, pod, snapshot, engine.nominations)
    rows = attempt.feasible_rows()
    for nodes in alike(engine, [snapshot.at(int(row)) for row in rows]):
        wanted = copies(pod.pod, _MOST_ON_A_NODE, of=nodes[0].name)
        wanted = takewhile(lambda _: may_go_on(), wanted)
        count = _fill(engine, runtime, attempt.state, map(pod.sibling, wanted), nodes[0].name)
        if count:
            yield from ((node.name, count) for node in nodes)


def _fill(
    engine: Engine, runtime: Runtime, begun: CycleState, pods: Iterable[PodInfo], node: str
) -> int:
    """Put *pods*, which are alike, on *node* until it takes no more; return how many it took.

    *begun* is what the pre-filters said: nothing that pods on this node change.
    """
    count = 0
    for info in pods:
        snapshot = engine.cluster.snapshot()
        attempt = Attempt(runtime, info, snapshot, engine.nominations, state=begun.clone())
        if not attempt.verdict_of(node).ok:
            break
        if not book(engine, runtime, attempt.state, info, node).ok:
            break
        count += 1
    return count


def book(engine: Engine, runtime: Runtime, state: CycleState, pod: PodInfo, node: str) -> Status:
    """Count *pod* on *node* from now on, as a scheduler does when it binds, unless refused."""
    there = engine.cluster.node(node)
    if there is None:
        return failure(f"node {node} is gone")
    booking = runtime.reserve(state, pod, there)
    engine.cluster.take(booking.changes, engine.cache)
    if not booking.ok:
        return booking.status
    bound = as_bound(state, pod)
    spec = msgspec.structs.replace(bound.pod.spec, node_name=node)
    engine.cluster.place(bound.sibling(msgspec.structs.replace(bound.pod, spec=spec)), node)
    return booking.status


class EngineBooks:
    """Books the places of a plan on an engine, and gives them back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Count *pod* on the node that was chosen, unless a plugin refuses to."""
        runtime = self._engine.runtime_for(pod.scheduler_name)
        return book(self._engine, runtime, chosen.state, pod, chosen.node)

    def give_back(self, pod: PodInfo, chosen: Chosen) -> None:
        """Count *pod*, which was reserved for, on no node."""
        runtime = self._engine.runtime_for(pod.scheduler_name)
        changes = runtime.unreserve(chosen.state, pod, chosen.node)
        self._engine.cluster.take(changes, self._engine.cache)
        self._engine.cluster.remove_pod(pod.uid)


def alike(engine: Engine, nodes: Iterable[NodeInfo]) -> Iterator[list[NodeInfo]]:
    """Yield *nodes* in groups of equals."""
    buckets: dict[object, list[tuple[object, list[NodeInfo]]]] = {}
    for node in nodes:
        known = buckets.setdefault(_amounts(node), [])
        own = _zones(node.numa) if _is_plain(engine, node) else object()
        group = next((members for zones, members in known if zones == own), None)
        if group is None:
            known.append((own, [node]))
        else:
            group.append(node)
    yield from (members for known in buckets.values() for _, members in known)


def _is_plain(engine: Engine, node: NodeInfo) -> bool:
    """Tell whether nothing is known of *node* but its amounts and its kubelet's report."""
    special = any(key in node.node.metadata.annotations for key in NODE_DECIDING)
    holding = any(
        key in pod.pod.metadata.annotations for pod in node.pods.values() for key in POD_HOLDING
    )
    kept = node.name in engine.nominations.nodes()
    return not (special or holding or kept or node.name in engine.cluster.objects.devices)


def _amounts(node: NodeInfo) -> object:
    requested = (item for item in node.requested.items() if item[1])
    free = node.numa.available if node.numa is not None else ()
    return (
        tuple(sorted(node.allocatable.items())),
        tuple(sorted(requested)),
        len(node.pods),
        tuple(tuple(sorted(zone.items())) for zone in free),
    )


def _zones(belief: NumaBelief | None) -> object:
    """Return what is known of the zones besides their amounts, to be compared."""
    if belief is None:
        return None
    if isinstance(belief, ExactBelief) and not belief.basis.differs_from_report:
        return _anonymous(belief.topology), _state(belief.basis.exact), belief.blocked
    if isinstance(belief, CountsBelief):
        return _anonymous(belief.topology), None, belief.blocked
    return object()


def _anonymous(topology: NodeTopology) -> NodeTopology:
    """Return *topology* without what tells one node from another."""
    return replace(
        topology, node="", report=None, fingerprint=None, resource_version="", generation=0
    )


def _state(report: ExactReport) -> tuple[ExactReport, list[str]]:
    """Return *report* with what pods hold, but not which pods."""
    return replace(report, pods={}), sorted(map(repr, report.pods.values()))
