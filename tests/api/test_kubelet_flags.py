"""What a kubelet's command line says, and what it wins over."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.kubelet_config import MemoryReservation
from numakube.api.kubelet_flags import configuration, read_flags
from numakube.errors import InvalidValue


def test_files_and_folders_are_named() -> None:
    """With and without an equals sign; flags about other things may have values of any kind."""
    line = [
        "--v=2",
        "--config",
        "/etc/kubelet.yaml",
        "--config-dir=/etc/kubelet.d",
        "--fail-swap-on",
    ]
    flags = read_flags(line)

    assert (flags.config, flags.config_dir, flags.root_dir) == (
        "/etc/kubelet.yaml",
        "/etc/kubelet.d",
        "/var/lib/kubelet",
    )
    assert read_flags(["--root-dir=/data/kubelet"]).root_dir == "/data/kubelet"
    assert read_flags([]).fields == {}


def test_flags_win_over_files_and_later_files_over_earlier_ones() -> None:
    """Feature gates add up; other maps of a flag replace those of files."""
    files: list[dict[str, Any]] = [
        {
            "topologyManagerPolicy": "none",
            "cpuManagerPolicy": "static",
            "featureGates": {"A": True, "B": True},
            "systemReserved": {"cpu": "1", "memory": "1Gi"},
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        },
        {"topologyManagerScope": "pod", "systemReserved": {"cpu": "2"}},
    ]
    flags = read_flags(
        [
            "--topology-manager-policy=restricted",
            "--feature-gates=B=false",
            "--kube-reserved=cpu=500m,memory=200Mi",
            "--cpu_manager_policy_options=full-pcpus-only=true",
            "--eviction-hard=memory.available<200Mi",
        ]
    )

    found = configuration(files, flags)

    assert (found.topology_manager_policy, found.topology_manager_scope) == ("restricted", "pod")
    assert found.feature_gates == {"A": True, "B": False}
    assert found.system_reserved == {"cpu": "2", "memory": "1Gi"}
    assert found.kube_reserved == {"cpu": "500m", "memory": "200Mi"}
    assert found.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    assert found.eviction_hard == {"memory.available": "200Mi"}
    assert found.reserved_memory == (MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),)


def test_reserved_memory_of_several_numa_nodes_adds_up() -> None:
    """In one flag or in several."""
    flags = read_flags(
        [
            "--reserved-memory=0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=2Gi",
            "--reserved-memory",
            "2:memory=1Gi",
        ]
    )

    assert [(one.numa_node, one.limits) for one in configuration([], flags).reserved_memory] == [
        (0, {"memory": "1Gi", "hugepages-1Gi": "2Gi"}),
        (1, {"memory": "2Gi"}),
        (2, {"memory": "1Gi"}),
    ]


@pytest.mark.parametrize("flag", ["--reserved-memory=memory=1Gi", "--kube-reserved=cpu"])
def test_a_flag_that_makes_no_sense_is_told(flag: str) -> None:
    """Such a kubelet would not have started."""
    with pytest.raises(InvalidValue, match="kubelet flag"):
        read_flags([flag])
