"""Hints that are described instead of listed: equal to the plain definition, and quick."""

from __future__ import annotations

import time
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import guaranteed, pod, start
from tests.kubelet.test_topology_hints import numa_of

from numakube.kubelet.admission_outcome import NO_ANSWER, Admitted, NoAnswer, Rejected
from numakube.kubelet.cpu_manager import listed_cpu_hints, wide_cpu_hints
from numakube.kubelet.device_manager import listed_device_hints, wide_device_hints
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Device, Machine, NumaNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.memory_hints import (
    MemoryAmounts,
    MemoryBooks,
    NodeMemory,
    best_hint,
    listed_memory_hints,
    wide_memory_hints,
)
from numakube.kubelet.topology_hints import (
    Hint,
    NumaInfo,
    ProviderHints,
    merge,
    reference_merge,
)
from numakube.kubelet.topology_manager import decide
from numakube.kubelet.wide_hints import Cover, WideHints, merge_wide
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet
from numakube.values.numamask import mask_of, masks_over
from numakube.values.topology_policy import TopologyPolicy

SEEDS = st.integers(0, 2**32).map(Random)


def some_hints(random: Random, nodes: tuple[int, ...]) -> WideHints:
    """Return hints with random conditions on *nodes*."""
    covers = []
    for _ in range(random.randint(1, 2)):
        amounts = {1 << node: random.randint(0, 3) for node in nodes}
        if random.random() < 0.3:
            amounts[mask_of(random.sample(nodes, min(2, len(nodes))))] = 2
        covers.append(Cover(amounts, random.randint(0, 5)))
    listed = random.sample(masks_over(nodes), random.randint(0, 3)) if len(nodes) > 1 else []
    return WideHints(
        nodes,
        tuple(covers),
        smallest=random.randint(1, 3),
        open=mask_of(node for node in nodes if random.random() < 0.8),
        least=random.randint(1, 2),
        listed=frozenset(listed),
    )


def some_machine(random: Random, most: int) -> NumaInfo:
    """Return NUMA nodes with holes in their ids and random distances."""
    nodes = sorted(random.sample(range(12), random.randint(1, most)))
    rows = [[random.choice((10, 11, 20, 32)) for _ in nodes] for _ in nodes]
    return numa_of(*nodes, distances=rows, closest=random.random() < 0.5)


@given(SEEDS)
def test_every_answer_is_that_of_the_list(random: Random) -> None:
    """Narrowest hint, fittest of a size, what hints have of some nodes, a bound of their number."""
    numa = some_machine(random, 5)
    hints = some_hints(random, numa.nodes)
    masks = [mask for mask in masks_over(numa.nodes) if mask in hints]
    assert hints.narrowest == min((mask.bit_count() for mask in masks), default=None)
    assert hints.fewest <= len(masks) + len(hints.listed)
    assert set(hints.members()) == set(masks)
    some = mask_of(node for node in numa.nodes if random.random() < 0.5)
    assert hints.parts(some) == {mask & some for mask in masks} - {0}
    for size in range(1, len(numa.nodes) + 1):
        fitting = [m for m in masks if m.bit_count() == size and some & ~m == 0]
        assert hints.first(size, within=some) == min(fitting, default=None)
        fittest = min(fitting, key=numa.fitness, default=None)
        assert hints.first(size, within=some, numa=numa) == fittest


def test_the_closest_nodes_are_found_though_each_is_far_from_itself() -> None:
    """Firmware may write such tables; what a node is to itself says nothing of pairs."""
    rows = [[40 if one == other else 10 if min(one, other) > 1 else 20 for other in range(5)]
            for one in range(5)]  # fmt: skip
    numa = numa_of(*range(5), distances=rows, closest=True)
    anywhere = WideHints(
        numa.nodes, (), smallest=3, open=mask_of(numa.nodes), least=1, listed=frozenset()
    )
    assert anywhere.first(3, numa=numa) == mask_of((2, 3, 4))


