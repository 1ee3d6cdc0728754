"""Whatever is wanted: no device gives more than it has, and what belongs together stays so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packages.placement.tests.koordinator.devices.offering import offer_of

from numakube.api.koordinator.devices import (
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    RDMA,
    RDMA_SHARE,
    DeviceHint,
)
from numakube.api.meta import LabelSelector
from numakube.topology.allotments import Allotment, HeldDevice, Share
from numakube.values.numamask import masks_over
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.numa_search import BEST_SCORE
from numakube_placement.koordinator.placement_rule import PlacementRefusal
from numakube_placement.koordinator.pod_wish import DeviceWish

SIZES = {GPU: {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, RDMA: {RDMA_SHARE: 100}}


@st.composite
def ledgers(draw: st.DrawFn) -> NodeLedger:
    """Return the ledger of a node with a few GPUs and cards, some of them ill or in use."""
    places, held = [], []
    for kind in (GPU, RDMA):
        for minor in range(draw(st.integers(0, 5))):
            numa = draw(st.sampled_from((None, 0, 1, 3)))
            place = DevicePlace(
                type=kind,
                minor=minor,
                numa=numa,
                pcie=f"{numa}-{draw(st.integers(0, 1))}",
                healthy=draw(st.integers(0, 5)) > 0,
                resources=SIZES[kind],
                vfs=tuple(f"{minor}.{one}" for one in range(2)) if kind == RDMA else (),
            )
            places.append(place)
            part = draw(st.sampled_from((0, 0, 50, 100)))
            if part:
                amounts = dict.fromkeys(SIZES[kind], part)
                vfs = place.vfs[:1]
                held.append(HeldDevice(type=kind, minor=minor, resources=amounts, vfs=vfs))
    facts = NodeFacts(node="n", devices=tuple(places))
    return NodeLedger.of(facts, {"other": Allotment(total=Share(devices=tuple(held)))})


@st.composite
def wishes(draw: st.DrawFn) -> DeviceWish:
    """Return a wish for GPUs, cards, or both together."""
    requests: dict[str, dict[str, int]] = {}
    gpu = draw(st.sampled_from((0, 30, 50, 100, 200, 300)))
    if gpu:
        requests[GPU] = {GPU_CORE: gpu, GPU_MEMORY_RATIO: gpu}
    card = draw(st.sampled_from((0, 1, 2, 50, 100, 200)))
    strategy = draw(st.sampled_from(("", "RequestsAsCount"))) if card < 3 else ""
    if card:
        requests[RDMA] = {RDMA_SHARE: card}
    functions = draw(st.booleans())
    joint = (GPU, RDMA) if len(requests) == 2 and draw(st.booleans()) else ()
    hint = DeviceHint(
        allocate_strategy=strategy,
        vf_selector=LabelSelector() if functions else None,
        exclusive_policy=draw(st.sampled_from(("", "DeviceLevel", "PCIeLevel"))),
    )
    return DeviceWish(
        requests=requests,
        joint=joint,
        same_pcie=bool(joint) and draw(st.booleans()),
        hints={RDMA: hint},
    )


@given(ledger=ledgers(), wish=wishes(), mask=st.none() | st.integers(1, 15))
def test_what_is_given_is_there_and_near(
    ledger: NodeLedger, wish: DeviceWish, mask: int | None
) -> None:
    """Within the mask, healthy, free, each once, with a virtual function that nobody holds."""
    given = allot_devices(ledger, wish, mask=mask)
    if isinstance(given, PlacementRefusal):
        return
    free = {(device.place.type, device.place.minor): device for device in ledger.free_devices}
    assert len({(device.type, device.minor) for device in given}) == len(given)
    for device in given:
        left = free[device.type, device.minor]
        numa = left.place.numa
        assert left.place.healthy
        assert mask is None or numa is None or mask >> numa & 1
        assert all(left.left[name] >= amount for name, amount in device.resources.items())
        assert set(device.vfs) <= set(left.vfs)
    if wish.same_pcie and ledger.facts.devices:
        switches = [
            {free[device.type, device.minor].place.pcie for device in given if device.type == kind}
            for kind in wish.joint
        ]
        assert switches[0] == switches[1]


@given(ledger=ledgers(), wish=wishes())
def test_hints_name_the_masks_on_which_devices_can_be_had(
    ledger: NodeLedger, wish: DeviceWish
) -> None:
    """No other ones; those with the GPUs that the pod would get anyway have the best score."""
    offer = offer_of(ledger, wish)
    numas = tuple(
        sorted({device.numa for device in ledger.facts.devices if device.numa is not None})
    )
    given = {mask: allot_devices(ledger, wish, mask=mask) for mask in masks_over(numas)}
    assert [(hint.mask, hint.score) for hint in offer.hints(given, preferred=True)] == [
        (mask, BEST_SCORE if gpus(found) == gpus(offer.best) else 0)
        for mask, found in given.items()
        if not isinstance(found, PlacementRefusal)
    ]


def gpus(given: tuple[HeldDevice, ...] | PlacementRefusal) -> set[int]:
    """Return which GPUs are given."""
    return (
        set()
        if isinstance(given, PlacementRefusal)
        else {device.minor for device in given if device.type == "gpu"}
    )
