"""Scale-ups: an autoscaler never picks a group of nodes on which the kubelet model refuses the pod.

Random groups of nodes, known in each of the ways that there are, and random pods. The extender's
answer is compared with a kubelet of that kind that has just started.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.yaml_text import dump_yaml
from numakube.apps.extender.extender_engine import AllottingEngine
from numakube.apps.extender.filter_nodes import KEY, Judge, TextMap, VirtualNodes
from numakube.errors import ConfigError
from numakube.insight.node_groups import GROUPS, INSTANCE_TYPE, MACHINE
from numakube.insight.node_setup import nodes_of_kinds
from numakube.kube.store import Added
from numakube.kubelet.admission_outcome import Admitted
from numakube.scheduling.framework.plugins import Nominations
from numakube.scheduling.numa.topology_match import make_cache, make_engine
from numakube.scheduling.numa.topology_match_args import read_args
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod, running
from numakube_placement.plugins.node_numa_resource import NodeNUMAResource
from numakube_placement.plugins.node_numa_resource_args import NodeNUMAResourceArgs
from numakube_planning.simulation.virtual_node import NodeFactory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube_planning.simulation.virtual_node import VirtualNode

CASES: Final = 10_000
GPU: Final = "nvidia.com/gpu"
POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")


def run() -> Iterator[dict[str, object]]:
    """Try all cases, and count what was wrong."""
    found = sum((play(seed) for seed in range(CASES)), Counter[str]())
    for outcome in ("admitted", "refused", "wrongly admitted", "wrongly refused"):
        budget = {"budget": 0} if outcome.startswith("wrongly") else {}
        metric = f"scale-ups of {CASES} random groups, {outcome}"
        yield {"metric": metric, "value": found[outcome], "unit": "cases", **budget}


def play(seed: int) -> Counter[str]:
    """Ask about one pod on one group of nodes; return what was right or wrong."""
    rng = Random(seed)
    kind, asked = _kind(rng), PodInfo(_pod(rng, "asked"))
    try:
        (plan,) = nodes_of_kinds([kind])
        fresh, used = (NodeFactory({}).make(plan) for _ in range(2))
    except ConfigError:
        return Counter(["no such kubelet"])
    virtual, template = _world(rng, kind, used)
    picked = not virtual.refusal(asked, msgspec.Raw(msgspec.json.encode(template)))
    admitted = isinstance(fresh.kubelet.admit(asked.pod), Admitted)
    outcome = "admitted" if picked else "refused"
    return Counter([outcome if picked == admitted else f"wrongly {outcome}"])


def _world(rng: Random, kind: str, used: VirtualNode) -> tuple[VirtualNodes, Node]:
    """Return what an extender knows, and the template of a group."""
    settings, cluster = read_args({}), Cluster()
    cache = make_cache(settings.cache, frozenset())
    plugin = NodeNUMAResource(cluster, NodeNUMAResourceArgs())
    engine = AllottingEngine(cluster, make_engine(settings), plugin)
    virtual = VirtualNodes(Judge(cluster, engine, Nominations()), settings)
    way = rng.random()
    if way < 0.2:
        return virtual, _template(used.object, {}, {MACHINE: kind})
    if way < 0.4:
        groups = [{"name": "mine", "labels": {"pool": "mine"}, "node": kind}]
        virtual.described(Added(TextMap(data={KEY: dump_yaml({"groups": groups})})))
        return virtual, _template(used.object, {rng.choice((MACHINE, "pool")): "mine"}, {})
    labels = {rng.choice(GROUPS): "group", INSTANCE_TYPE: "type"}
    there = _template(used.object, labels, {}, name=used.name)
    cluster.set_node(there)
    for number in range(rng.randrange(4)):
        one = PodInfo(running(_pod(rng, f"p{number}"), used.name))
        if isinstance(used.admit(one), Admitted):
            cluster.place(one, used.name)
    cluster.take(cache.set_report(used.report(1, exact=True)), cache)
    return virtual, _template(there, labels, {})


def _template(
    node: Node, labels: dict[str, str], annotations: dict[str, str], name: str = "template"
) -> Node:
    metadata = msgspec.structs.replace(
        node.metadata,
        name=name,
        labels={**node.metadata.labels, **labels},
        annotations=annotations,
    )
    return msgspec.structs.replace(node, metadata=metadata)


def _kind(rng: Random) -> str:
    numa, cores = rng.choice((1, 2, 4)), rng.randint(2, 8)
    gpus = f", {GPU} {rng.randint(1, 4)}" if rng.random() < 0.6 else ""
    words = [f"policy={rng.choice(POLICIES)}", f"scope={rng.choice(('container', 'pod'))}"]
    if rng.random() < 0.3:
        words.append("full-pcpus-only=true")
    sockets = f"{rng.choice((1, 2))} sockets, {numa} numa"
    return f"{sockets}, {cores} cores, smt {rng.choice((1, 2))}, 16Gi{gpus}; {','.join(words)}"


def _pod(rng: Random, name: str) -> Pod:
    cpu = str(rng.randint(1, 24)) if rng.random() < 0.9 else f"{rng.randint(1, 4000)}m"
    also = {GPU: str(rng.randint(1, 6))} if rng.random() < 0.5 else {}
    return pod(name, cpu=cpu, memory=f"{rng.randint(1, 24)}Gi", also=also)