@given(SEEDS)
@settings(max_examples=200)
def test_described_hints_merge_as_listed_ones(random: Random) -> None:
    """Whatever the others are: described on other nodes, listed, indifferent, or impossible."""
    numa = some_machine(random, 5)
    axes = []
    for _ in range(random.randint(1, 3)):
        nodes = sorted(random.sample(numa.nodes, random.randint(1, len(numa.nodes))))
        axes.append(some_hints(random, tuple(nodes)))
    axes = [axis for axis in axes if axis]
    others = [[Hint(None, preferred=True)], [Hint(None, preferred=False)]]
    some = random.choices(masks_over(numa.nodes), k=random.randint(1, 4))
    others.append([Hint(mask, preferred=random.random() < 0.5) for mask in some])
    listed = random.sample(others, random.randint(0, 1))
    plain = [*(axis.listing() for axis in axes), *listed]
    assert merge_wide([*axes, *listed], numa) == merge(plain, numa)
    described: list[ProviderHints] = [{"r": axis} for axis in axes]
    described += [{"r": one} for one in listed]
    expected = decide(TopologyPolicy.SINGLE_NUMA_NODE, [{"r": one} for one in plain], numa)
    assert decide(TopologyPolicy.SINGLE_NUMA_NODE, described, numa) == expected


@given(SEEDS)
@settings(max_examples=40)
def test_one_resource_alone_gets_its_own_best_hint_on_wide_machines(random: Random) -> None:
    """Its fittest preferred one, or else its fittest narrowest one."""
    nodes = tuple(sorted(random.sample(range(20), 10)))
    rows = [[random.choice((10, 12, 20)) for _ in nodes] for _ in nodes]
    numa = numa_of(*nodes, distances=rows, closest=random.random() < 0.5)
    hints = some_hints(random, nodes)
    if hints:
        assert merge_wide([hints], numa) == reference_merge([hints.listing()], numa)


@given(SEEDS)
@settings(max_examples=40)
def test_two_resources_on_a_wide_machine_agree_on_what_both_prefer(random: Random) -> None:
    """Whether one lists a mask and the other describes it, or both describe it."""
    rows = [[random.choice((10, 12, 20)) for _ in range(9)] for _ in range(9)]
    numa = numa_of(*range(9), distances=rows, closest=random.random() < 0.5)
    some = random.sample(masks_over(numa.nodes), 40)
    axes = []
    for _ in range(2):
        amounts = {1 << node: random.randint(0, 2) for node in numa.nodes}
        cover = Cover(amounts, max(1, sum(amounts.values()) - random.randint(0, 2)))
        smallest, listed = random.choice((1, 2, 7, 8)), random.sample(some, random.randint(0, 30))
        axes.append(WideHints(numa.nodes, (cover,), smallest, listed=frozenset(listed)))
    plain = [axis.listing() for axis in axes]
    assert merge_wide(axes, numa) == merge(plain, numa)


@given(SEEDS)
@settings(max_examples=10)
def test_two_resources_on_a_wide_machine_are_listed(random: Random) -> None:
    """Nine common nodes are too many for a table, and few enough for a list."""
    numa = numa_of(*range(9))
    amounts = [{1 << node: random.randint(1, 2) for node in numa.nodes} for _ in range(2)]
    axes = [
        WideHints(numa.nodes, (Cover(amount, sum(amount.values()) - 2),), 8) for amount in amounts
    ]
    plain = [axis.listing() for axis in axes]
    assert merge_wide(axes, numa) == merge(plain, numa)


def some_books(random: Random) -> MemoryBooks:
    """Return the books of a machine with groups and single nodes in use."""
    books = {}
    for node in range(random.randint(1, 5)):
        tables = {}
        for kind in ("memory", "hugepages-1Gi"):
            total = random.randint(0, 6)
            tables[kind] = MemoryAmounts(total, 0, total, free=random.randint(0, total))
        books[node] = NodeMemory((node,), assignments=random.randint(0, 1), tables=tables)
    if len(books) > 2 and random.random() < 0.5:
        group = tuple(sorted(random.sample(sorted(books), 2)))
        for node in group:
            books[node].cells, books[node].assignments = group, 1
    return books


