"""A simulation and the lab agree: same pods running, waiting and rejected.

The lab has an API server, kubelets, exporters and schedulers that run in real time; the simulation
has none of that. Each case is up to four nodes with random machines and kubelets, to which random
pods come one after the other, from our scheduler or from a NUMA-blind one. Nodes are preferred by
weights, so that chance has no say. ``SIMULATION_CASES=50`` tries more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.api.scheduler_config import DEFAULT_SCHEDULER
from numakube.insight.node_setup import NodeSetup
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import GPU, pod_document, refusal_of
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import lab_cluster
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulated_cluster import SimulatedCluster
from numakube_planning.simulation.simulator import DEFAULTS, Run
from numakube_planning.simulation.workload import Arrival, ArrivingWork, OwnerKind

CASES = int(os.environ.get("SIMULATION_CASES", "8"))
ROUNDS = 6
SHAPES = (
    "2 sockets, 4 cores, smt 2, 16Gi, gpu 2",
    "1 socket, 4 numa each, 3 cores, 8Gi, gpu 1",
    "2 sockets, 5 cores, 16Gi, gpu 1",
)
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


@dataclass(frozen=True)
class Case:
    """Nodes, and the pods that come to them in order."""

    plans: tuple[NodePlan, ...]
    arm: str
    pods: tuple[dict[str, Any], ...]


def _case(number: int) -> Case:
    dice = Random(number)
    plans = tuple(_plan(number, index, dice) for index in range(number % 4 + 1))
    arm = dice.choice(("numakube", "least-allocated"))
    pods = tuple(_pod(number, index, arm, dice) for index in range(ROUNDS * len(plans)))
    return Case(plans, arm, pods)


def _plan(case: int, index: int, dice: Random) -> NodePlan:
    machine = from_shape(dice.choice(SHAPES))
    words = {"policy": dice.choice(POLICIES), "scope": dice.choice(("container", "pod"))}
    config = lab_configuration(machine, words)
    labels = {"case": str(case)}
    return NodePlan(name=f"node-{case}-{index}", machine=machine, config=config, labels=labels)


def _pod(case: int, index: int, arm: str, dice: Random) -> dict[str, Any]:
    nodes = case % 4 + 1
    more: dict[str, Any] = {"nodeSelector": {"case": str(case)}}
    if nodes > 1:
        wishes = dice.sample(range(1, 101), nodes)
        more["affinity"] = {"nodeAffinity": {_PREFERRED: [*_preferred(case, wishes)]}}
    if arm != "numakube":
        more["schedulerName"] = DEFAULT_SCHEDULER
    if dice.random() < 0.4:
        more["also"] = {GPU: str(dice.randint(1, 2))}
    cpus, memory = str(dice.randint(1, 7)), f"{dice.randint(1, 6)}Gi"
    return pod_document(f"case-{case}-{index}", cpus, memory, **more)


def _preferred(case: int, weights: list[int]) -> Iterator[dict[str, Any]]:
    for index, weight in enumerate(weights):
        values = [f"node-{case}-{index}"]
        wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": values}
        yield {"weight": weight, "preference": {"matchExpressions": [wanted]}}


def _simulated(case: Case) -> dict[str, str]:
    nodes = tuple(
        NodeSetup(name=plan.name, machine=plan.machine, config=plan.config, labels=plan.labels)
        for plan in case.plans
    )
    arrivals = tuple(
        Arrival(at=10.0 * index, pod=convert(Pod, one), owner=OwnerKind.POD)
        for index, one in enumerate(case.pods)
    )
    run = Run(SimulatedCluster(nodes=nodes), scheduler_arm(case.arm), 1, DEFAULTS)
    run.play(ArrivingWork(arrivals=arrivals))
    return run.fates()


def _fate(one: Pod) -> str:
    status = one.status
    assert status is not None
    if status.phase == "Failed":
        return status.reason
    assert status.phase == "Running" or refusal_of(one), msgspec.to_builtins(one)
    return one.spec.node_name or "Pending"


async def test_the_simulation_ends_as_the_lab_does() -> None:
    """Every pod runs, waits or is rejected, for the same reason, in both."""
    cases = [_case(number) for number in range(CASES)]
    expected = {name: fate for case in cases for name, fate in _simulated(case).items()}
    async with lab_cluster(plans=tuple(plan for case in cases for plan in case.plans)) as lab:
        await lab.start()
        for index in range(max(len(case.pods) for case in cases)):
            await lab.create(*(case.pods[index] for case in cases if index < len(case.pods)))
            await lab.settled()
        found = {pod.metadata.name: _fate(pod) for pod in lab.pods.store}
    assert found == expected
    assert {"Pending", "TopologyAffinityError"} <= {*expected.values()}
