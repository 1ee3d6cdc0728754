"""Pods that require close devices, where the scheduler chooses them."""

from __future__ import annotations

import json

import pytest
from packages.placement.tests.plugins.wishes import KoordinatorScheduler, given, pod

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import (
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    RDMA,
    RDMA_SHARE,
    DeviceCr,
    DeviceInfo,
    DeviceSpec,
    DeviceTopology,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import running
from numakube_placement.koordinator.placement_rule import Why

SHAPE = "1 socket, 16 cores, 32Gi, gpu 2, nic 2, 2 switches"
SIZES = {GPU: {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}, RDMA: {RDMA_SHARE: "100"}}


def scheduler(*, reported: bool = True, policy: str = "none") -> KoordinatorScheduler:
    """Return one with a node whose card 0 is behind the switch of GPU 0, and so on.

    The Device of the node has one PCIe root for all, in the spelling of NVIDIA's tools.
    """
    found = KoordinatorScheduler()
    offers = {"koordinator.sh/gpu": "200", RDMA_SHARE: "200"}
    found.add_node("n", machine=SHAPE, reported=reported, policy=policy, offers=offers)
    machine = from_shape(SHAPE)
    infos = tuple(
        DeviceInfo(
            type=kind,
            minor=minor,
            health=True,
            resources=SIZES[kind],
            topology=DeviceTopology(node_id=0, pcie_id="root", bus_id=f"0000{one.pci.upper()}"),
        )
        for kind, resource in ((GPU, "vendor.example/gpu"), (RDMA, "vendor.example/nic"))
        for minor, one in enumerate(machine.devices[resource])
    )
    found.set_device(DeviceCr(metadata=ObjectMeta(name="n"), spec=DeviceSpec(devices=infos)))
    return found


def wanting(name: str, closeness: str, **also: str) -> Pod:
    """Return a pod that wants a GPU and a card."""
    wanted = {"koordinator.sh/gpu": "100", RDMA_SHARE: "100"}
    annotations = {"numakube.dev/closeness": closeness} if closeness else {}
    return pod(name, annotations=annotations, also=wanted | also)


def minors(one: Pod) -> list[tuple[str, int]]:
    """Return the devices that a pod was given."""
    return [(held.type, held.minor) for held in given(one).total.devices]


def refusal(scheduler: KoordinatorScheduler, one: Pod) -> str:
    """Return why the node does not take a pod, whose devices would be too far apart."""
    assert scheduler.reasons(one) == {Why.CLOSENESS.value}
    node = scheduler.cluster.node("n")
    assert node is not None
    found = scheduler.numa.outcome(PodInfo(one), node).refusal
    assert found is not None
    return found.detail


def test_the_annotation_pairs_devices_though_the_pod_names_no_joint_types() -> None:
    """The report tells the switches below the root that the Device knows."""
    found = scheduler()
    taken = pod("card", also={RDMA_SHARE: "100"})
    assert minors(found.run(taken)) == [(RDMA, 0)]
    assert minors(found.run(wanting("a", "same-switch"))) == [(GPU, 1), (RDMA, 1)]


def test_a_pod_waits_where_no_free_devices_are_as_close_as_it_requires() -> None:
    """GPU 0 and card 1 are left, behind different switches of one root."""
    found = scheduler()
    held = {RDMA: [{"minor": 0, "resources": {RDMA_SHARE: "100"}}],
            GPU: [{"minor": 1, "resources": SIZES[GPU]}]}  # fmt: skip
    holder = pod("other", annotations={keys.DEVICE_ALLOCATED: json.dumps(held)})
    found.see(running(holder, "n"))
    assert refusal(found, wanting("a", "same-switch")) == "same-switch: gpu and rdma would be PHB"
    assert minors(found.run(wanting("b", "same-root"))) == [(GPU, 0), (RDMA, 1)]


@pytest.mark.parametrize(
    ("closeness", "fits"), [("same-switch", False), ("same-root", True), ("same-numa", True)]
)
def test_without_exact_data_only_the_root_is_known(closeness: str, *, fits: bool) -> None:
    """Which is what a Device tells; nothing is guessed."""
    found = scheduler(reported=False)
    one = wanting("a", closeness)
    if fits:
        assert minors(found.run(one)) == [(GPU, 0), (RDMA, 0)]
    else:
        assert "gpu and rdma would be PHB" in refusal(found, one)


def test_a_kubelet_that_aligns_leaves_nothing_to_choose() -> None:
    """Nothing is promised there."""
    found = scheduler(policy="single-numa-node")
    assert "chooses no devices" in refusal(found, wanting("a", "same-numa"))
    found.run(wanting("b", ""))
