"""What holds for every pod on every node."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from packages.placement.tests.strategies.nodes import (
    GIB,
    SHAPES,
    facts_of_layout,
    layout_of,
    layouts,
    wild_allotments,
)
from packages.placement.tests.strategies.wishes import FULL, SPREAD, pods, rule

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuMask
from numakube.values.numamask import nodes_of
from numakube.values.resources import MILLI_PER_CPU, add_amounts
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Exclusive, Strategy
from numakube_placement.koordinator.cpu_pick import meets
from numakube_placement.koordinator.node_facts import CpuLayout, DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit, rate
from numakube_placement.koordinator.placement_rule import PlacementRefusal, PlacementRule
from numakube_placement.koordinator.pod_wish import DeviceWish, PodWish


@st.composite
def nodes(draw: st.DrawFn) -> NodeLedger:
    """Draw an idle node."""
    layout = draw(layouts())
    ratio = draw(st.sampled_from([1.0, 1.0, 1.5, 1.337]))
    facts = facts_of_layout(
        layout,
        memory=draw(st.sampled_from([3, 8])) * GIB,
        reserved=draw(st.sampled_from(["", "0", "0-1"])),
        ratios={"cpu": ratio} if ratio > 1 else {},
    )
    return NodeLedger.of(facts, {})


@st.composite
def requests(draw: st.DrawFn) -> tuple[PodWish, PlacementRule]:
    """Draw a pod and the rule it is under."""
    bind = draw(st.sampled_from([BindPolicy.NONE, FULL, SPREAD]))
    required = bool(bind) and draw(st.booleans())
    under = rule(
        draw(st.sampled_from(TopologyPolicy)),
        scope=draw(st.sampled_from(TopologyScope)),
        exclusive=draw(st.sampled_from(Exclusive)),
        bind=bind,
        required=required,
        strategy=draw(st.sampled_from(Strategy)),
    )
    return draw(pods(bind=bind, required=required)), under


def check_sums(ledger: NodeLedger) -> None:
    """Check that nobody has what another has, and no NUMA node gave more than it has."""
    seen = 0
    for held in ledger.allotments.values():
        assert held.total.cpus & seen == 0
        assert held.total.cpus & ~ledger.capacity.bindable == 0
        seen |= held.total.cpus
    for zone, total in ledger.capacity.totals.items():
        taken = add_amounts(
            *(held.total.zones.get(zone, {}) for held in ledger.allotments.values())
        )
        bound = (seen & ledger.capacity.cpus_of_zone[zone]).bit_count() * MILLI_PER_CPU
        recorded = taken.get("cpu", 0)
        assert max(bound, recorded) <= total["cpu"]
        assert taken.get("memory", 0) <= total["memory"]
        left = total["cpu"] - ledger.free_zones[zone]["cpu"]
        assert left >= max(bound, recorded)


def check_shares(ledger: NodeLedger, wish: PodWish, under: PlacementRule, got: Allotment) -> None:
    """Check that everybody got what it asked for, where the policy says."""
    holders = got.containers if under.scope is TopologyScope.CONTAINER else {"": got.total}
    asked = {container.name: container.requests for container in wish.containers}
    for name, share in holders.items():
        wanted = asked.get(name, wish.requests)
        if under.bind:
            assert share.cpus.bit_count() * MILLI_PER_CPU == wanted.get("cpu", 0)
        check_place(ledger, under, share, {key: amount for key, amount in wanted.items() if amount})


def check_place(
    ledger: NodeLedger, under: PlacementRule, share: Share, wanted: dict[str, int]
) -> None:
    """Check one holder."""
    layout = ledger.facts.cpus
    assert layout is not None
    if under.bind_required:
        assert meets(layout, share.cpus, under.bind)
    if under.policy is TopologyPolicy.NONE:
        assert (share.mask, share.zones) == (0, {})
        return
    assert add_amounts(*share.zones.values()) == wanted
    assert set(share.zones) <= set(nodes_of(share.mask))
    inside = sum(ledger.capacity.cpus_of_zone[zone] for zone in nodes_of(share.mask))
    assert share.cpus & ~inside == 0
    if under.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        assert share.mask.bit_count() == bool(wanted)


@settings(max_examples=60)
@given(ledger=nodes(), turns=st.lists(st.tuples(requests(), st.integers(0, 9)), max_size=8))
def test_nothing_is_given_twice_whoever_comes_and_goes(
    ledger: NodeLedger, turns: list[tuple[tuple[PodWish, PlacementRule], int]]
) -> None:
    """Sums hold after every step, and what left is there again."""
    idle = ledger
    for number, ((wish, under), gone) in enumerate(turns):
        got = admit(ledger, wish, under)
        if isinstance(got, Allotment):
            check_shares(ledger, wish, under, got)
            assert 0 <= rate(ledger, got, under) <= 100
            ledger = ledger.with_pod(str(number), got)
            check_sums(ledger)
        ledger = ledger.without([str(gone)])
    assert ledger.without(ledger.allotments).key == idle.key


@given(ledger=nodes(), request=requests())
def test_answers_depend_on_the_key_alone(
    ledger: NodeLedger, request: tuple[PodWish, PlacementRule]
) -> None:
    """Ledgers with one key are one to every pod, whatever the node is called."""
    wish, under = request
    got = admit(ledger, wish, under)
    twin = NodeLedger.of(
        replace(ledger.facts, node="twin", problems=("x",)), {"nobody": Allotment()}
    )
    assert twin.key == ledger.key
    assert admit(twin, wish, under) == got


@given(data=st.data(), ledger=nodes())
def test_scope_container_places_whatever_scope_pod_places_on_one_numa_node(
    data: st.DataObject, ledger: NodeLedger
) -> None:
    """For pods without plain init containers.

    The NUMA node that has room for all of them has room for each at its turn, however many of the
    others went there. Whole cores as a must are another matter: containers that do not ask for
    whole cores each may do so together.
    """
    bind = data.draw(st.sampled_from([BindPolicy.NONE, FULL, SPREAD]))
    required = bind is SPREAD and data.draw(st.booleans())
    strategy = data.draw(st.sampled_from(Strategy))
    for number in range(data.draw(st.integers(0, 3))):
        other = admit(
            ledger, data.draw(pods(bind=bind)), rule(TopologyPolicy.RESTRICTED, bind=bind)
        )
        if isinstance(other, Allotment):
            ledger = ledger.with_pod(str(number), other)
    wish = data.draw(
        pods(bind=bind, required=required, roles=(ContainerRole.APP, ContainerRole.SIDECAR))
    )
    exclusive = data.draw(st.sampled_from(Exclusive))
    under = rule(bind=bind, required=required, strategy=strategy, exclusive=exclusive)
    if isinstance(admit(ledger, wish, under), Allotment):
        each = replace(under, scope=TopologyScope.CONTAINER)
        assert isinstance(admit(ledger, wish, each), Allotment)


@given(ledger=nodes(), request=requests())
def test_stricter_policies_refuse_what_looser_ones_take(
    ledger: NodeLedger, request: tuple[PodWish, PlacementRule]
) -> None:
    """A pod that fits one NUMA node fits under every policy, on as few of them."""
    wish, under = request
    single = admit(ledger, wish, replace(under, policy=TopologyPolicy.SINGLE_NUMA_NODE))
    restricted = admit(ledger, wish, replace(under, policy=TopologyPolicy.RESTRICTED))
    best_effort = admit(ledger, wish, replace(under, policy=TopologyPolicy.BEST_EFFORT))
    if isinstance(single, Allotment):
        assert restricted == single
    if isinstance(restricted, Allotment):
        assert best_effort == restricted
    if isinstance(best_effort, PlacementRefusal):
        assert isinstance(restricted, PlacementRefusal)


CORE, RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
GPUS = tuple(
    DevicePlace(type="gpu", minor=minor, numa=minor % 2, resources={CORE: 100, RATIO: 100})
    for minor in range(3)
)


@st.composite
def gpu_pods(draw: st.DrawFn) -> PodWish:
    """Draw a pod whose containers want parts of GPUs, or whole ones."""
    wish = draw(pods(bind=BindPolicy.NONE))
    sizes = {
        container.name: draw(st.sampled_from([0, 30, 50, 100, 200]))
        for container in wish.containers
    }
    parts = {name: {"gpu": {CORE: size, RATIO: size}} for name, size in sizes.items() if size}
    whole = {CORE: 100, RATIO: 100}
    wanted = DeviceWish(requests={"gpu": whole}, by_container=parts) if parts else None
    return replace(wish, devices=wanted)


@settings(max_examples=50)
@given(
    turns=st.lists(
        st.tuples(
            gpu_pods(),
            st.sampled_from(TopologyPolicy),
            st.sampled_from(TopologyScope),
            st.integers(0, 4),
        ),
        max_size=6,
    )
)
def test_no_device_is_given_twice_whoever_comes_and_goes(
    turns: list[tuple[PodWish, TopologyPolicy, TopologyScope, int]],
) -> None:
    """Containers hold what the pod holds, and all pods no more than there is."""
    layout = layout_of("2x1x4x2")
    ledger = NodeLedger.of(facts_of_layout(layout, memory=16 * GIB, devices=GPUS), {})
    for number, (wish, policy, scope, gone) in enumerate(turns):
        got = admit(ledger, wish, rule(policy, scope=scope))
        if isinstance(got, Allotment):
            ledger = ledger.with_pod(str(number), got)
            held = {(device.type, device.minor): device.resources for device in got.total.devices}
            assert len(held) == len(got.total.devices)
            for share in got.containers.values():
                for device in share.devices:
                    assert device.resources[CORE] <= held[device.type, device.minor][CORE]
        taken = [device for pod in ledger.allotments.values() for device in pod.total.devices]
        for gpu in GPUS:
            assert (
                sum(device.resources[CORE] for device in taken if device.minor == gpu.minor) <= 100
            )
        ledger = ledger.without([str(gone)])


@st.composite
def odd_nodes(draw: st.DrawFn) -> NodeLedger:
    """Draw what reports could say of a node, and annotations of its pods, sense or nonsense."""
    amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(-5, 9000))
    zones = draw(st.dictionaries(st.integers(-1, 70), amounts, max_size=4))
    places = draw(st.sampled_from([(), *(layout_of(shape).places for shape in SHAPES[:4])]))
    some = draw(st.sets(st.sampled_from(places))) if places else set()
    cpus = tuple(place for place in places if place not in some)
    facts = NodeFacts(
        node="odd",
        zones=zones,
        cpus=draw(st.sampled_from([None, CpuLayout(cpus), CpuLayout(places)])),
        reserved_cpus=CpuMask(draw(st.integers(0, 1 << 20))),
        ratios={"cpu": draw(st.sampled_from([0.0, 1.0, 1.5, float("nan"), float("inf")]))},
        devices=draw(st.sampled_from([(), GPUS])),
    )
    held = draw(st.lists(wild_allotments(), max_size=2))
    return NodeLedger.of(facts, {str(number): one for number, one in enumerate(held)})


@settings(max_examples=40)
@given(ledger=odd_nodes(), request=requests(), gpus=st.booleans())
def test_odd_nodes_are_refused_or_used_and_never_an_error(
    ledger: NodeLedger, request: tuple[PodWish, PlacementRule], gpus: bool
) -> None:
    """Numbers that make no sense cost a pod its place, not the scheduler its life."""
    wish, under = request
    part = {"gpu": {CORE: 50, RATIO: 50}}
    wanted = DeviceWish(requests=part, by_container={"c0": part}) if gpus else None
    got = admit(ledger, replace(wish, devices=wanted), under)
    if isinstance(got, Allotment):
        assert got.total.cpus & ~ledger.free_cpus == 0
        assert 0 <= rate(ledger, got, under) <= 100
        assert ledger.with_pod("it", got).key
