"""Filtering and scoring with all plugins of the default profile on a large, full cluster.

5,000 nodes, 50,000 pods of 2,000 deployments with a service each; every tenth deployment has
anti-affinity. Each pod that is judged is also placed, so that nothing is measured twice. Times are
CPU time of one thread, so that a busy machine does not spoil them.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
)
from numakube.api.meta import LabelSelector, ObjectMeta, OwnerReference
from numakube.api.nodes import ContainerImage, Node, NodeSpec, NodeStatus
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.api.workloads import OwnerSpec, ReplicaSet, Service, ServiceSpec
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime, Scores
from numakube.scheduling.framework.status import Diagnosis
from numakube.scheduling.plugins.default_plugins import default_plugins, default_weights
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES, PODS, APPS = 5000, 50_000, 2000
ROUNDS: Final = 100
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


def run() -> Iterator[dict[str, object]]:
    """Yield the time of a decision for several kinds of pods."""
    cluster = make_cluster()
    kinds: dict[str, tuple[float, Callable[[int], PodInfo]]] = {
        "plain, one deployment": (5, lambda i: pod(f"a{i}", 3)),
        "plain, many deployments": (5, lambda i: pod(f"b{i}", i * 7 % APPS)),
        "spread and anti-affinity": (15, lambda i: demanding(f"c{i}", i * 10 % APPS)),
    }
    for name, (budget, make) in kinds.items():
        median = statistics.median(decisions(cluster, make))
        metric = f"{name}: filter + score, {NODES} nodes, {PODS} pods"
        yield {"metric": metric, "value": round(1e3 * median, 2), "unit": "ms", "budget": budget}


def decisions(cluster: Cluster, make: Callable[[int], PodInfo]) -> list[float]:
    """Return the seconds that each of several decisions took."""
    runtime = Runtime(profile_of("benchmark", default_plugins(), default_weights()))
    times = []
    for number in range(ROUNDS):
        new = make(number)
        start = time.thread_time()
        node = decide(cluster, runtime, new)
        times.append(time.thread_time() - start)
        cluster.place(new, node)
    return times


def decide(cluster: Cluster, runtime: Runtime, new: PodInfo) -> str:
    """Return the best node for *new*."""
    snapshot, state, diagnosis = cluster.snapshot(), CycleState(), Diagnosis()
    rows = runtime.pre_filter(state, new, snapshot, diagnosis)
    rows = runtime.filter(state, new, snapshot, rows, diagnosis)
    scores = runtime.score(state, new, snapshot, rows)
    assert isinstance(scores, Scores), scores
    return snapshot.at(int(rows[scores.total.argmax()])).name


def make_cluster() -> Cluster:
    """Return the cluster that pods are placed in."""
    cluster = Cluster()
    for index in range(NODES):
        cluster.set_node(node(index))
    for app in range(APPS):
        meta = ObjectMeta(name=f"app{app}", namespace=namespace(app))
        owner = ReplicaSet(metadata=meta, spec=OwnerSpec(selector=same(app)))
        service = Service(metadata=meta, spec=ServiceSpec(selector={"app": f"app{app}"}))
        cluster.objects.replica_sets[meta.key] = owner
        cluster.objects.services[meta.key] = service
    for index in range(PODS):
        app = index % APPS
        one = pod(f"p{index}", app, affinity=apart(app) if app % 10 == 0 else None)
        cluster.place(one, f"n{(index * 7 + index // APPS) % NODES}")
    return cluster


def node(index: int) -> Node:
    """Return one of three zones' nodes; one in fifty is tainted."""
    images = (
        ContainerImage(names=(f"image{index * k % 500}:1",), size_bytes=10**8) for k in (1, 3)
    )
    return Node(
        metadata=ObjectMeta(
            name=f"n{index}", labels={HOSTNAME: f"n{index}", ZONE: f"z{index % 3}"}
        ),
        spec=NodeSpec(taints=() if index % 50 else (Taint(key="special", effect="NoSchedule"),)),
        status=NodeStatus(
            allocatable={"cpu": "64", "memory": "256Gi", "pods": "110"}, images=tuple(images)
        ),
    )


def namespace(app: int) -> str:
    """Return the namespace of an app."""
    return f"ns{app % 40}"


def same(app: int) -> LabelSelector:
    """Return a selector for the pods of an app."""
    return LabelSelector(match_labels={"app": f"app{app}"})


def apart(app: int) -> Affinity:
    """Return anti-affinity that keeps pods of an app on different nodes."""
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=same(app))
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


def demanding(name: str, app: int) -> PodInfo:
    """Return a pod with anti-affinity and spread constraints."""
    spread = tuple(
        TopologySpreadConstraint(
            max_skew=5, topology_key=key, when_unsatisfiable=action, label_selector=same(app)
        )
        for key, action in ((ZONE, "DoNotSchedule"), (HOSTNAME, "ScheduleAnyway"))
    )
    return pod(name, app, affinity=apart(app), spread=spread)


def pod(
    name: str,
    app: int,
    *,
    affinity: Affinity | None = None,
    spread: tuple[TopologySpreadConstraint, ...] = (),
) -> PodInfo:
    """Return a pod of an app."""
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name=f"app{app}", uid=f"{app}", controller=True
    )
    requests = ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"})
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=namespace(app),
                uid=name,
                labels={"app": f"app{app}"},
                owner_references=(owner,),
            ),
            spec=PodSpec(
                containers=(Container(name="c", image=f"image{app % 500}:1", resources=requests),),
                affinity=affinity,
                topology_spread_constraints=spread,
            ),
        )
    )