@given(SEEDS)
@settings(max_examples=200)
def test_described_hints_for_memory_are_the_listed_ones(random: Random) -> None:
    """With groups in use, several memory types, and memory of finished init containers."""
    books = some_books(random)
    request = {"memory": random.randint(1, 8)}
    if random.random() < 0.5:
        request["hugepages-1Gi"] = random.randint(0, 4)
    again = {(random.choice(masks_over(tuple(books))), "memory"): random.randint(1, 4)}
    reusable = again if random.random() < 0.5 else {}
    listed = listed_memory_hints(books, request, reusable)
    wide = wide_memory_hints(books, request, reusable)
    assert wide.listing() == listed
    within = random.choice([0, *masks_over(tuple(books))])
    assert best_hint(wide, within) == best_hint(listed, within)


@given(SEEDS)
def test_described_hints_for_devices_are_the_listed_ones(random: Random) -> None:
    """With devices of several nodes, and devices that the pod will use again."""
    nodes = tuple(range(random.randint(1, 5)))
    every = [mask_of(random.sample(nodes, min(len(nodes), random.randint(1, 2)))) for _ in range(5)]
    free, tied = every[: random.randint(0, 5)], every[: random.randint(0, 1)]
    counts = {"every": Counter(every), "free": Counter(free), "tied": Counter(tied)}
    count = random.randint(0, 4)
    listed = listed_device_hints(nodes, **counts, count=count, alone=False)
    assert wide_device_hints(nodes, **counts, count=count).listing() == listed
    alone = listed_device_hints(nodes, **counts, count=count, alone=True)
    assert alone == [hint for hint in listed if (hint.mask or 0).bit_count() == 1]


def wide_machine(count: int, *, ids: tuple[int, ...] = ()) -> Machine:
    """A machine of so many NUMA nodes: two with CPUs, the others with memory only."""
    numbers = ids or tuple(range(count))
    nodes = []
    for index, number in enumerate(numbers):
        cpus = range(8 * index, 8 * index + 8) if index < 2 else range(0)
        cores = tuple(Core(cpu, (cpu,), socket=index, uncore_cache=index) for cpu in cpus)
        distances = tuple(10 if other == number else 40 for other in numbers)
        nodes.append(NumaNode(number, 64 << 30, cores, distances=distances))
    return Machine(tuple(nodes), cpu_count=16, socket_count=2)


@given(SEEDS)
def test_described_hints_for_cpus_are_the_listed_ones(random: Random) -> None:
    """With CPUs in use, and CPUs that the pod will use again."""
    node = start(
        wide_machine(4), KubeletSettings(cpu_policy="static", reserved_cpus=CpuSet.of([0]))
    )
    assert node.cpus is not None
    free = CpuMask(random.getrandbits(16))
    again = CpuMask(random.getrandbits(16) & ~free) if random.random() < 0.5 else NO_CPUS
    count = random.randint(1, 16)
    wide = wide_cpu_hints(node.cpus, free, again, count)
    assert wide.listing() == listed_cpu_hints(node.cpus, free, again, count)


MACHINES = {
    "16": wide_machine(16),
    "24": wide_machine(24),
    "34": wide_machine(34),
    "holes": wide_machine(34, ids=(0, 1, *range(4, 60, 2), *range(60, 64))),
    "64": wide_machine(64),
}
GPUS = {"vendor.example/gpu": tuple(Device(f"gpu{n}", (n % 2,)) for n in range(4))}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kubernetes", ["1.31", "1.35", "1.36", "1.37"])
def test_admission_on_many_numa_nodes_ends_at_once(machine: str, kubernetes: str) -> None:
    """Under every policy, scope and memory policy: with an answer, or with word that none comes."""
    policies = ("none", "best-effort", "restricted", "single-numa-node")
    for policy, scope, memory in product(policies, ("container", "pod"), ("None", "Static")):
        settings_ = KubeletSettings(
            topology_policy=policy,
            topology_scope=scope,
            topology_options={"max-allowable-numa-nodes": "64"},
            cpu_policy="static",
            reserved_cpus=CpuSet.of([0]),
            memory_policy=memory,
            reserved_memory={0: {"memory": 1 << 30}},
        )
        node = start(MACHINES[machine], settings_, devices=GPUS, kubernetes=kubernetes)
        begin = time.process_time()
        outcome = node.admit(pod(guaranteed("app", "2", "4Gi", gpu="1")))
        assert time.process_time() - begin < 1
        tries = sets_tried(len(node.machine.nodes), node, aligns=policy != "none")
        case = (policy, scope, memory, outcome)
        if tries < 1 << 22:
            assert isinstance(outcome, Admitted), case
        elif tries > 1 << 30:
            assert isinstance(outcome, Rejected), case
            assert outcome.reason == NO_ANSWER
            assert "this kubelet would not answer for about" in outcome.message


