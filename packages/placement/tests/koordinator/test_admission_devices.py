"""Whether a node can take a pod that wants devices."""

from __future__ import annotations

from dataclasses import replace

from packages.placement.tests.koordinator.admitting import (
    BEST_EFFORT,
    CONTAINER,
    RESTRICTED,
    TWO,
    given,
    holding,
    refused,
    text,
)
from packages.placement.tests.strategies.nodes import (
    GIB,
    bound,
    facts_of_layout,
)
from packages.placement.tests.strategies.wishes import FULL, container, pod, rule

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import Allotment, HeldDevice, Share
from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.node_facts import DevicePlace
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_rule import Why
from numakube_placement.koordinator.pod_wish import DeviceWish, PodWish


class TestDevices:
    """Devices beside CPUs and memory."""

    CORE = "koordinator.sh/gpu-core"
    RATIO = "koordinator.sh/gpu-memory-ratio"
    WHOLE = {CORE: 100, RATIO: 100}  # noqa: RUF012

    def gpu(self, minor: int, numa: int | None) -> DevicePlace:
        """Return a GPU."""
        return DevicePlace(type="gpu", minor=minor, numa=numa, resources=self.WHOLE)

    def node(self, *numas: int | None, held: tuple[int, ...] = ()) -> NodeLedger:
        """Return a node with GPUs on *numas*, of which the minors *held* are taken."""
        places = tuple(self.gpu(minor, numa) for minor, numa in enumerate(numas))
        ledger = NodeLedger.of(facts_of_layout(TWO, memory=16 * GIB, devices=places), {})
        taken = tuple(HeldDevice(type="gpu", minor=minor, resources=self.WHOLE) for minor in held)
        return ledger.with_pod("other", Allotment(total=Share(devices=taken)))

    def gpus(self, count: int, **by_container: int) -> DeviceWish:
        """Return a wish for whole GPUs."""
        return DeviceWish(
            requests={"gpu": {self.CORE: 100 * count, self.RATIO: 100 * count}},
            by_container={
                name: {"gpu": {self.CORE: 100 * number, self.RATIO: 100 * number}}
                for name, number in by_container.items()
            },
        )

    def test_decide_where_the_pod_goes(self) -> None:
        """A free GPU outweighs how empty a NUMA node is."""
        ledger = holding(self.node(0, 1, held=(0,)), bound(TWO, "8-13"))
        got = given(ledger, pod(cpu="2", devices=self.gpus(1)), rule(bind=FULL))
        assert (got.total.mask, text(got.total.cpus)) == (0b10, "14-15")
        assert [(held.type, held.minor) for held in got.total.devices] == [("gpu", 1)]

    def test_refuse_where_they_are_on_another_numa_node(self) -> None:
        """CPUs on the one, the GPU on the other."""
        ledger = holding(self.node(0, 1, held=(0,)), bound(TWO, "8-15"))
        wish = pod(cpu="2", devices=self.gpus(1))
        refusal = refused(ledger, wish, rule())
        assert refusal.why is Why.UNALIGNED
        assert refusal.detail == "cpu prefer [01] among [01],gpu prefer [10] among [10]"
        assert given(ledger, wish, rule(BEST_EFFORT)).total.mask == 0b11

    def test_make_restricted_refuse_more_numa_nodes_than_they_need(self) -> None:
        """The GPU is to be had on one node, CPUs only on both."""
        ledger = self.node(0, 1)
        wish = pod(cpu="10", devices=self.gpus(1))
        refusal = refused(ledger, wish, rule(RESTRICTED))
        assert refusal.detail == "cpu prefer [11] among [11] & gpu prefer [01 10] among [01 10]"
        assert given(ledger, wish, rule(BEST_EFFORT)).total.mask == 0b11
        given(ledger, pod(cpu="10", devices=self.gpus(2)), rule(RESTRICTED))

    def test_that_are_short_are_told_so(self) -> None:
        """Whatever the policy is."""
        wish = pod(cpu="1", devices=self.gpus(3))
        for policy in TopologyPolicy:
            refusal = refused(self.node(0, 1), wish, rule(policy))
            assert (refusal.why, refusal.resource) == (Why.DEVICES, "gpu")

    def test_close_to_no_numa_node_are_no_obstacle(self) -> None:
        """They are as good anywhere."""
        got = given(self.node(None), pod(cpu="1", devices=self.gpus(1)), rule())
        assert (got.total.mask, len(got.total.devices)) == (0b01, 1)
        got = given(self.node(None), pod(devices=self.gpus(1)), rule())
        assert (got.total.mask, len(got.total.devices)) == (0, 1)

    def test_alone_place_a_pod(self) -> None:
        """A pod that asks for a GPU only."""
        got = given(self.node(None, 1), pod(devices=self.gpus(2)), rule())
        assert got.total.mask == 0b10

    def test_are_given_by_container(self) -> None:
        """Each container's GPU is beside its CPUs; none is given twice."""
        wish = pod(
            container("a", cpu="6"),
            container("b", cpu="6"),
            devices=self.gpus(2, a=1, b=1),
        )
        got = given(self.node(0, 1), wish, rule(scope=CONTAINER))
        held = {name: share.devices[0].minor for name, share in got.containers.items()}
        assert held == {"a": 0, "b": 1}
        assert [device.minor for device in got.total.devices] == [0, 1]

    def test_count_as_devices_where_the_node_lists_them(self) -> None:
        """Figures of NUMA nodes for the same GPUs would tell another story."""
        ledger = self.node(0, 0, 1)
        zones = {zone: {**ledger.facts.zones[zone], "nvidia.com/gpu": 1} for zone in (0, 1)}
        listed = NodeLedger.of(replace(ledger.facts, zones=zones), {})
        wish = PodWish(requests={"cpu": 1000, "nvidia.com/gpu": 2}, devices=self.gpus(2))
        got = given(listed, wish, rule())
        assert got.total.zones == {0: {"cpu": 1000}}
        assert [held.minor for held in got.total.devices] == [0, 1]
        bare = NodeLedger.of(replace(listed.facts, devices=()), {})
        assert given(bare, wish, rule(RESTRICTED)).total.zones == {
            0: {"cpu": 500, "nvidia.com/gpu": 1},
            1: {"cpu": 500, "nvidia.com/gpu": 1},
        }

    def test_of_init_containers_are_used_again(self) -> None:
        """One GPU serves one after the other."""
        wish = pod(
            container("init", ContainerRole.INIT, cpu="1"),
            container("a", cpu="1"),
            devices=self.gpus(1, init=1, a=1),
        )
        got = given(self.node(0), wish, rule(scope=CONTAINER))
        assert [(device.minor, device.resources[self.CORE]) for device in got.total.devices] == [
            (0, 100)
        ]
        sidecar = container("side", ContainerRole.SIDECAR, cpu="1")
        both = pod(sidecar, container("a", cpu="1"), devices=self.gpus(2, side=1, a=1))
        assert refused(self.node(0), both, rule(scope=CONTAINER)).container == "a"
