"""A node's state in the kubelet's own files, and a kubelet that starts from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from tests.kubelet.build import admit, guaranteed, pod, reject, split_group, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht
from tests.kubelet.scenarios import workloads

from numakube.api.checkpoints import (
    cpu_manager_state,
    device_checkpoint,
    memory_manager_state,
    peek_memory_manager_state,
)
from numakube.api.checkpoints.cpu_manager_state import CpuManagerState
from numakube.api.checkpoints.memory_manager_state import (
    CheckpointMemoryBlock,
    MemoryManagerState,
    NumaNodeState,
)
from numakube.api.pod import Pod
from numakube.errors import CorruptCheckpoint, KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.state_files import StateFiles, restore, save
from numakube.values.cpuset import CpuSet

GPU = "vendor.example/gpu"
GPUS = {GPU: (Device("g0", (0,)), Device("g1", (1,)))}


def busy_settings() -> KubeletSettings:
    """Settings under which every manager is busy."""
    return static_settings(
        "restricted", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )


def busy_node(kubernetes: str = "1.35") -> KubeletNode:
    """A node with a pod that holds CPUs, memory and a GPU."""
    node = start(dual_socket_ht(), busy_settings(), devices=GPUS, kubernetes=kubernetes)
    admit(node, pod(guaranteed("c", "2", "1Gi", gpu="1")))
    return node


def twin(node: KubeletNode) -> KubeletNode:
    """A freshly started node on the same machine with the same settings."""
    major, minor = node.behaviour.version
    return KubeletNode(node.machine, node.settings, devices={}, kubernetes=f"{major}.{minor}")


@given(workloads())
def test_a_node_restored_from_its_files_writes_the_same_files(
    case: tuple[KubeletNode, list[Pod | str]],
) -> None:
    """Nothing is lost on the way, whatever ran there and whichever version wrote them."""
    node, steps = case
    # Kubelet 1.31 lets memory groups overlap and then refuses the file it has written itself.
    assume(node.behaviour.memory_group_rule)
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            node.admit(step)
    node.collect_garbage()
    # With every CPU exclusive the kubelet refuses the file it has written itself.
    assume(node.cpus is None or node.shared_cpus)
    files = save(node)
    other = twin(node)
    if _forgets_a_group(files):
        with pytest.raises(KubeletStartError, match="expected machine state is different"):
            restore(other, files)
        return
    restore(other, files)
    again = save(other)
    assert (again.cpu, again.memory) == (files.cpu, files.memory)
    assert other.devices.assignments == node.devices.assignments


def _forgets_a_group(files: StateFiles) -> bool:
    """Tell whether a NUMA node is said to be in a group that no pod on it has any more.

    A pod on one node of a group takes that node out of it until the last pod there is gone.
    """
    if files.memory is None:
        return False
    state = peek_memory_manager_state(files.memory)
    containers = [blocks for each in state.entries.values() for blocks in each.values()]
    pods = [entry.memory_blocks for entry in state.pod_entries.values()]
    groups = {block.numa_affinity for blocks in (*containers, *pods) for block in blocks}
    return any(
        other.number_of_assignments and other.cells not in groups
        for other in state.machine_state.values()
    )


@pytest.mark.parametrize("kubernetes", ["1.35", "1.37"])
def test_pods_come_back_to_what_they_held(kubernetes: str) -> None:
    """Also while the device plugin is not there yet; a pod that is gone is released at the end."""
    node = busy_node(kubernetes)
    admit(node, pod(guaranteed("c", "1"), uid="gone"))
    other = start(dual_socket_ht(), busy_settings(), kubernetes=kubernetes)
    restore(other, save(node))
    before = node.placement("uid", "c")
    after = admit(other, pod(guaranteed("c", "2", "1Gi", gpu="1"))).containers["c"]
    assert (after.cpus, after.memory, after.devices) == (before.cpus, before.memory, before.devices)
    assert other.cpus is not None
    assert "gone" in other.cpus.assignments
    other.all_pods_known()
    other.collect_garbage()
    assert "gone" not in other.cpus.assignments


def test_without_its_plugin_a_resource_has_no_devices_after_a_restart() -> None:
    """New pods have to wait until the plugin registers again."""
    other = start(dual_socket_ht(), busy_settings())
    restore(other, save(busy_node()))
    other.all_pods_known()
    refused = reject(other, pod(guaranteed("c", "1", gpu="1"), uid="new"))
    assert "no healthy devices present" in refused.message
    other.register_devices(GPU, GPUS[GPU])
    outcome = admit(other, pod(guaranteed("c", "1", gpu="1"), uid="new"))
    assert outcome.containers["c"].devices[GPU] == ("g0",)


def test_files_of_another_policy_or_a_broken_one_are_refused() -> None:
    """The message names the file to delete."""
    files = save(busy_node())
    plain = start(dual_socket_ht(), KubeletSettings())
    with pytest.raises(CorruptCheckpoint, match='configured policy "none" differs'):
        restore(plain, files)
    assert files.cpu is not None
    tree = json.loads(files.cpu)
    tree["defaultCpuSet"] = "0-11"
    with pytest.raises(CorruptCheckpoint, match="checkpoint is corrupted"):
        restore(twin(busy_node()), StateFiles(cpu=json.dumps(tree).encode()))


def other_machine() -> Machine:
    """The machine with twice the memory."""
    machine = dual_socket_ht()
    nodes = tuple(replace(node, memory_bytes=2 * node.memory_bytes) for node in machine.nodes)
    return replace(machine, nodes=nodes)


@pytest.mark.parametrize(
    ("machine", "settings", "text"),
    [
        (
            dual_socket_ht(),
            static_settings(reserved_cpus=CpuSet.of([2])),
            'not all reserved cpus: "2" are present in defaultCpuSet',
        ),
        (
            dual_socket_ht(),
            static_settings(cpu_options={"strict-cpu-reservation": "true"}),
            'some of strictly reserved cpus: "0" are present in defaultCpuSet',
        ),
        (
            other_machine(),
            busy_settings(),
            "the expected machine state is different from the real one",
        ),
    ],
)
def test_files_that_do_not_fit_the_node_any_more_are_refused(
    machine: Machine, settings: KubeletSettings, text: str
) -> None:
    """Changed reservations or hardware need the files to be deleted."""
    files = save(busy_node())
    if settings.memory_policy == "None":
        files = replace(files, memory=None)
    with pytest.raises(KubeletStartError, match=text):
        restore(start(machine, settings), files)


def test_groups_of_numa_nodes_and_their_refusal_are_those_of_a_real_kubelet() -> None:
    """Recorded from Kubernetes 1.35.7: what a rejected pod leaves keeps it from starting again."""
    node, groups = split_group()
    assert groups == [
        {0: ((0, 1), 1), 1: ((0, 1), 1)},
        {0: ((0, 1), 1), 1: ((1,), 2)},
        {0: ((0, 1), 1), 1: ((1,), 1)},
    ]
    with pytest.raises(KubeletStartError, match="expected machine state is different"):
        restore(start(node.machine, node.settings), save(node))
    node.remove("wide")
    node.collect_garbage()
    restore(start(node.machine, node.settings), save(node))


def test_no_files_is_a_first_start() -> None:
    """There is nothing to restore."""
    node = start(dual_socket_ht(), busy_settings())
    restore(node, StateFiles())
    assert str(node.shared_cpus) == "0-11"


def test_files_of_other_sizes_are_refused_though_as_much_is_left() -> None:
    """A machine that grew by what is reserved in addition."""
    before, settings = busy_node(), busy_settings()
    first, *others = before.machine.nodes
    (kept,) = settings.reserved_memory[first.id].values()
    grown = replace(first, memory_bytes=first.memory_bytes + kept)
    machine = replace(before.machine, nodes=(grown, *others))
    reserved = {**settings.reserved_memory, first.id: {"memory": 2 * kept}}
    after = start(machine, replace(settings, reserved_memory=reserved))
    assert before.memory is not None
    assert after.memory is not None
    assert after.memory.books[first.id].allocatable("memory") == (
        before.memory.books[first.id].allocatable("memory")
    )
    with pytest.raises(KubeletStartError, match="expected machine state is different"):
        restore(after, save(before))


def cpus_of(text: str) -> CpuSet:
    """Return a set of CPUs."""
    return CpuSet.parse(text)


@pytest.mark.parametrize(
    ("shared", "held", "complaint"),
    [
        ("0-11", {}, None),
        ("0-9", {"uid": {"c": "10-11"}}, None),
        ("", {"uid": {"c": "0-11"}}, "default cpuset cannot be empty"),
        ("0-10", {"uid": {"c": "10-11"}}, 'container: c cpuset: "10-11" overlaps with default'),
        ("0-9", {"uid": {"c": "10"}}, 'CPUs "0-11" doesn\'t match with CPUs in state "0-10"'),
        ("0-9", {"uid": {"c": "10-12"}}, 'CPUs "0-11" doesn\'t match with CPUs in state "0-12"'),
    ],
)
def test_cpus_in_a_file_have_to_be_those_of_the_machine(
    shared: str, held: dict[str, dict[str, str]], complaint: str | None
) -> None:
    """Each once: shared, or held by a container."""
    node = start(dual_socket_ht(), static_settings())
    entries = {
        uid: {name: cpus_of(text) for name, text in sets.items()} for uid, sets in held.items()
    }
    state = CpuManagerState(policy="static", default_cpus=cpus_of(shared), entries=entries)
    file = cpu_manager_state.write_cpu_manager_state(state)
    if complaint is None:
        restore(node, StateFiles(cpu=file))
        assert str(node.shared_cpus) == shared
    else:
        with pytest.raises(KubeletStartError, match=re.escape(complaint)):
            restore(node, StateFiles(cpu=file))


@pytest.mark.parametrize("kubernetes", ["1.35", "1.37"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_cpu_files_of_other_releases_are_read_as_the_kubelet_reads_them(
    kubernetes: str, version: int
) -> None:
    """Kubernetes 1.37 knows versions 2 to 4; each release reads what it knows."""
    node = start(dual_socket_ht(), static_settings(), kubernetes=kubernetes)
    state = CpuManagerState(policy="static", default_cpus=cpus_of("0-11"))
    files = StateFiles(cpu=cpu_manager_state.write_cpu_manager_state(state, version=version))
    if kubernetes == "1.37" and version == 1:
        with pytest.raises(CorruptCheckpoint):
            restore(node, files)
    else:
        restore(node, files)
        assert str(node.shared_cpus) == "0-11"


MemoryChange = Callable[[MemoryManagerState], MemoryManagerState]


def first_node(**changes: Any) -> MemoryChange:
    """Change what a file says of NUMA node 0."""

    def change(state: MemoryManagerState) -> MemoryManagerState:
        node: NumaNodeState = msgspec.structs.replace(state.machine_state[0], **changes)
        return msgspec.structs.replace(state, machine_state={**state.machine_state, 0: node})

    return change


def first_table(**changes: int) -> MemoryChange:
    """Change what a file says of the memory of NUMA node 0, beside which it is as it was."""

    def change(state: MemoryManagerState) -> MemoryManagerState:
        tables = state.machine_state[0].memory_map
        table = msgspec.structs.replace(tables["memory"], **changes)
        return first_node(memory_map={**tables, "memory": table})(state)

    return change


def held(*blocks: CheckpointMemoryBlock) -> MemoryChange:
    """Let the container have other blocks."""
    return lambda state: msgspec.structs.replace(state, entries={"uid": {"c": blocks}})


DIFFERENT = "the expected machine state is different from the real one"
WHO = "(pod: uid, container: c) the memory assignment uses "


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (first_node(number_of_assignments=2), DIFFERENT),
        (first_node(cells=(0, 1)), DIFFERENT),
        (first_node(memory_map={}), DIFFERENT),
        (first_table(total=5), DIFFERENT),
        (first_table(system_reserved=5), DIFFERENT),
        (first_table(allocatable=5), DIFFERENT),
        (first_table(reserved=5), DIFFERENT),
        (first_table(free=5), DIFFERENT),
        (held(CheckpointMemoryBlock(numa_affinity=(0,), type="memory", size=2 * GIB)), DIFFERENT),
        (
            held(CheckpointMemoryBlock(numa_affinity=(7,), type="memory", size=GIB)),
            WHO + "the NUMA that does not exist",
        ),
        (
            held(CheckpointMemoryBlock(numa_affinity=(0,), type="hugepages-1Gi", size=GIB)),
            WHO + "memory resource that does not exist",
        ),
        (
            lambda state: msgspec.structs.replace(state, machine_state={}),
            "machine state can not be empty when it has memory assignments",
        ),
        (
            lambda state: msgspec.structs.replace(state, machine_state={0: state.machine_state[0]}),
            DIFFERENT,
        ),
    ],
)
def test_memory_in_a_file_has_to_follow_from_the_machine_and_the_blocks(
    change: MemoryChange, complaint: str
) -> None:
    """Field by field."""
    node = busy_node()
    files = save(node)
    assert files.memory is not None
    state = memory_manager_state.read_memory_manager_state(files.memory)
    assert state.entries["uid"]["c"][0].numa_affinity == (0,)
    broken = memory_manager_state.write_memory_manager_state(change(state))
    with pytest.raises(KubeletStartError, match=re.escape(complaint)):
        restore(twin(node), StateFiles(memory=broken))


@pytest.mark.parametrize("kind", ["memory", "hugepages-1Gi"])
@pytest.mark.parametrize("field", ["total", "allocatable", "free", "reserved", "system_reserved"])
def test_every_kind_of_memory_in_a_file_has_to_follow(kind: str, field: str) -> None:
    """That others do is not enough."""
    machine = from_shape("2 sockets, 4 cores, 16Gi, hugepages-1Gi 4")
    node = start(machine, busy_settings())
    admit(node, pod(guaranteed("c", "2", "1Gi", huge="1Gi")))
    files = save(node)
    restore(twin(node), files)
    assert files.memory is not None
    state = memory_manager_state.read_memory_manager_state(files.memory)
    tables = state.machine_state[0].memory_map
    assert sorted(tables) == ["hugepages-1Gi", "memory"]
    wrong = msgspec.structs.replace(tables[kind], **{field: getattr(tables[kind], field) + 1})
    changed = first_node(memory_map={**tables, kind: wrong})(state)
    broken = memory_manager_state.write_memory_manager_state(changed)
    with pytest.raises(KubeletStartError, match=DIFFERENT):
        restore(twin(node), StateFiles(memory=broken))


def test_a_memory_file_without_anything_is_that_of_a_first_start() -> None:
    """Nothing is restored, and nothing is missed."""
    empty = MemoryManagerState(policy_name="Static")
    file = memory_manager_state.write_memory_manager_state(empty)
    node, fresh = twin(busy_node()), twin(busy_node())
    restore(node, StateFiles(memory=file))
    assert node.memory is not None
    assert fresh.memory is not None
    assert (node.memory.books, node.memory.assignments) == (fresh.memory.books, {})


def test_a_device_file_may_say_nothing_of_anything() -> None:
    """Go writes null for what is empty; a resource without its plugin is known by name."""
    state = device_checkpoint.DeviceManagerState(
        pod_device_entries=(
            device_checkpoint.PodDevices(
                pod_uid="uid", container_name="c", resource_name=GPU, device_ids=None
            ),
        ),
        registered_devices=None,
    )
    node = start(dual_socket_ht())
    restore(node, StateFiles(devices=device_checkpoint.write_device_manager_state(state)))
    assert node.devices.assignments == {"uid": {"c": {GPU: ()}}}
    assert list(node.devices.resources()) == [GPU]
    idle = start(dual_socket_ht(), devices=GPUS)
    file = save(idle).devices
    assert file is not None
    told = device_checkpoint.read_device_manager_state(file)
    assert (told.pod_device_entries, told.registered_devices) == (None, {GPU: ("g0", "g1")})
    again = start(dual_socket_ht())
    restore(again, StateFiles(devices=file))
    assert list(again.devices.resources()) == [GPU]


@pytest.mark.parametrize("resizes", [False, True])
def test_cpus_at_admission_are_in_the_file_if_containers_may_be_resized(resizes: bool) -> None:
    """Which is an alpha feature."""
    gates = {"InPlacePodVerticalScalingExclusiveCPUs": True} if resizes else {}
    node = start(dual_socket_ht(), static_settings(feature_gates=gates), kubernetes="1.37")
    admit(node, pod(guaranteed("c", "2"), uid="one"))
    file = save(node).cpu
    assert file is not None
    state = cpu_manager_state.read_cpu_manager_state(file)
    assert set(state.entries) == {"one"}
    assert state.baselines == (state.entries if resizes else {})


# What a kubelet makes of running pods when it starts again: their finished init containers.


MIB = 1024**2
RUNNING = {("uid", "app")}


def pinned(policy: str = "restricted", scope: str = "container") -> KubeletNode:
    """A node whose managers are all busy."""
    settings = static_settings(
        policy, topology_scope=scope, memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    return start(dual_socket_ht(), settings, devices=GPUS)


def restarted(node: KubeletNode, *, plugin: bool = True) -> KubeletNode:
    """The same node after a restart that the app container has survived."""
    twin = KubeletNode(node.machine, node.settings, devices=GPUS if plugin else {})
    restore(twin, save(node))
    twin.await_pods(RUNNING)
    return twin


def booked(node: KubeletNode) -> int:
    """Return the memory in MiB that is booked on all NUMA nodes."""
    assert node.memory is not None
    return sum(book.tables["memory"].reserved for book in node.memory.books.values()) // MIB


def with_init(init: str = "200Mi", app: str = "192Mi", **more: str) -> Pod:
    """A pod whose init container needs more memory than its app container."""
    return pod(
        guaranteed("app", "2", app), init=(guaranteed("init", "2", init, **more),), uid="uid"
    )


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_memory_of_a_finished_init_container_is_booked_again(scope: str) -> None:
    """Its rest of 8Mi goes when the app starts; after a restart all its 200Mi are booked."""
    node = pinned(scope=scope)
    admit(node, with_init())
    assert booked(node) == 200

    assert node.start_container("uid", "init") is False
    assert node.start_container("uid", "app") is True
    assert booked(node) == 192

    after = restarted(node)
    admit(after, with_init())
    after.all_pods_known()
    assert booked(after) == 392
    assert after.placement("uid", "app") == node.placement("uid", "app")

    assert after.start_container("uid", "app") is True
    assert booked(after) == 192


def test_a_pod_that_left_no_room_for_its_init_container_fails_at_the_restart() -> None:
    """The kubelet does not know that nobody needs that memory any more."""
    node = pinned("single-numa-node")
    assert node.memory is not None
    whole = node.memory.books[1].free("memory") // MIB
    admit(node, pod(guaranteed("c", "1", "6Gi"), uid="first"))
    admit(node, with_init(init=f"{whole}Mi", app=f"{whole - 8}Mi"))
    node.start_container("uid", "app")

    after = restarted(node)
    admit(after, pod(guaranteed("c", "1", "6Gi"), uid="first"))

    refused = reject(after, with_init(init=f"{whole}Mi", app=f"{whole - 8}Mi"))
    assert refused.reason == "UnexpectedAdmissionError"


def test_cpus_and_devices_of_a_finished_init_container_stay_its_own() -> None:
    """Nobody takes them away when the app starts, and a restart finds them."""
    node = pinned()
    admit(node, with_init(gpu="1"))
    before = node.placement("uid", "init")
    node.start_container("uid", "app")

    after = restarted(node)
    admit(after, with_init(gpu="1"))

    placed = after.placement("uid", "init")
    assert (placed.cpus, placed.devices) == (before.cpus, before.devices)
    assert after.shared_cpus == node.shared_cpus


def test_devices_of_a_finished_init_container_must_be_back_at_once() -> None:
    """Only a container that runs is known to have its devices."""
    node = pinned()
    admit(node, with_init(gpu="1"))
    node.start_container("uid", "app")

    refused = reject(restarted(node, plugin=False), with_init(gpu="1"))

    assert refused.message == (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        f"{GPU}, which is unexpected"
    )


def test_a_container_that_a_pod_has_no_longer_gives_back_what_it_held() -> None:
    """A pod that is admitted again with fewer containers keeps what the others hold."""
    settings = static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = start(dual_socket_ht(), settings, kubernetes="1.37")
    admit(node, pod(guaranteed("app", "2", "2Gi"), guaranteed("gone", "2", "1Gi")))
    assert node.memory is not None
    kept = node.placement("uid", "app")
    outcome = admit(node, pod(guaranteed("app", "2", "2Gi")))
    assert outcome.containers["app"].cpus == kept.cpus
    assert len(outcome.shared_cpus) == 10
    assert sum(books.tables["memory"].reserved for books in node.memory.books.values()) == 2 * GIB


def test_a_pod_that_has_its_memory_is_offered_just_that_again() -> None:
    """After a restart the kubelet asks for hints of running pods, too, and must not move them."""
    node = pinned(scope="pod")
    one = pod(guaranteed("app", "2", "192Mi"), uid="uid")
    admit(node, one)
    after = restarted(node)
    assert after.memory is not None
    found = after.memory.pod_hints(after.demand_of(one))
    assert found is not None
    hints = found["memory"]
    assert isinstance(hints, tuple)
    assert [(hint.mask, hint.preferred) for hint in hints] == [(1, True)]


def test_nothing_is_left_of_a_pod_that_is_gone() -> None:
    """Neither what it held nor where it was aligned."""
    node = pinned()
    admit(node, pod(guaranteed("c", "2"), uid="gone"))
    assert node.topology.hint_of("gone", "c").mask
    node.remove("gone")
    node.collect_garbage()
    assert "gone" not in node.topology.hints
    assert node.cpus is not None
    assert "gone" not in node.cpus.assignments
