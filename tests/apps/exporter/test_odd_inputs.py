"""Whatever a kubelet and a node tell, there is a report: a scan never fails because of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.exporter.build import GIB, configuration, figures
from tests.kubelet.build import static_settings

from numakube.api.checkpoints import (
    CheckpointMemoryBlock,
    CpuManagerState,
    DeviceManagerState,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    PodDevices,
)
from numakube.api.codec import to_tree
from numakube.api.nrt import convert_nrt
from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
from numakube.apps.exporter.numa_hardware import Hardware, hardware_of
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import Accounting, ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Memory,
    PodResources,
)
from numakube.topology.topology_view import view_of
from numakube.values.cpuset import CpuSet

NAMES = st.sampled_from(("", "a", "b", "\u00e9\n", "x" * 300))
CPUS = st.sampled_from((0, 1, 2, 7, 8, 9, -1, 1 << 40))
NUMA = st.sampled_from((0, 1, 2, -1, -5, 1 << 40))
GROUPS = st.lists(NUMA, max_size=3).map(tuple)
KINDS = st.sampled_from(("memory", "hugepages-2Mi", "hugepages-", "hugepages-x", "odd", ""))
SIZES = st.sampled_from((0, 1, GIB, (1 << 64) - 1))
RESOURCES = st.sampled_from(("vendor.example/gpu", "cpu", "memory", ""))
MEMORY = st.lists(st.builds(Memory, KINDS, SIZES, GROUPS), max_size=3).map(tuple)
DEVICES = st.lists(
    st.builds(Devices, RESOURCES, st.lists(NAMES, max_size=2).map(tuple), GROUPS), max_size=3
).map(tuple)
CPU_LISTS = st.lists(CPUS, max_size=4).map(tuple)
PODS = st.lists(
    st.builds(
        PodResources,
        NAMES,
        NAMES,
        st.lists(st.builds(ContainerResources, NAMES, CPU_LISTS, MEMORY, DEVICES), max_size=2).map(
            tuple
        ),
        CPU_LISTS,
        MEMORY,
    ),
    max_size=3,
).map(tuple)
SETS = st.lists(st.integers(0, 9), max_size=4).map(CpuSet.of)
CPU_STATES = st.builds(
    CpuManagerState,
    policy=st.sampled_from(("static", "none")),
    default_cpus=SETS,
    entries=st.dictionaries(NAMES, st.dictionaries(NAMES, SETS, max_size=2), max_size=2),
    pod_entries=st.dictionaries(NAMES, SETS, max_size=2),
)
BLOCKS = st.lists(
    st.builds(CheckpointMemoryBlock, numa_affinity=GROUPS, type=KINDS, size=SIZES), max_size=2
).map(tuple)
MEMORY_STATES = st.builds(
    MemoryManagerState,
    machine_state=st.dictionaries(
        st.integers(0, 2),
        st.builds(
            NumaNodeState,
            memory_map=st.dictionaries(KINDS, st.builds(MemoryTable, free=SIZES), max_size=2),
            cells=GROUPS,
        ),
        max_size=2,
    ),
    entries=st.dictionaries(NAMES, st.dictionaries(NAMES, BLOCKS, max_size=2), max_size=2),
)
DEVICE_STATES = st.builds(
    DeviceManagerState,
    pod_device_entries=st.lists(
        st.builds(
            PodDevices,
            pod_uid=NAMES,
            container_name=NAMES,
            resource_name=RESOURCES,
            device_ids=st.dictionaries(NUMA, st.lists(NAMES, max_size=2).map(tuple), max_size=2),
        ),
        max_size=2,
    ).map(tuple),
)
MACHINE = hardware_of(from_shape("2 sockets, 4 cores, 8Gi, hugepages-2Mi 4"))
CONFIG = configuration(
    static_settings("restricted", memory_policy="Static", reserved_memory={0: {"memory": GIB}})
)
FACTS = st.builds(
    KubeletFacts,
    topology_policy=st.sampled_from((None, "", "single-numa-node", "odd")),
    config=st.sampled_from((None, CONFIG)),
    version=st.sampled_from((None, "v1.35.7", "odd")),
)
INPUTS = st.builds(
    NodeInputs,
    hardware=st.sampled_from((MACHINE, Hardware())),
    allocatable=st.builds(AllocatableResources, CPU_LISTS, MEMORY, DEVICES),
    pods=PODS,
    kubelet=FACTS,
    checkpoints=st.builds(
        Checkpoints,
        cpu=st.none() | CPU_STATES,
        memory=st.none() | MEMORY_STATES,
        devices=st.none() | DEVICE_STATES,
    ),
    uids=st.just({(one, other): "a" for one in ("", "a", "b") for other in ("", "a", "b")}),
)


@settings(max_examples=150)
@given(INPUTS, st.sampled_from(Accounting))
def test_there_is_a_report_of_anything(inputs: NodeInputs, accounting: Accounting) -> None:
    """One that can be written and read back, with amounts that make sense."""
    report = topology_of(inputs, ReportOptions(accounting=accounting), cause=ScanCause.PERIODIC)
    topology = report.topology("worker")
    assert convert_nrt(to_tree(topology)) == topology
    view_of(topology)
    for amounts in figures(topology.zones).values():
        assert all(0 <= free <= most <= there for there, most, free in amounts.values())
