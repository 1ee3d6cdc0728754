"""What a scan reads, and from where."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from numakube.api.checkpoints import (
    CPU_STATE,
    CpuManagerState,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    write_cpu_manager_state,
)
from numakube.api.kubelet_config import KubeletConfiguration, with_defaults
from numakube.api.nrt import Attribute
from numakube.apps.exporter.kubelet_checkpoints import STATE_FILES, Checkpoints, StateFolder
from numakube.apps.exporter.kubelet_config_sources import ConfigFile, FirstOf, KnownConfig
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_scan import NodeReader, PodName
from numakube.apps.exporter.numa_hardware import Hardware, ZoneHardware
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.errors import KubeletUnavailable, KubeletWillNotStart
from numakube.node.podresources_client import AllocatableResources, Memory, PodResources
from numakube.topology import nrt_names
from numakube.values.cpuset import CpuSet


async def machine() -> Hardware:
    """Return a machine of one zone."""
    zone = ZoneHardware(id=2, cpus=CpuSet.parse("0-3"), memory_bytes=1024, hugepages={})
    return Hardware(zones=(zone,))


@dataclass
class Kubelet:
    """A kubelet that answers, or not, and remembers its callers."""

    away: bool = False
    allocatables: int = 0
    starts: int = 1
    pods: tuple[PodResources, ...] = field(default_factory=tuple)

    def incarnation(self) -> object:
        """Tell one kubelet from the next."""
        return self.starts

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Answer."""
        if self.away:
            raise KubeletUnavailable("gone")
        return self.pods

    async def allocatable(self) -> AllocatableResources:
        """Answer."""
        self.allocatables += 1
        return AllocatableResources(cpu_ids=(1,))


def reader(kubelet: Kubelet, **options: object) -> NodeReader:
    """Return what reads a machine and a kubelet."""
    return NodeReader(
        hardware=machine,
        kubelet=kubelet,
        config=FirstOf([]),
        **options,  # type: ignore[arg-type]
    )


async def test_allocatable_resources_are_asked_for_at_every_scan() -> None:
    """Devices may register late."""
    kubelet = Kubelet()
    node = reader(kubelet)
    for _ in range(3):
        inputs = await node.read()
    assert inputs.allocatable.cpu_ids == (1,)
    assert kubelet.allocatables == 3


async def test_a_kubelet_that_did_not_answer_is_asked_everything_again() -> None:
    """What was known of it may be wrong now."""
    registry = CollectorRegistry()
    kubelet = Kubelet()
    node = reader(kubelet, refresh=False, metrics=ExporterMetrics("n", registry))
    await node.read()
    await node.read()
    assert kubelet.allocatables == 1
    kubelet.away = True
    with pytest.raises(KubeletUnavailable):
        await node.read()
    kubelet.away = False
    await node.read()
    assert kubelet.allocatables == 2
    labels = {"node": "n", "function_name": "list"}
    name = "rte_podresource_api_call_failures_total"
    assert registry.get_sample_value(name, labels) == 1


async def test_without_a_kubelet_everything_is_there_to_give() -> None:
    """For a look at a machine."""
    node = reader(Kubelet())
    node.kubelet = None
    inputs = await node.read()
    assert inputs.allocatable == AllocatableResources(
        cpu_ids=(0, 1, 2, 3), memory=(Memory("memory", 1024, (2,)),)
    )


async def test_pods_that_are_done_count_only_if_they_are_to(tmp_path: Path) -> None:
    """Kubelets before 1.34 list them."""

    class Book:
        async def uids(
            self, listed: Collection[PodName], held: Collection[str]
        ) -> Mapping[PodName, str]:
            return {("n", "p"): "u"}

        def aliases(self) -> Mapping[str, str]:
            return {}

        def started(self) -> frozenset[str]:
            return frozenset()

        def expected(self, admitted: Collection[str]) -> None:
            return None

        def terminal(self) -> frozenset[tuple[str, str]]:
            return frozenset({("n", "p")})

    config = ConfigFile(tmp_path / "none")
    node = reader(Kubelet(), pods=Book())
    node.config = config
    assert (await node.read()).terminal == {("n", "p")}
    node.exclude_terminal = False
    inputs = await node.read()
    assert (inputs.terminal, dict(inputs.uids)) == (frozenset(), {("n", "p"): "u"})


async def test_answers_and_files_are_of_the_same_moment() -> None:
    """If the kubelet writes meanwhile, it is asked again; but not for ever."""

    class Busy:
        def __init__(self, changes: int) -> None:
            self.left = changes
            self.state = Checkpoints()

        def read(self) -> Checkpoints:
            if self.left:
                self.left -= 1
                self.state = Checkpoints()
            return self.state

    kubelet = Kubelet()
    await reader(kubelet, checkpoints=Busy(0)).read()
    assert kubelet.allocatables == 1
    await reader(kubelet, checkpoints=Busy(2)).read()
    assert kubelet.allocatables == 3
    await reader(kubelet, checkpoints=Busy(1000)).read()
    assert kubelet.allocatables == 6


HALF_CPUS = Checkpoints(cpu=CpuManagerState(policy="static", default_cpus=CpuSet.parse("0,2-3")))
HALF_MEMORY = Checkpoints(
    memory=MemoryManagerState(
        machine_state={0: NumaNodeState(memory_map={"memory": MemoryTable(reserved=5)}, cells=(0,))}
    )
)