def sets_tried(nodes: int, node: KubeletNode, *, aligns: bool) -> int:
    """Return how many sets, or pairs of them, that kubelet looks at for one container."""
    old = node.behaviour.version < (1, 36)
    tries = (1 << nodes if node.memory else 1) * (1 << nodes if old and aligns else 1)
    single = node.topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    return 1 << nodes if single and tries > 1 else tries


def test_a_pod_without_an_answer_leaves_nothing_behind() -> None:
    """The next pod finds the node as it was."""
    settings_ = KubeletSettings(
        topology_policy="restricted",
        topology_options={"max-allowable-numa-nodes": "34"},
        cpu_policy="static",
        reserved_cpus=CpuSet.of([0]),
        memory_policy="Static",
        reserved_memory={0: {"memory": 1 << 30}},
    )
    node = start(MACHINES["34"], settings_, kubernetes="1.37")
    before = node.shared_cpus
    assert isinstance(node.admit(pod(guaranteed("app", "2"))), Rejected)
    node.collect_garbage()
    assert (node.shared_cpus, list(node.pods)) == (before, [])


def test_a_resource_that_fits_nowhere_spoils_what_others_prefer() -> None:
    """Whether it comes first or last."""
    numa = numa_of(*range(10))
    wide = WideHints(
        numa.nodes, (), smallest=1, open=mask_of(numa.nodes), least=1, listed=frozenset()
    )
    spoiled = Hint(numa.everywhere, preferred=False)
    assert merge_wide([wide, []], numa) == spoiled
    assert merge_wide([[], wide], numa) == spoiled
    assert merge_wide([wide], numa) == Hint(1, preferred=True)


def wide_axis(random: Random, nodes: tuple[int, ...]) -> WideHints:
    """Return hints that are many, few, listed in part, closed to some nodes, or aligned."""
    amounts = {1 << node: random.randint(0, 2) for node in nodes}
    closed = mask_of(random.sample(nodes, random.choice((0, 0, 1))))
    smallest = random.choice((1, 2, len(nodes) - 1))
    wider = random.choice((None, None, lambda m: m.bit_count() > smallest and m % 5 == 0))
    return WideHints(
        nodes,
        (Cover(amounts, random.randint(0, sum(amounts.values()))),),
        smallest=smallest,
        open=mask_of(nodes) & ~closed,
        least=random.choice((1, 1, 3)),
        listed=frozenset(random.sample(masks_over(nodes), random.choice((0, 20)))),
        aligned=wider,
    )


