"""When a kubelet's answers are believed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec
import pytest
from tests.apps.exporter.build import configuration
from tests.apps.exporter.test_node_scan import Kubelet, reader
from tests.kubelet.build import split_group, start
from tests.kubelet.conftest import dual_socket_ht

from numakube.api.checkpoints import CpuManagerState, DeviceManagerState, MemoryManagerState
from numakube.api.checkpoints.device_checkpoint import PodDevices
from numakube.api.checkpoints.memory_manager_state import CheckpointMemoryBlock
from numakube.apps.exporter.kubelet_checkpoints import (
    Checkpoints,
    HiddenUse,
    read_checkpoints,
    start_trouble,
)
from numakube.apps.exporter.node_scan import KubeletFacts, NodeReader, PodName
from numakube.errors import KubeletNotReady, KubeletUnavailable, KubeletWillNotStart
from numakube.kubelet.state_files import save
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Memory,
    PodResources,
)
from numakube.values.cpuset import CpuSet
from numakube_lab.nodes.node_folder import allocatable_resources


class Book:
    """The API's pods: all that exist, and those whose status has a start time."""

    def __init__(self, *pods: str, started: Collection[str] = ()) -> None:
        self.pods = pods
        self.have_started = frozenset(started)

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return a uid for every pod."""
        return {name: f"uid-{name[1]}" for name in listed if name[1] in self.pods}

    def started(self) -> frozenset[str]:
        """Return the uids of those that have started."""
        return frozenset(f"uid-{name}" for name in self.have_started)

    def expected(self, admitted: Collection[str]) -> frozenset[PodName] | None:
        """Return the pods that have been admitted some time."""
        return frozenset(("d", name) for name in self.pods if f"uid-{name}" in admitted)

    def terminal(self) -> frozenset[PodName]:
        """Return nobody."""
        return frozenset()

    def aliases(self) -> Mapping[str, str]:
        """Return that ``static`` is known to the kubelet by another uid."""
        return {"hash-of-static": "uid-static"}


class Files:
    """State files that can be replaced, also while the kubelet is asked."""

    def __init__(self, **files: object) -> None:
        self.now = Checkpoints(**files)  # type: ignore[arg-type]

    def read(self) -> Checkpoints:
        """Return them."""
        return self.now


def listed(*names: str, cpus: tuple[int, ...] = ()) -> tuple[PodResources, ...]:
    """Return pods as the kubelet lists them."""
    main = ContainerResources("main", cpu_ids=cpus)
    return tuple(PodResources(name, "d", (main,)) for name in names)


def static(*uids: str) -> CpuManagerState:
    """Return a CPU Manager's file with an exclusive CPU for each of *uids*."""
    entries = {uid: {"main": CpuSet.of([number])} for number, uid in enumerate(uids)}
    return CpuManagerState(policy="static", default_cpus=CpuSet(), entries=entries)


async def counted(node: NodeReader) -> set[str]:
    """Return the pods that count in the next report."""
    return {pod.name for pod in (await node.read()).pods}


async def test_who_is_noted_as_admitted_or_has_started_counts() -> None:
    """Static pods by the uid of their image in the API; without the note the status decides."""
    kubelet = Kubelet(pods=listed("noted", "started", "arriving", "static"))
    files = Files(allocated=frozenset({"uid-noted", "hash-of-static"}))
    book = Book("noted", "started", "arriving", "static", started=["started"])
    assert await counted(reader(kubelet, checkpoints=files, pods=book)) == {
        "noted",
        "started",
        "static",
    }


async def test_who_is_noted_while_the_kubelet_is_asked_does_not_count_yet() -> None:
    """The list may be older than the note; the note itself leads to the next scan."""

    class Slow(Kubelet):
        async def list_pods(self) -> tuple[PodResources, ...]:
            answer = await super().list_pods()
            files.now = Checkpoints(allocated=files.now.allocated | {f"uid-{len(asked)}"})
            asked.append(answer)
            return answer

    asked: list[object] = []
    files = Files()
    node = reader(Slow(pods=listed("0", "1", "2")), checkpoints=files, pods=Book("0", "1", "2"))
    assert await counted(node) == {"0", "1"}
    assert files.now.allocated == {"uid-0", "uid-1", "uid-2"}


async def test_pods_that_the_api_does_not_know_count_as_they_are_listed() -> None:
    """There is nobody to ask."""
    assert await counted(reader(Kubelet(pods=listed("a")))) == {"a"}
    assert await counted(reader(Kubelet(pods=listed("a", "b")), pods=Book("b"))) == {"a"}


