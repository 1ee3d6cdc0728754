"""What the enforcer learns of pods and of its node, and how often it tells of trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
import structlog
from packages.placement.tests.enforcer.single import Node, group_of, pod_of

from numakube.api.checkpoints.cpu_manager_state import CpuManagerState, write_cpu_manager_state
from numakube.api.koordinator import keys
from numakube.api.meta import ObjectMeta
from numakube.api.pod import ContainerStatus, Pod, PodStatus
from numakube.errors import CorruptCheckpoint, MalformedObject
from numakube.kube.event_recorder import EventRecorder
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups.write_order import GroupSetting
from numakube.node.sysfs_machine import write_tree
from numakube.values.cpuset import CpuSet
from numakube_placement.enforcer.allowed_cpus import Decisions, MachineReader, PodProblem, state_of
from numakube_placement.enforcer.group_settings import GroupOwner, Target, Unpinned, elsewhere
from numakube_placement.enforcer.group_writing import Outcome
from numakube_placement.enforcer.metrics import Reporter
from numakube_placement.koordinator.cpu_pick import SharedPools

STATUS = json.dumps({"cpuset": "2-3"})


def pod(*, phase: str = "Running", labels: dict[str, str] | None = None, **annotations: str) -> Pod:
    """Return a pod with one container; annotations are named as in `keys`."""
    named = {getattr(keys, name, name): text for name, text in annotations.items()}
    return Pod(
        metadata=ObjectMeta(
            name="p", namespace="ns", uid="uid", labels=labels or {}, annotations=named
        ),
        status=PodStatus(
            phase=phase,
            container_statuses=(
                ContainerStatus(name="app", container_id="containerd://abc"),
                ContainerStatus(name="late"),
            ),
        ),
    )


def test_a_pod_is_its_allotment_and_its_containers() -> None:
    """Containers without an id have no group yet."""
    state = state_of(pod(labels={keys.QOS_CLASS: "LSE"}, RESOURCE_STATUS=STATUS), "u")
    assert (state.uid, state.name, state.qos) == ("u", "ns/p", "LSE")
    assert state.containers == {"abc": "app"}
    assert state.allotment is not None
    assert state.allotment.total.cpus == 0b1100


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_done_holds_nothing(phase: str) -> None:
    """Its CPUs are others' already."""
    assert state_of(pod(phase=phase, RESOURCE_STATUS=STATUS), "u").allotment is None


def test_what_others_observed_is_not_enforced() -> None:
    """Only what a scheduler has decided is."""
    observed = '[{"zone": "node-0", "amount": {"cpu": "8"}}]'
    assert state_of(pod(KAI_OBSERVED=observed), "u").allotment is None


def reader(folder: Path) -> MachineReader:
    """Return what reads a machine with two NUMA nodes of two CPUs."""
    write_tree(from_shape("2 sockets, 2 cores, 8Gi"), folder / "sys")
    return MachineReader(sysfs=folder / "sys", cpu_state=folder / "cpu_manager_state")


def test_a_node_without_a_cpu_manager_has_pinned_nobody(tmp_path: Path) -> None:
    """There may be no state file at all."""
    node = reader(tmp_path).read({})
    assert (node.static, node.pinned, node.kept) == (False, {}, 0)
    assert (node.layout.all, node.memory_nodes) == (0b1111, 0b11)


def test_what_a_static_cpu_manager_has_given_out_is_read(tmp_path: Path) -> None:
    """All containers of a pod together."""
    entries = {"uid": {"a": CpuSet.of([1]), "b": CpuSet.of([2])}}
    state = CpuManagerState(policy="static", default_cpus=CpuSet.of([0, 3]), entries=entries)
    (tmp_path / "cpu_manager_state").write_bytes(write_cpu_manager_state(state))
    node = reader(tmp_path).read({})
    assert (node.static, node.pinned) == (True, {"uid": 0b110})


def test_a_state_file_that_makes_no_sense_stops_everything(tmp_path: Path) -> None:
    """Pods that the kubelet has pinned must not be touched by mistake."""
    (tmp_path / "cpu_manager_state").write_text("{]")
    with pytest.raises(CorruptCheckpoint):
        reader(tmp_path).read({})


def test_a_host_without_cpus_is_refused(tmp_path: Path) -> None:
    """The message names the tree."""
    empty = MachineReader(sysfs=tmp_path, cpu_state=tmp_path / "none")
    with pytest.raises(MalformedObject, match=str(tmp_path)):
        empty.read({})


