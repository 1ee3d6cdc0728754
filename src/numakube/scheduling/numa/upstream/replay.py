"""Answers to recorded questions to the Go plugin: verdict and scores of each pod on each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.core import Node, Pod
from numakube.api.nrt import convert_nrt
from numakube.scheduling.framework.state import CycleState
from numakube.scheduling.numa.upstream.engine import UpstreamEngine
from numakube.scheduling.numa.upstream.zones import Reader
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.view import NodeTopology, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.node import KubeletNode
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
        """Return the same: nobody knows where the pods are."""
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
        cluster.set_belief(nrt.metadata.name, reported(nrt))
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
    state = CycleState()
    verdicts = {}
    for node in cluster.nodes():
        status = next(iter(engines.values())).filter(state, pod, node)
        scores = {name: engine.score(state, pod, node) for name, engine in engines.items()}
        verdict: dict[str, Any] = {"code": status.code.label, "scores": scores}
        if status.reasons:
            verdict["reasons"] = list(status.reasons)
        verdicts[node.name] = verdict
    return verdicts
