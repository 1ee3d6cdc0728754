"""What a pod wishes of devices."""

from __future__ import annotations

import pytest
from packages.placement.tests.koordinator.wishing import HINT, JOINT, container, problems, wished


@pytest.mark.parametrize(
    ("requests", "wanted"),
    [
        ({"nvidia.com/gpu": "2"}, {"gpu": {"core": 200, "memory-ratio": 200}}),
        ({"koordinator.sh/gpu": "50"}, {"gpu": {"core": 50, "memory-ratio": 50}}),
        ({"kubernetes.io/gpu": "50"}, {"gpu": {"core": 50, "memory-ratio": 50}}),
        (
            {"kubernetes.io/gpu-core": "20", "koordinator.sh/gpu-memory-ratio": "30"},
            {"gpu": {"core": 20, "memory-ratio": 30}},
        ),
        (
            {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "8Gi"},
            {"gpu": {"core": 50, "memory": 8 << 30}},
        ),
    ],
)
def test_gpus_are_told_as_the_device_counts_them(
    requests: dict[str, str], wanted: dict[str, dict[str, int]]
) -> None:
    """One GPU is 100 of core and memory ratio."""
    wish = wished(container(**requests))
    assert wish.devices is not None
    assert wish.devices.requests == {
        kind: {f"koordinator.sh/{kind}-{name}": amount for name, amount in parts.items()}
        for kind, parts in wanted.items()
    }


def test_devices_that_belong_together_are_those_that_are_wanted() -> None:
    """The leading type first."""
    joint = {JOINT: {"deviceTypes": ["rdma", "fpga", "gpu"], "requiredScope": "SamePCIe"}}
    wish = wished(
        container(**{"koordinator.sh/gpu": "100"}),
        container("nic", **{"koordinator.sh/rdma": "100"}),
        annotations=joint,
    )
    assert wish.devices is not None
    assert (wish.devices.joint, wish.devices.same_pcie) == (("rdma", "gpu"), True)
    assert wish.devices.by_container.keys() == {"main", "nic"}
    alone = wished(container(**{"koordinator.sh/gpu": "100"}), annotations=joint)
    assert alone.devices is not None
    assert (alone.devices.joint, alone.devices.same_pcie) == ((), False)


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({"koordinator.sh/gpu": "150"}, "invalid resource unit koordinator.sh/gpu: 150"),
        ({"koordinator.sh/rdma": "101"}, "invalid resource unit koordinator.sh/rdma: 101"),
        (
            {"koordinator.sh/gpu": "100", "nvidia.com/gpu": "1"},
            "invalid resource device requests: [koordinator.sh/gpu nvidia.com/gpu]",
        ),
        ({"koordinator.sh/gpu-core": "10"}, "invalid resource device requests"),
    ],
)
def test_device_requests_that_mean_nothing_are_mistakes(
    requests: dict[str, str], said: str
) -> None:
    """In Koordinator's words."""
    (problem,) = problems(container(**requests))
    assert said in problem


def test_a_count_of_devices_needs_not_be_a_percentage() -> None:
    """RequestsAsCount says so."""
    hint = {"rdma": {"allocateStrategy": "RequestsAsCount", "vfSelector": {}}}
    wish = wished(container(**{"koordinator.sh/rdma": "103"}), annotations={HINT: hint})
    assert wish.devices is not None
    assert wish.devices.hints["rdma"].vf_selector is not None