async def test_a_kubelet_whose_managers_are_not_there_is_not_ready() -> None:
    """By its own file; a configuration that was edited is in force after the next start only."""

    class Starting(Kubelet):
        async def allocatable(self) -> AllocatableResources:
            return AllocatableResources()

    node = reader(Starting(), checkpoints=Files(cpu=static()))
    with pytest.raises(KubeletNotReady, match="CPU Manager has not started"):
        await node.read()
    files = Files(cpu=CpuManagerState(policy="none", default_cpus=CpuSet()))
    assert (await reader(Starting(), checkpoints=files).read()).allocatable.cpu_ids == ()


async def test_a_kubelet_that_restarted_is_believed_once_it_lists_its_pods() -> None:
    """From then on a pod that is not listed has gone, whatever the API says."""
    kubelet = Kubelet(pods=listed("a", "b"))
    node = reader(kubelet, pods=Book("a", "b", started=["a", "b"]))
    assert await counted(node) == {"a", "b"}
    kubelet.pods = listed("a")
    assert await counted(node) == {"a"}
    kubelet.starts += 1
    with pytest.raises(KubeletNotReady, match="not loaded its pods yet: d/b"):
        await node.read()
    kubelet.pods = listed("a", "b")
    assert await counted(node) == {"a", "b"}


async def test_a_lost_connection_may_be_a_restart() -> None:
    """Whatever the socket looks like."""
    kubelet = Kubelet(pods=listed("a"))
    node = reader(kubelet, pods=Book("a", started=["a"]))
    await node.read()
    kubelet.away, kubelet.pods = True, ()
    with pytest.raises(KubeletUnavailable):
        await node.read()
    kubelet.away = False
    with pytest.raises(KubeletNotReady, match="d/a"):
        await node.read()


async def test_a_kubelet_that_restarts_while_it_is_asked_is_not_ready() -> None:
    """The two answers are of two processes."""

    class Restarting(Kubelet):
        async def allocatable(self) -> AllocatableResources:
            self.starts += 1
            return await super().allocatable()

    with pytest.raises(KubeletNotReady, match="restarted meanwhile"):
        await reader(Restarting()).read()


async def test_without_the_api_the_cpu_manager_tells_who_is_missing() -> None:
    """It drops pods that are gone soon after it has loaded the others."""
    kubelet = Kubelet(pods=listed("a", cpus=(0,)))
    files = Files(cpu=static("u", "v"))
    node = reader(kubelet, checkpoints=files)
    with pytest.raises(KubeletNotReady, match="does not list 1 pods of its cpu_manager_state"):
        await node.read()
    files.now = Checkpoints(cpu=static("u"))
    assert await counted(node) == {"a"}
    files.now = Checkpoints(cpu=static("u", "v"))
    assert await counted(node) == {"a"}


async def test_groups_that_no_kubelet_starts_from_are_told_while_it_runs() -> None:
    """So that the pods in them can be ended before its next restart, and once it is away."""

    class WithMemory(Kubelet):
        async def allocatable(self) -> AllocatableResources:
            return allocatable_resources(node)

    node, _ = split_group()
    kubelet = WithMemory()
    files = Files(memory=read_checkpoints(save(node)).memory)
    scans = reader(kubelet, checkpoints=files)
    text = (
        "memory_manager_state has NUMA node 1 in group 1, while pods use its memory in group 0-1: "
        "until they have ended, no kubelet starts from it"
    )
    assert (await scans.read()).kubelet.state_trouble == text
    kubelet.away = True
    with pytest.raises(KubeletWillNotStart, match=text):
        await scans.read()


def test_files_that_keep_a_kubelet_from_starting_are_told_in_its_words() -> None:
    """It was killed between two writes, for instance."""
    node = start(dual_socket_ht())
    facts = KubeletFacts(config=configuration(node.settings), version="v1.35.7")
    assert start_trouble(facts, node.machine, save(node)) == ""
    assert node.cpus is not None
    node.cpus.shared &= ~0b110
    assert start_trouble(facts, node.machine, save(node)).startswith(
        'current set of available CPUs "0-11" doesn\'t match with CPUs in state "0,3-11"'
    )
    assert start_trouble(replace(facts, config=None), node.machine, save(node)) == ""
    assert start_trouble(replace(facts, version=None), node.machine, save(node)) == ""
    assert start_trouble(facts, None, save(node)) == ""


