"""The model has the last word, and is not asked twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from tests.kubelet.build import guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, build_machine
from tests.kubelet.scenarios import pods, workloads
from tests.scheduling.numa.native.build import info_of_model
from tests.scheduling.numa.native.clusters import Belief
from tests.scheduling.numa.native.test_against_model import run

from numakube.api.pod import Pod
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.pod_demand import Role
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.alignment_rejection import Kind, Rejection, RejectionGroup
from numakube.scheduling.numa.native.model_check import Confirmed, ModelCheck, ask_model
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import Fidelity, NativeOptions
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World
from numakube.testing import pod as plain_pod
from numakube.values.cpuset import CpuSet


@settings(max_examples=60)
@given(workloads(), pods("new"))
def test_the_model_is_believed(case: tuple[KubeletNode, list[Pod | str]], pod: Pod) -> None:
    """What it says is passed on: a placement, or a refusal with the container that failed."""
    node, steps = case
    run(node, steps)
    answer = ModelCheck(remembered=10).check(PodInfo(pod), info_of_model(node))
    truth = node.clone().admit(pod)
    if isinstance(truth, Admitted):
        assert answer == truth
        return
    assert isinstance(truth, Rejected)
    assert isinstance(answer, Rejection)
    assert (answer.container, answer.reason) == (truth.container or "", truth.reason)
    assert answer.kind is Kind.KUBELET
    assert answer.detail
    assert truth.reason in answer.message


def smt_node() -> KubeletNode:
    """A node of four cores with two threads each that hands out whole cores only."""
    cores = [(0, 0, (core, core + 4)) for core in range(4)]
    settings = static_settings(
        "single-numa-node",
        cpu_options={"full-pcpus-only": "true"},
        reserved_cpus=CpuSet.of([0, 1]),
    )
    return start(build_machine(cores, memory_bytes=8 * GIB), settings)


BROKEN = pod(guaranteed("main", "6"))
"""Six CPUs are free, but only two cores: the other two are shared with the system."""


@pytest.mark.parametrize(("cpus", "fits"), [("2", True), ("3", False)])
def test_half_a_core_is_refused_by_counts_alone(cpus: str, fits: bool) -> None:
    """Six CPUs are free."""
    info = PodInfo(pod(guaranteed("main", cpus)))
    assert NativeEngine().filter(CycleState(), info, info_of_model(smt_node())).ok is fits


def test_what_counts_cannot_see_the_model_refuses() -> None:
    """Six CPUs are free, but only two whole cores."""
    info, node = PodInfo(BROKEN), info_of_model(smt_node())
    engine = NativeEngine()
    assert engine.filter(CycleState(), info, node).ok
    status = engine.confirm(CycleState(), info, node)
    assert status.rejected
    assert status.message == "kubelet would refuse container (SMTAlignmentError)"
    assert isinstance(status.detail, RejectionGroup)
    rejection = status.detail.closest
    assert (rejection.container, rejection.role) == ("main", Role.APP)
    assert "not enough free physical CPUs" in rejection.detail


def test_with_fidelity_counts_the_model_is_not_asked() -> None:
    """It would have refused."""
    engine = NativeEngine(NativeOptions(fidelity=Fidelity.COUNTS))
    info = PodInfo(BROKEN)
    assert engine.confirm(CycleState(), info, info_of_model(smt_node())).ok


def test_without_exact_data_nobody_objects() -> None:
    """There is nothing to ask."""
    node = info_of_model(smt_node())
    assert isinstance(node.numa, Belief)
    node.numa = replace(node.numa, kubelet=None)
    info = PodInfo(BROKEN)
    assert NativeEngine().confirm(CycleState(), info, node).ok


@dataclass(frozen=True)
class CountedBelief(Belief):
    """Tells how often its model was asked for."""

    asked: list[int] | None = None

    def model(self) -> KubeletNode | None:
        """Note the question."""
        if self.asked is not None:
            self.asked.append(1)
        return self.kubelet


def test_a_refusal_is_remembered_until_the_node_changes() -> None:
    """A replica of a refused pod is refused without asking; a new belief is asked again."""
    node, asked = info_of_model(smt_node()), list[int]()
    assert node.numa is not None
    belief = CountedBelief(node.numa.topology, kubelet=node.numa.model(), asked=asked)
    check = ModelCheck(remembered=10)
    for uid in ("one", "two"):
        node.numa = belief
        answer = check.check(PodInfo(pod(guaranteed("main", "6"), uid=uid)), node)
        assert isinstance(answer, Rejection)
    assert len(asked) == 1
    node.numa = replace(belief)
    check.check(PodInfo(BROKEN), node)
    assert len(asked) == 2
    check.check(PodInfo(pod(guaranteed("main", "4"))), node)
    assert len(asked) == 3


@pytest.mark.parametrize("limit", [1, 5])
def test_candidates_are_asked_in_order_until_one_admits(limit: int) -> None:
    """Those that refuse are told, up to the limit."""
    small, other = info_of_model(smt_node(), "small"), info_of_model(smt_node(), "other")
    plain = build_machine([(0, 0, (core,)) for core in range(8)], memory_bytes=8 * GIB)
    large = info_of_model(start(plain, static_settings("single-numa-node")), "large")
    info = PodInfo(BROKEN)
    found = ModelCheck(remembered=10).confirm(info, [small, other, large], limit=limit)
    if limit == 1:
        assert isinstance(found, dict)
        assert list(found) == ["small"]
        return
    assert isinstance(found, Confirmed)
    assert found.node is large
    assert found.placement is not None
    assert list(found.refused) == ["small", "other"]


@pytest.mark.parametrize(
    ("cpu", "memory", "short"),
    [
        ("9", "2Gi", ("cpu", (1,), 9000, 8000)),
        ("9", "17Gi", ("cpu", (1,), 9000, 8000)),
        ("2", "17Gi", ("memory", (1,), 17 * GIB, 16 * GIB)),
        ("9", "40Gi", ("memory", (1,), 40 * GIB, 16 * GIB)),
        ("20", "17Gi", ("cpu", (1,), 20000, 8000)),
    ],
)
def test_a_refusal_names_the_resource_of_which_the_largest_part_is_lacking(
    cpu: str, memory: str, short: tuple[str, tuple[int, ...], int, int]
) -> None:
    """On the NUMA node that has most of it; of equal ones on the first."""
    model = World().add_node("n0")
    answer = ask_model(PodInfo(plain_pod("p", cpu, memory)), model)
    assert isinstance(answer, Rejection)
    assert (answer.resource, answer.zones, answer.wanted, answer.free) == short
    assert (answer.role, answer.one_of_several) == (Role.APP, False)
