"""Machines that a kubelet cannot handle."""

from __future__ import annotations

import pytest
from tests.kubelet.build import start

from numakube.kubelet.machine_hazards import hazards_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet

SMALL = "2 sockets, 4 cores, 8Gi"
CLOSEST = {"prefer-closest-numa-nodes": "true"}


@pytest.mark.parametrize(
    ("shape", "memory", "options", "texts"),
    [
        (SMALL, "Static", {}, []),
        (f"{SMALL}, hugepages-1Gi 2/0", "Static", {}, []),
        (f"{SMALL}, hugepages-1Gi 0/-", "Static", {}, []),
        (f"{SMALL}, hugepages-1Gi 2/-", "None", {}, []),
        (f"{SMALL}, hugepages-1Gi 2/-", "Static", {}, ["hugepages-1Gi crashes"]),
        (f"{SMALL}, hugepages-1Gi 2/-, hugepages-2Mi -/2", "Static", {}, ["2Mi", "1Gi"]),
        (f"{SMALL}, ids 0 2", "None", {}, []),
        (f"{SMALL}, ids 0 2", "None", CLOSEST, ["distances of NUMA node 0,2 do not reach node 2"]),
        ("gb300", "None", {}, []),
        ("gb300", "Static", {}, ["would not answer for about 10 hours"]),
    ],
)
def test_crashes_and_endless_work_are_foreseen(
    shape: str, memory: str, options: dict[str, str], texts: list[str]
) -> None:
    """Page sizes and distances are taken for granted, and every set of NUMA nodes is tried."""
    settings = KubeletSettings(
        topology_policy="restricted",
        topology_options={"max-allowable-numa-nodes": "64", **options},
        cpu_policy="static",
        reserved_cpus=CpuSet.of([0]),
        memory_policy=memory,
        reserved_memory={0: {"memory": 1 << 30}},
    )
    machine = from_shape(shape)
    node = start(machine, settings, devices=dict(machine.devices), kubernetes="1.37")
    found = [hazard.text for hazard in hazards_of(node)]
    assert len(found) == len(texts)
    for text, expected in zip(found, texts, strict=True):
        assert expected in text
