"""Answers to recorded questions to the Go plugin: verdict and scores of each pod on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.scheduling.framework import SUCCESS, CycleState
from numakube.scheduling.numa.upstream.plugin_inputs import Reader
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.reported_nodes import STRATEGIES, reported

if TYPE_CHECKING:
    from numakube.scheduling.framework import Status


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