@pytest.mark.parametrize("half", [HALF_CPUS, HALF_MEMORY])
async def test_files_are_read_again_while_a_container_is_being_given_its_share(
    half: Checkpoints,
) -> None:
    """What was taken off is written first, and who has it next."""
    states = iter([Checkpoints(), half, half, whole := Checkpoints(), whole, whole])

    class Writing:
        def read(self) -> Checkpoints:
            return next(states)

    assert (await reader(Kubelet(), checkpoints=Writing()).read()).checkpoints == whole


async def test_files_that_never_become_whole_are_reported_all_the_same() -> None:
    """Something has to be."""

    class Stuck:
        def read(self) -> Checkpoints:
            return HALF_MEMORY

    assert (await reader(Kubelet(), checkpoints=Stuck()).read()).checkpoints == HALF_MEMORY


async def test_reserved_cpus_are_nobodys(tmp_path: Path) -> None:
    """Besides those that the kubelet reserves itself."""
    node = reader(Kubelet(), reserved_cpus=CpuSet.parse("1,3"))
    assert (await node.read()).allocatable.cpu_ids == ()
    node.kubelet = None
    assert (await node.read()).allocatable.cpu_ids == (0, 2)


async def test_without_a_configuration_the_state_files_tell_the_policies(tmp_path: Path) -> None:
    """Of the CPU and Memory Managers; nobody tells the Topology Manager's."""
    state = CpuManagerState(policy="static", default_cpus=CpuSet.parse("0-3"))
    (tmp_path / CPU_STATE).write_bytes(write_cpu_manager_state(state, version=2))
    inputs = await reader(Kubelet(), checkpoints=StateFolder(tmp_path)).read()
    report = topology_of(inputs, ReportOptions(fingerprint=False), cause=ScanCause.PERIODIC)
    assert report.attributes == (Attribute(name=nrt_names.CPU_POLICY, value="static"),)


def test_state_files_are_parsed_when_they_change(tmp_path: Path) -> None:
    """One that is damaged is a problem, not the end."""
    folder = StateFolder(tmp_path)
    assert folder.read().cpu is None
    state = CpuManagerState(policy="static", default_cpus=CpuSet.parse("0-3"))
    (tmp_path / CPU_STATE).write_bytes(write_cpu_manager_state(state, version=2))
    first = folder.read()
    assert first.cpu == state
    assert folder.read() is first
    (tmp_path / CPU_STATE).write_text("{")
    assert folder.read().cpu is None
    assert len(folder.read().problems) == 1


def test_state_files_that_are_pipes_are_not_there(tmp_path: Path) -> None:
    """Nobody waits for a writer."""
    for file in (tmp_path / name for name in STATE_FILES):
        file.parent.mkdir(exist_ok=True)
        os.mkfifo(file)
    read = StateFolder(tmp_path).read()
    assert (read.cpu, read.memory, read.devices) == (None, None, None)


def configured(folder: Path, policy: str) -> None:
    """Write a configuration for the kubelet's next start."""
    (folder / "config.yaml").write_text(f"cpuManagerPolicy: {policy}\n")


def reader_of_files(kubelet: Kubelet, folder: Path, *others: KnownConfig) -> NodeReader:
    """Return what reads a kubelet whose state was written under the policy static."""
    state = CpuManagerState(policy="static", default_cpus=CpuSet.parse("0-3"))
    (folder / CPU_STATE).write_bytes(write_cpu_manager_state(state, version=2))
    node = reader(kubelet, checkpoints=StateFolder(folder))
    node.config = FirstOf([ConfigFile(folder / "config.yaml"), *others])
    return node


async def test_a_policy_that_changes_under_a_running_kubelet_is_told(tmp_path: Path) -> None:
    """Its state file would keep it from starting again."""
    configured(tmp_path, "static")
    node = reader_of_files(Kubelet(), tmp_path)
    assert (await node.read()).kubelet.state_trouble == ""

    configured(tmp_path, "none")

    assert (await node.read()).kubelet.state_trouble.startswith(
        "cpu_manager_state was written under the policy static, and the configuration says none"
    )


async def test_a_kubelet_that_cannot_start_for_its_state_is_told(tmp_path: Path) -> None:
    """Not only that it is away."""
    configured(tmp_path, "none")
    node = reader_of_files(Kubelet(away=True), tmp_path)

    with pytest.raises(KubeletWillNotStart, match="will not start: cpu_manager_state was written"):
        await node.read()

    configured(tmp_path, "static")
    with pytest.raises(KubeletUnavailable, match="gone"):
        await node.read()


async def test_flags_that_contradict_the_file_are_learnt_from_the_kubelet(tmp_path: Path) -> None:
    """State files of another policy than the file's say that the file is not all."""
    configured(tmp_path, "none")
    own_word = with_defaults(
        KubeletConfiguration(cpu_manager_policy="static", topology_manager_policy="restricted")
    )
    node = reader_of_files(Kubelet(), tmp_path, KnownConfig(lambda: own_word))

    known = (await node.read()).kubelet

    assert (known.policy, known.state_trouble) == ("restricted", "")