def listed_axis(random: Random, numa: NumaInfo) -> list[Hint]:
    """Return hints of a resource on all nodes: on sets of them, anywhere, or both."""
    sets = random.sample(masks_over(numa.nodes), random.choice((1, 40)))
    found = [Hint(mask, preferred=random.random() < 0.7) for mask in sets]
    return random.choice(
        ([Hint(None, preferred=True)], [Hint(None, preferred=False)], found,
         [Hint(numa.everywhere, preferred=False)])
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_wide_and_listed_hints_merge_on_eight_to_ten_nodes_as_lists_do(seed: int) -> None:
    """Eight common nodes are tried set by set; above, each short cut answers as lists would."""
    random = Random(seed)
    for count in (8, 9, 10) * 4:
        ids = tuple(sorted(random.sample(range(14), count)))
        rows = [[random.choice((10, 12, 20)) for _ in ids] for _ in ids]
        numa = numa_of(*ids, distances=rows, closest=random.random() < 0.5)
        apart = tuple(sorted(random.sample(ids, count - 1))) if random.random() < 0.2 else ids
        wide = [one for nodes in (ids, apart) if (one := wide_axis(random, nodes))]
        axes = wide[: random.randint(1, 2)] + [listed_axis(random, numa)] * random.randint(0, 1)
        random.shuffle(axes)
        plain = [axis.listing() if isinstance(axis, WideHints) else axis for axis in axes]
        assert merge_wide(axes, numa) == merge(plain, numa), axes


TWENTY = numa_of(*range(20))
UNITS = {1 << node: 1 for node in TWENTY.nodes}


def sets_with(wanted: int, smallest: int = 1, **rules: Any) -> WideHints:
    """Return hints on twenty nodes: the sets of *wanted* nodes and more."""
    return WideHints(TWENTY.nodes, (Cover(UNITS, wanted),), smallest, **rules)


HALF = sets_with(19, 19)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        pytest.param([sets_with(0)], Hint(1, True), id="a preferred set"),
        pytest.param([sets_with(3)], Hint(0b111, False), id="the narrowest set"),
        pytest.param([sets_with(2, 3)], Hint(0b111, True), id="a preferred set that is wider"),
        pytest.param(
            [sets_with(2, 2), [Hint(None, preferred=False)]], Hint(0b11, False), id="no hope"
        ),
        pytest.param(
            [sets_with(19, 1, aligned=lambda mask: mask & 1 == 0)],
            Hint(mask_of(range(1, 20)), True),
            id="an aligned set",
        ),
        pytest.param([HALF, HALF], Hint(mask_of(range(19)), True), id="what both prefer"),
        pytest.param(
            [HALF, sets_with(20, 19)], Hint(mask_of(range(20)), False), id="nothing both prefer"
        ),
        pytest.param(
            [HALF, sets_with(18, 19, least=20)], Hint(mask_of(range(20)), False), id="least"
        ),
        pytest.param(
            [HALF, sets_with(18, 19, open=mask_of(range(1, 20)))],
            Hint(mask_of(range(1, 20)), True),
            id="closed to a node",
        ),
        pytest.param(
            [HALF, [Hint(mask_of(range(12)), True)]], Hint(mask_of(range(12)), False), id="listed"
        ),
        pytest.param(
            [sets_with(3), [Hint(mask_of(range(8)), True)]],
            Hint(mask_of(range(8)), False),
            id="eight common nodes",
        ),
        pytest.param(
            [sets_with(2), [Hint(0b111, True), Hint(0b11111, True)]],
            Hint(0b111, False),
            id="the narrowest of the neediest",
        ),
        pytest.param(
            [sets_with(2), [Hint(0b1010, True), Hint(0b101, True)]],
            Hint(0b101, False),
            id="within a listed one",
        ),
        pytest.param(
            [sets_with(18, 19), sets_with(18, 18)],
            Hint(mask_of(range(18)), False),
            id="each prefers its own size",
        ),
        pytest.param(
            [sets_with(7, 7), sets_with(7, 7)], Hint(0b1111111, True), id="both prefer of millions"
        ),
        pytest.param(
            [sets_with(7, 7, aligned=bool), sets_with(7, 7)],
            Hint(0b1111111, True),
            id="one prefers all of millions",
        ),
        pytest.param(
            [sets_with(18, 19, aligned=lambda mask: mask & 0b11 == 0)] * 2,
            Hint(mask_of(range(2, 20)), True),
            id="aligned for both",
        ),
        pytest.param(
            [HALF, HALF, [Hint(None, preferred=False)]],
            Hint(mask_of(range(19)), False),
            id="no hope of two",
        ),
    ],
)
def test_twenty_nodes_are_merged_without_lists_of_sets(
    axes: list[WideHints | list[Hint]], expected: Hint
) -> None:
    """A million sets are not compared with each other; a score of them are."""
    assert merge_wide(axes, TWENTY) == expected