def test_an_option_of_a_newer_kubelet_is_no_trouble() -> None:
    """It starts with what is unknown here; one of a known version does not."""
    node = start(dual_socket_ht())
    config = msgspec.structs.replace(
        configuration(node.settings),
        topology_manager_policy="restricted",
        topology_manager_policy_options={"numa-allocation-strategy": "most-allocated"},
    )
    facts = KubeletFacts(config=config, version="v1.38.0")
    assert start_trouble(facts, node.machine, save(node)) == ""
    known = start_trouble(replace(facts, version="v1.37.0"), node.machine, save(node))
    assert known.startswith('unknown Topology Manager Policy option: "numa-allocation-strategy"')


# ------------------------------------------------------------------------------------------------
# What containers hold that the kubelet does not list, such as init containers that have finished.


def cpu_state(**cpus: str) -> CpuManagerState:
    """The CPUs of the containers of a pod."""
    sets = {name: CpuSet.parse(text) for name, text in cpus.items()}
    return CpuManagerState(policy="static", default_cpus=CpuSet(), entries={"u": sets})


def memory_state(*containers: str) -> MemoryManagerState:
    """A GiB of node 1 for each of the containers of a pod."""
    block = CheckpointMemoryBlock(numa_affinity=(1,), type="memory", size=1 << 30)
    return MemoryManagerState(
        policy_name="Static", entries={"u": dict.fromkeys(containers, (block,))}
    )


def device_state(*entries: tuple[str, int, tuple[str, ...]]) -> DeviceManagerState:
    """GPUs of the containers of a pod, by NUMA node."""
    return DeviceManagerState(
        pod_device_entries=tuple(
            PodDevices(
                pod_uid="u", container_name=name, resource_name="gpu", device_ids={numa: ids}
            )
            for name, numa, ids in entries
        )
    )


GIB_OF_ONE = (Memory("memory", 1 << 30, (1,)),)


@pytest.mark.parametrize(
    ("files", "cpus", "memory", "devices"),
    [
        ({}, (), (), ()),
        ({"cpu": cpu_state(app="2-3")}, (), (), ()),
        ({"cpu": cpu_state(app="2-3", init="2-5")}, (4, 5), (), ()),
        ({"cpu": cpu_state(app="2-3", init="6", more="1")}, (1, 6), (), ()),
        ({"memory": memory_state("app")}, (), (), ()),
        ({"memory": memory_state("init", "app")}, (), GIB_OF_ONE, ()),
        ({"cpu": cpu_state(init="7"), "memory": memory_state("app")}, (7,), (), ()),
        ({"devices": device_state(("app", 0, ("a",)))}, (), (), ()),
        (
            {"devices": device_state(("init", 0, ("a", "c", "b")))},
            (),
            (),
            (("gpu", ("b", "c"), (0,)),),
        ),
        ({"devices": device_state(("init", -1, ("x",)))}, (), (), (("gpu", ("x",), ()),)),
        ({"devices": device_state(("init", 0, ("a",)))}, (), (), ()),
        (
            {
                "devices": device_state(
                    ("init", 0, ("x",)), ("more", 0, ("y",)), ("more", 1, ("z",))
                )
            },
            (),
            (),
            (("gpu", ("x", "y"), (0,)), ("gpu", ("z",), (1,))),
        ),
    ],
)
def test_what_containers_hold_that_are_not_listed_is_hidden_use(
    files: dict[str, object],
    cpus: tuple[int, ...],
    memory: tuple[Memory, ...],
    devices: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...],
) -> None:
    """Beside what the listed one holds: CPUs 2 and 3, and the device a."""
    app = ContainerResources("app", cpu_ids=(2, 3), devices=(Devices("gpu", ("a",), (0,)),))
    use = HiddenUse(Checkpoints(**files))  # type: ignore[arg-type]
    found = use.of(PodResources("p", "d", (app,)), "u")
    assert (found.name, found.cpu_ids, found.memory) == ("", cpus, memory)
    assert found.devices == tuple(Devices(*one) for one in devices)
    nothing = use.of(PodResources("q", "d", ()), "another")
    assert (nothing.cpu_ids, nothing.memory, nothing.devices) == ((), (), ())
    whole = use.of(PodResources("p", "d", (app,), memory=GIB_OF_ONE, cpu_ids=(4, 6)), "u")
    assert whole.memory == ()
    assert whole.cpu_ids == tuple(cpu for cpu in cpus if cpu not in (4, 6))
