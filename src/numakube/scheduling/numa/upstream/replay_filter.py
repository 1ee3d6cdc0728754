"""Answers to recorded questions to the Go plugin: verdict and scores of each pod on each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.upstream.nrt_zones import Reader
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.framework.status import Status
    from numakube.values.resources import Amounts

STRATEGIES: Final = ("BalancedAllocation", "LeastAllocated", "LeastNUMANodes", "MostAllocated")


@dataclass(frozen=True, slots=True)
class Reported:
    """Belief in a report as it is, which is what the Go plugin's passthrough cache has."""

    nrt: NodeResourceTopology
    topology: NodeTopology | None
    available: tuple[Amounts, ...]
    blocked: str = ""

    def model(self) -> KubeletNode | None:
        """Return nothing: the Go plugin has counts only."""
        return None

    def without(self, uids: Iterable[str]) -> Reported:
        """Return the same: the places of the pods are unknown."""
        return self


def reported(nrt: NodeResourceTopology) -> Reported:
    """Return the belief in *nrt*; also in one that only the Go plugin can use."""
    view = view_of(nrt)
    topology = view if isinstance(view, NodeTopology) else None
    return Reported(nrt, topology, tuple(z.available for z in topology.zones) if topology else ())


def answer(row: dict[str, Any]) -> dict[str, Any]:
    """Return our verdicts for one recorded case."""
    cluster = Cluster()
    for tree in row["nodes"]:
        cluster.set_node(convert(Node, tree))
    for tree in row["nrts"]:
        nrt = convert_nrt(tree)
        cluster.suppose(nrt.metadata.name, reported(nrt))
    weights, reader = row.get("weights") or {}, Reader()
    engines = {name: UpstreamEngine(name, weights, reader) for name in STRATEGIES}
    pods = [PodInfo(convert(Pod, tree)) for tree in row["pods"]]
    return {
        "id": row["id"],
        "verdicts": {pod.name: _verdicts(pod, cluster, engines) for pod in pods},
    }


def _verdicts(
    pod: PodInfo, cluster: Cluster, engines: dict[str, UpstreamEngine]
) -> dict[str, dict[str, Any]]:
    """Return the verdicts on all nodes; the two forms of each decision must agree."""
    state, snapshot = CycleState(), cluster.snapshot()
    rows = snapshot.rows
    engine = next(iter(engines.values()))
    judged = engine.filter_all(state, pod, snapshot, rows)
    rated = {name: one.score_all(state, pod, snapshot, rows) for name, one in engines.items()}
    verdicts = {}
    for position, row in enumerate(rows):
        node = snapshot.at(int(row))
        status = engine.filter(state, pod, node)
        scores = {name: one.score(state, pod, node) for name, one in engines.items()}
        together = judged.status(position) if judged else SUCCESS
        if together != status or scores != {n: int(s[position]) for n, s in rated.items()}:
            raise AssertionError(f"pod {pod.name}, node {node.name}: the two forms disagree")
        verdicts[node.name] = _verdict(status, scores)
    return verdicts


def _verdict(status: Status, scores: dict[str, int]) -> dict[str, Any]:
    reasons = {"reasons": list(status.reasons)} if status.reasons else {}
    return {"code": status.code.label, "scores": scores, **reasons}