@pytest.mark.parametrize(("sets", "answers"), [(1000, True), (1001, False)])
def test_a_thousand_described_sets_are_compared_one_by_one(sets: int, answers: bool) -> None:
    """With one more there is no answer, instead of one that comes too late."""
    few = WideHints(TWENTY.nodes, (), open=0, listed=frozenset(masks_over(TWENTY.nodes)[-sets:]))
    other = [Hint(TWENTY.everywhere, preferred=False)]
    if answers:
        assert merge_wide([few, other], TWENTY) == merge([few.listing(), other], TWENTY)
    else:
        with pytest.raises(NoAnswer, match="cannot compare so many sets"):
            merge_wide([few, other], TWENTY)


def test_sixteen_nodes_are_listed() -> None:
    """More sets than a thousand, of a resource that another one spoils."""
    numa = numa_of(*range(16))
    wide = WideHints(numa.nodes, (Cover({1 << node: 1 for node in numa.nodes}, 5),))
    other = [Hint(0b11, preferred=False), Hint(numa.everywhere, preferred=False)]
    assert merge_wide([wide, other], numa) == Hint(0b11111, preferred=False)


ODD = WideHints(
    (0, 2, 3, 5),
    (Cover({0b1: 2, 0b100: 1, 0b1000: 1, 0b100000: 1}, 2),),
    smallest=2,
    open=0b1101,
    listed=frozenset({0b100000, 0b101001}),
)


def test_hints_are_counted_and_shown_by_example() -> None:
    """At least the listed ones and all that contain the narrowest described one."""
    by_size = [Hint(0b1, False), Hint(0b100000, False),
               Hint(0b101, True), Hint(0b1001, True), Hint(0b1100, True),
               Hint(0b1101, False), Hint(0b101001, False)]  # fmt: skip
    assert ODD.listing() == by_size
    assert ODD.examples() == by_size[:5]
    assert (ODD.fewest, ODD.narrowest) == (2 + 4, 1)
    shown = [str(Hint(None, preferred=True)), str(Hint(0b1001, preferred=False))]
    assert shown == ["any/preferred", "{0,3}/not preferred"]
    everything = WideHints((0, 1, 2), (Cover({0b111: 4}, 4),), least=3)
    assert (everything.fewest, everything.narrowest, set(everything.members())) == (1, 3, {7})
    assert everything.examples() == [Hint(7, False)]
    nothing = WideHints((0, 1, 2), (Cover({0b1: 1}, 2),), listed=frozenset({0b110}))
    assert (nothing.fewest, nothing.narrowest, nothing.examples()) == (1, 2, [Hint(6, False)])
    none = WideHints((0, 1), (Cover({0b1: 1}, 2),))
    assert (bool(none), none.examples()) == (False, [])


def test_sums_that_were_tried_in_vain_are_not_tried_again() -> None:
    """Six even nodes and five odd ones are eleven; that ten are too few takes no million steps."""
    even = {1 << node: 1 for node in range(0, 20, 2)}
    odd = {1 << node: 1 for node in range(1, 20, 2)}
    both = WideHints(TWENTY.nodes, (Cover(even, 6), Cover(odd, 5)))
    assert both.narrowest == 11


def test_what_two_nodes_share_counts_once() -> None:
    """Node 0 adds nothing beside node 1 and completes nodes 2 and 3, after equal sums."""
    shared = WideHints((0, 1, 2, 3), (Cover({0b11: 1, 0b1000: 1}, 2),), least=3)
    assert set(shared.members()) == {0b1011, 0b1101, 0b1110, 0b1111}


def test_nodes_that_are_equally_far_apart_are_compared_once() -> None:
    """No set of ten can be closer than the first, so that the others are not looked at."""
    far = numa_of(*range(20), closest=True)
    assert WideHints(far.nodes, ()).first(10, numa=far) == mask_of(range(10))


def test_a_search_among_too_many_sets_gives_up() -> None:
    """Distances without any order, where nothing tells the closest set but trying."""
    random = Random(1)
    rows = [[random.randint(10, 250) for _ in range(24)] for _ in range(24)]
    far = numa_of(*range(24), distances=rows, closest=True)
    with pytest.raises(NoAnswer, match="among too many sets of NUMA nodes"):
        WideHints(far.nodes, ()).first(12, numa=far)