def test_the_owner_of_a_node_keeps_cpus_back(tmp_path: Path) -> None:
    """By Koordinator's annotations; an odd one is reported and counts as nothing."""
    node = reader(tmp_path)
    system = '{"cpuset": "3", "cpusetExclusive": false}'
    kept = {keys.NODE_RESERVATION: '{"reservedCPUs": "0"}', keys.NODE_SYSTEM_QOS: system}
    found = node.read(kept)
    assert (found.kept, found.system_cpus, node.problems) == (0b0001, 0b1000, [])
    odd = node.read({keys.NODE_RESERVATION: '{"reservedCPUs": "x"}', keys.NODE_SYSTEM_QOS: "{]"})
    assert (odd.kept, odd.system_cpus) == (0, 0)
    assert len(node.problems) == 2


def test_cpus_that_go_offline_are_noticed(tmp_path: Path) -> None:
    """The machine is read again only then."""
    node = reader(tmp_path)
    assert node.read({}).layout.all == 0b1111
    online = tmp_path / "sys/devices/system/cpu/online"
    online.write_text("0-2\n")
    assert node.read({}).layout.all == 0b0111


def test_trouble_is_told_once_and_again_after_it_was_gone() -> None:
    """Not with every pass."""
    nothing = SharedPools(shared={}, best_effort={})
    trouble = PodProblem(uid="uid", pod="ns/p", reason="Why", message="because")
    bad = Decisions(pools=nothing, pods={}, problems=(trouble, trouble))
    good = Decisions(pools=nothing, pods={})
    reporter = Reporter(None)
    told = []
    for decisions in (bad, bad, good, bad):
        with structlog.testing.capture_logs() as logs:
            reporter.report({}, decisions, Outcome())
        told.append([(log["event"], log["problem"]) for log in logs])
    bad_news, good_news = ("not_enforced", "because"), ("mended", "because")
    assert told == [[bad_news], [], [good_news], [bad_news]]


@pytest.mark.parametrize(
    ("pod", "container", "told"),
    [
        (
            GroupSetting(cpus=0, mems=0),
            GroupSetting(cpus=0, mems=0),
            "any CPUs instead of 0 and any memory nodes instead of 0",
        ),
        (GroupSetting(cpus=0b11, mems=0b1), GroupSetting(cpus=0, mems=0), "CPUs 0-1 instead of 0"),
        (
            GroupSetting(cpus=0b11, mems=0b1),
            GroupSetting(cpus=0b111, mems=0),
            "CPUs 0-1 instead of 0",
        ),
        (
            GroupSetting(cpus=0b11, mems=0b11),
            GroupSetting(cpus=0b11, mems=0b11),
            "CPUs 0-1 instead of 0 and memory nodes 0-1 instead of 0",
        ),
        (GroupSetting(cpus=0b1, mems=0b1), GroupSetting(cpus=0, mems=0), None),
        (GroupSetting(cpus=0, mems=0), GroupSetting(cpus=0b1, mems=0b1), None),
    ],
)
def test_where_a_container_began_is_what_its_groups_allowed(
    pod: GroupSetting, container: GroupSetting, told: str | None
) -> None:
    """Its own group and the pod's together; an empty set limits nothing."""
    owner = GroupOwner(uid="u", pod="ns/p", container="app")
    target = Target(owner=owner, setting=GroupSetting(cpus=0b1, mems=0b1))
    now = {"pods/a": pod, "pods/a/app": container}
    had = elsewhere(target, "pods/a/app", now)
    if told is None:
        assert had is None
        return
    assert had is not None
    problem = Unpinned(owner=owner, had=had, wanted=target.setting).problem
    assert (problem.reason, problem.uid, problem.pod) == ("StartedUnpinned", "u", "ns/p")
    assert problem.message == f"container app started with {told}; it has been set right"


class Noted:
    """A recorder of events that keeps them."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def warning(self, about: object, reason: str, message: str) -> None:
        """Keep the reason."""
        self.reasons.append(reason)


def test_only_a_pod_that_the_api_has_gets_an_event() -> None:
    """Another one is in the log alone."""
    noted = Noted()
    reporter = Reporter(cast(EventRecorder, noted))
    problems = tuple(
        PodProblem(uid=uid, pod=f"ns/{uid}", reason=f"Of{uid}", message="bad") for uid in "ab"
    )
    decisions = Decisions(pools=SharedPools(shared={}, best_effort={}), pods={}, problems=problems)
    reporter.report({"a": pod_of("a")}, decisions, Outcome())
    assert noted.reasons == ["Ofa"]


async def test_the_log_counts_what_was_written_for_pods_that_share(tmp_path: Path) -> None:
    """One line for all of them: each is too much where hundreds move."""
    node = Node(tmp_path, known={"a": pod_of("a", {"cpuset": "0"}), "b": pod_of("b")})
    node.groups.add(group_of("a"))
    for number in range(2):
        node.groups.add(group_of("b", f"{number:064x}"))
    with structlog.testing.capture_logs() as logs:
        await node.enforcer.step()
        await node.enforcer.step()
    counted = [log for log in logs if log["event"] == "shared_groups_written"]
    assert [record["files"] for record in counted] == [1]
