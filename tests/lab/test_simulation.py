"""A simulation and the lab agree: same pods running, waiting and rejected.

The lab has an API server, kubelets, exporters and schedulers that run in real time; the simulation
has none of that. Each case is one node with a random machine and kubelet, to which random pods come
one after the other, from our scheduler or from a NUMA-blind one.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.api.scheduler_config import DEFAULT_SCHEDULER
from numakube.kubelet.machines.synthetic import from_shape
from numakube.kubelet.option_words import lab_configuration
from numakube.simulation.arms import scheduler_arm
from numakube.simulation.cluster_model import SimulatedCluster, SimulatedNode
from numakube.simulation.simulator import DEFAULTS, Run
from numakube.simulation.workload import Arrival, OwnerKind, Workload
from numakube.testing import GPU, pod_document, refusal_of
from numakube_lab.nodes.plan import NodePlan
from numakube_lab.testing import lab_cluster

CASES = 16
ROUNDS = 6
SHAPES = (
    "2 sockets, 4 cores, smt 2, 16Gi, gpu 2",
    "1 socket, 4 numa each, 3 cores, 8Gi, gpu 1",
    "2 sockets, 5 cores, 16Gi, gpu 1",
)
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


@dataclass(frozen=True)
class Case:
    """A node, and the pods that come to it in order."""

    plan: NodePlan
    arm: str
    pods: tuple[dict[str, Any], ...]


def _case(number: int) -> Case:
    dice = Random(number)
    machine = from_shape(dice.choice(SHAPES))
    words = {"policy": dice.choice(POLICIES), "scope": dice.choice(("container", "pod"))}
    name = f"node-{number}"
    plan = NodePlan(name=name, machine=machine, config=lab_configuration(machine, words))
    arm = dice.choice(("numakube", "least-allocated"))
    pods = tuple(_pod(f"case-{number}-{index}", name, arm, dice) for index in range(ROUNDS))
    return Case(plan, arm, pods)


def _pod(name: str, node: str, arm: str, dice: Random) -> dict[str, Any]:
    more: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}}
    if arm != "numakube":
        more["schedulerName"] = DEFAULT_SCHEDULER
    if dice.random() < 0.4:
        more["also"] = {GPU: str(dice.randint(1, 2))}
    return pod_document(name, str(dice.randint(1, 7)), f"{dice.randint(1, 6)}Gi", **more)


def _simulated(case: Case) -> dict[str, str]:
    plan = case.plan
    node = SimulatedNode(name=plan.name, machine=plan.machine, config=plan.config)
    arrivals = tuple(
        Arrival(at=10.0 * index, pod=convert(Pod, one), owner=OwnerKind.POD)
        for index, one in enumerate(case.pods)
    )
    run = Run(SimulatedCluster(nodes=(node,)), scheduler_arm(case.arm), 1, DEFAULTS)
    run.play(Workload(arrivals=arrivals))
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
    async with lab_cluster(plans=tuple(case.plan for case in cases)) as lab:
        await lab.start()
        for index in range(ROUNDS):
            await lab.create(*(case.pods[index] for case in cases))
            await lab.settled()
        found = {one.metadata.name: _fate(one) for one in lab.pods.store}
    assert found == expected
    assert {"Pending", "TopologyAffinityError"} <= {*expected.values()}
