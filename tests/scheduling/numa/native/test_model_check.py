"""The model has the last word, and is not asked twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from tests.kubelet.build import guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, build_machine
from tests.kubelet.connected import asks, gpu_server
from tests.kubelet.scenarios import pods, workloads
from tests.scheduling.numa.native.build import info_of_model
from tests.scheduling.numa.native.clusters import Belief
from tests.scheduling.numa.native.test_against_model import run

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Container, Pod, PodSpec
from numakube.api.strictness import strictness_of
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Machine
from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    Kind,
)
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.model_check import (
    Confirmed,
    DeviceForecasts,
    ModelCheck,
    Worths,
    ask_model,
)
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import Fidelity, NativeOptions
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World
from numakube.testing import pod as plain_pod
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.annotation_checks import pod_problems


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
    assert isinstance(answer, AlignmentRefusal)
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
    assert status.refused
    assert status.message == "kubelet would refuse container (SMTAlignmentError)"
    assert isinstance(status.detail, AlignmentRefusalGroup)
    refusal = status.detail.closest
    assert (refusal.container, refusal.role) == ("main", ContainerRole.APP)
    assert "not enough free physical CPUs" in refusal.detail


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
        assert isinstance(answer, AlignmentRefusal)
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
    assert isinstance(answer, AlignmentRefusal)
    assert (answer.resource, answer.zones, answer.wanted, answer.free) == short
    assert (answer.role, answer.one_of_several) == (ContainerRole.APP, False)


# ------------------------------------------------------------------------------------------------
# Pods with GPUs and network cards go where these are close, and only there if they ask for it.

TOGETHER = gpu_server()
"""Each switch has a GPU and a card."""
APART = gpu_server(("gg", "nn", "gg", "nn"))
"""No switch has both."""
UNKNOWN = Machine(TOGETHER.nodes, TOGETHER.cpu_count, TOGETHER.socket_count, TOGETHER.devices)
"""It is not known what is behind which switch."""


def node(machine: Machine, policy: str = "single-numa-node") -> NodeInfo:
    """Return an idle node."""
    return info_of_model(start(machine, static_settings(policy), devices=machine.devices))


def asking(closeness: str = "", luck: str = "", container: Container | None = None) -> PodInfo:
    """Return a pod with two GPUs and two cards, or another container."""
    words = {"numakube.dev/closeness": closeness, "numakube.dev/closeness-luck": luck}
    annotations = {key: word for key, word in words.items() if word}
    spec = PodSpec(containers=(container or asks(2, 2),))
    return PodInfo(Pod(metadata=ObjectMeta(name="p", uid="p", annotations=annotations), spec=spec))


def refusal(pod: PodInfo, on: NodeInfo) -> str:
    """Return why *pod* is refused, by counts or by the model; empty if it is not."""
    engine = NativeEngine()
    for check in (engine.filter, engine.confirm):
        status = check(CycleState(), pod, on)
        if not status.ok:
            return status.message
    return ""


PAIR = "vendor.example/gpu and vendor.example/nic"


@pytest.mark.parametrize(
    ("closeness", "machine", "message"),
    [
        ("same-switch", TOGETHER, ""),
        ("same-switch", APART, f"devices not close enough (same-switch: {PAIR} would be NODE)"),
        ("same-root", APART, f"devices not close enough (same-root: {PAIR} would be NODE)"),
        ("same-numa", APART, ""),
        ("", APART, ""),
        (
            "same-switch",
            UNKNOWN,
            "devices not close enough (same-switch: not known how devices are connected)",
        ),
        ("", UNKNOWN, ""),
    ],
)
def test_a_pod_is_placed_only_where_its_devices_are_as_close_as_it_asks(
    closeness: str, machine: Machine, message: str
) -> None:
    """And it is said how close they would be."""
    assert refusal(asking(closeness), node(machine)) == message


def test_where_only_luck_decides_a_pod_can_say_no() -> None:
    """One GPU of two and one card of two: the kubelet takes any."""
    one_of_each = asks(1, 1)
    assert refusal(asking("same-switch", container=one_of_each), node(TOGETHER)) == ""
    told = refusal(asking("same-switch", "Refuse", one_of_each), node(TOGETHER))
    assert told == f"devices not close enough (same-switch: {PAIR} may be NODE, by luck)"


def test_asking_for_closeness_means_nothing_to_a_pod_without_two_kinds_of_devices() -> None:
    """It goes anywhere, whatever is known there."""
    for container in (asks(2, 0), guaranteed("main", "2", "1Gi")):
        assert refusal(asking("same-switch", container=container), node(UNKNOWN)) == ""


def test_a_word_that_is_not_known_is_refused_at_every_gate() -> None:
    """The webhook and the check of files say the same as the scheduler."""
    pod = asking("same-swich")
    told = (
        "metadata.annotations[numakube.dev/closeness]: unknown word 'same-swich': "
        "use one of same-switch, same-root, same-numa"
    )
    assert refusal(pod, node(TOGETHER)) == told
    assert pod_problems(pod.pod) == (told,)
    assert strictness_of({"numakube.dev/closeness-luck": "no"}).mistakes


def test_nodes_whose_devices_will_be_close_are_rated_higher() -> None:
    """Certain closeness before luck, luck before none; alone and among all nodes alike."""
    cluster, cache = Cluster(), Predict()
    machines = {"apart": APART, "luck": gpu_server(("ggn", "n", "ggn", "n")), "close": TOGETHER}
    for name, machine in machines.items():
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        kubelet = start(machine, static_settings("single-numa-node"), devices=machine.devices)
        cluster.take(cache.set_report(nrt_of(name, kubelet)), cache)
    snapshot, pod, engine = cluster.snapshot(), asking(container=asks(2, 1)), NativeEngine()
    rows = snapshot.rows
    together = engine.score_all(CycleState(), pod, snapshot, rows)
    alone = [engine.score(CycleState(), pod, snapshot.at(int(row))) for row in rows]
    assert together.tolist() == alone
    rated = {
        snapshot.at(int(row)).name: int(score) for row, score in zip(rows, together, strict=True)
    }
    assert rated["close"] > rated["luck"] > rated["apart"]
    again = engine.score_all(CycleState(), pod, snapshot, rows)
    assert np.array_equal(again, together)


def test_the_best_nodes_are_asked_first_and_again_only_when_they_change() -> None:
    """Asking the model about thousands of nodes at once would hold up every other pod."""
    worths, asked = Worths(), list[int]()
    rows, change = np.arange(300), np.ones(300, dtype=np.int64)
    scores = np.minimum(rows, MAX_NODE_SCORE).astype(np.int8)

    def ask(row: int) -> float:
        asked.append(row)
        return 1.0

    first = worths.of(rows, scores, change, ask)
    assert asked == [*range(100, 300), *range(99, 43, -1)]
    assert (first == 1.0).tolist() == [False] * 44 + [True] * 256
    assert (worths.of(rows, scores, change, ask) == 1.0).all()
    assert sorted(asked) == list(range(300))
    change[7] = 2
    worths.of(rows, scores, change, ask)
    assert asked[300:] == [7]


def test_a_node_that_does_not_tell_how_devices_are_connected_is_refused_by_counts_alone() -> None:
    """There is nothing that the model could add; one that does not ask does not mind."""
    engine = NativeEngine()
    assert not engine.filter(CycleState(), asking("same-switch"), node(UNKNOWN)).ok
    assert engine.filter(CycleState(), asking("same-switch"), node(TOGETHER)).ok
    assert engine.filter(CycleState(), asking(), node(UNKNOWN)).ok


def test_what_was_foreseen_of_devices_holds_until_the_node_changes() -> None:
    """And so many pods and nodes are remembered as was said."""
    forecasts, one = DeviceForecasts(remembered=1), asking("same-switch")
    there, changed = node(TOGETHER), node(APART)
    near = forecasts.of(one, there)
    assert near is not None
    assert forecasts.of(one, there) is near
    there.numa = changed.numa
    far = forecasts.of(one, there)
    assert far is not None
    assert far != near
    assert forecasts.of(one, there) is far
    forecasts.of(asking("same-switch", container=asks(1, 1)), there)
    assert forecasts.of(one, there) is not far
