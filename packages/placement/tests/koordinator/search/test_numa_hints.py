"""One set of NUMA nodes for all resources."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_values import Exclusive
from numakube_placement.koordinator.node_ledger import NumaStatus
from numakube_placement.koordinator.numa_search import (
    MergeContext,
    NumaHint,
    decide,
    mask_text,
    merge,
    reason,
    summary,
)
from numakube_placement.koordinator.numa_supply import Neighbours

BEST_EFFORT, RESTRICTED, SINGLE = (
    TopologyPolicy.BEST_EFFORT,
    TopologyPolicy.RESTRICTED,
    TopologyPolicy.SINGLE_NUMA_NODE,
)
FOUR = MergeContext(zones=0b1111)
TWO = MergeContext(zones=0b11)


def hints(text: str) -> list[NumaHint]:
    """Write hints as in ``01p40 11n``; ``nil`` has no mask, p is preferred, n is not."""
    words = re.findall(r"(nil|[01]+)([pn])(\d*)", text)
    return [
        NumaHint(None if mask == "nil" else int(mask, 2), kind == "p", int(score or 0))
        for mask, kind, score in words
    ]


def named(*texts: str) -> dict[str, list[NumaHint]]:
    """Return lists of hints as of resources r1, r2 and so on."""
    return {f"r{number}": hints(text) for number, text in enumerate(texts, 1)}


# Each row: lists of hints on four NUMA nodes; what BestEffort, Restricted and SingleNUMANode say.
# A mask with "!" is not admitted; what mask a refused pod would have had means nothing.
ROWS = {
    "same mask, both preferred 1/2": (["01p", "01p"], "01", "01", "01"),
    "same mask, both preferred 2/2": (["10p", "10p"], "10", "10", "10"),
    "two hints and one that matches 1/2": (["01p 10p", "01p"], "01", "01", "01"),
    "two hints and one that matches 2/2": (["01p 10p", "10p"], "10", "10", "10"),
    "the narrower preferred hint of both": (["01p 10p", "01p 11n"], "01", "01", "01"),
    "less narrow preferred before narrower others": (["10p 11n", "01p 10p 11n"], "10", "10", "10"),
    "two masks, some bits differ": (["11p 101p", "11p 101p"], "11", "11", "!"),
    "no resource": ([], "1111", "1111", "1111"),
    "a resource that fits nowhere": ([""], "1111", "!", "!"),
    "any set, preferred": (["nilp"], "1111", "1111", "1111"),
    "any set, not preferred": (["niln"], "1111", "!", "!"),
    "any set and a mask": (["nilp", "10p"], "10", "10", "10"),
    "no common mask": (["01p", "10p"], "1111", "!", "!"),
    "same mask, one not preferred 1/2": (["01p", "01n"], "01", "!", "!"),
    "same mask, one not preferred 2/2": (["10p", "10n"], "10", "!", "!"),
    "one wider, both preferred 1/2": (["01p", "11p"], "1111", "!", "!"),
    "one wider, both preferred 2/2": (["10p", "11p"], "1111", "!", "!"),
    "two hints and a wider one not preferred": (["01p 10p", "11n"], "1111", "!", "!"),
    "single numa hint generation": (["11p", "01p 10p 11n"], "11", "!", "!"),
    "one without preference": (["01p 10p 11n", "nilp"], "01", "01", "01"),
    "a common set beside a narrower part": (["0011p", "0001p 0011n"], "11", "!", "!"),
}


@pytest.mark.parametrize(("lists", "best_effort", "restricted", "single"), ROWS.values(), ids=ROWS)
def test_policies_take_what_all_resources_have_in_common(
    lists: list[str], best_effort: str, restricted: str, single: str
) -> None:
    """The rows of Koordinator's policy_test.go."""
    for policy, expected in (
        (BEST_EFFORT, best_effort),
        (RESTRICTED, restricted),
        (SINGLE, single),
    ):
        decision = decide(policy, named(*lists), FOUR)
        got = f"{decision.mask:b}".rjust(len(expected), "0") if decision.admitted else "!"
        assert got == expected, policy


A = ("01p40 10p70 11n", "01p500 10p0 11n500")


def test_worked_merge_a_devices_outweigh_how_full_nodes_are() -> None:
    """540 on the first node beats 70 on the second."""
    decision = decide(SINGLE, named(*A), TWO)
    assert (decision.mask, decision.admitted) == (0b01, True)
    assert merge(named(*A).values(), TWO).score == 540


def test_worked_merge_b_exclusive_placement_moves_to_the_other_node() -> None:
    """Where others span nodes a single node is no place; if they are everywhere, none is."""
    first = MergeContext(
        zones=0b11, neighbours=Neighbours(shared=0b01), exclusive=Exclusive.REQUIRED
    )
    assert decide(SINGLE, named(*A), first).mask == 0b10
    both = MergeContext(
        zones=0b11, neighbours=Neighbours(shared=0b11), exclusive=Exclusive.REQUIRED
    )
    assert not decide(SINGLE, named(*A), both).admitted
    assert reason(SINGLE, named(*A), both) == (
        "r1 prefer [01 10] among [01 10 11],r2 prefer [01 10] among [01 10 11]; exclusive placement"
        " is required, but there are pods on one NUMA node [00] and across several [11]"
    )


def test_worked_merge_c_restricted_refuses_where_devices_want_fewer_nodes() -> None:
    """BestEffort takes all nodes."""
    lists = named("11p", "01p 11n")
    assert decide(BEST_EFFORT, lists, TWO).mask == 0b11
    assert not decide(RESTRICTED, lists, TWO).admitted
    assert reason(RESTRICTED, lists, TWO) == (
        "r1 prefer [11] among [11] & r2 prefer [01] among [01 11]"
    )


def test_worked_merge_d_fewest_nodes_then_score_then_lowest_ids() -> None:
    """Restricted prefers every set that will do."""
    wide = "0111p99 1111p99"
    same = named(f"0011p10 0101p20 1010p20 {wide}", f"0011p10 0101p20 1010p20 {wide}")
    assert decide(RESTRICTED, same, FOUR).mask == 0b0101


def test_preferred_exclusivity_puts_crowded_nodes_last_but_takes_them() -> None:
    """A crowded node scores nothing."""
    around = MergeContext(
        zones=0b11, neighbours=Neighbours(shared=0b10), exclusive=Exclusive.PREFERRED
    )
    assert decide(SINGLE, named("01p40 10p70"), around).mask == 0b01
    assert decide(SINGLE, named("10p70"), around).mask == 0b10


def test_best_effort_takes_a_crowded_node_only_if_there_is_no_other() -> None:
    """Even a wider set comes first."""
    around = MergeContext(
        zones=0b111, neighbours=Neighbours(shared=0b001), exclusive=Exclusive.REQUIRED
    )
    assert decide(BEST_EFFORT, named("001p 110n"), around).mask == 0b110
    assert decide(BEST_EFFORT, named("001p"), around).mask == 0b001


@pytest.mark.parametrize(
    ("mask", "status", "allowed"),
    [
        (0b01, ["idle", "single"], True),
        (0b01, ["shared", "idle"], False),
        (0b01, ["shared", "shared"], False),
        (0b01, ["single", "idle"], True),
        (0b11, ["single", "shared"], False),
        (0b11, ["shared", "idle"], True),
        (0b11, ["shared", "shared"], True),
    ],
)
def test_required_exclusivity_keeps_pods_on_one_node_from_pods_across_several(
    mask: int, status: list[str], allowed: bool
) -> None:
    """Koordinator's rows "required policy 1-7"; anything goes with Preferred and without."""
    around = Neighbours.of({zone: NumaStatus(word) for zone, word in enumerate(status)})
    assert around.allow(mask, Exclusive.REQUIRED) is allowed
    assert around.allow(mask, Exclusive.PREFERRED)
    assert around.allow(mask, Exclusive.NO)
    assert around.spoil(mask, Exclusive.PREFERRED) is not allowed
    assert not around.spoil(mask, Exclusive.NO)


@pytest.mark.parametrize(
    ("mask", "text"),
    [(0b1, "01"), (0b10, "10"), (0b100, "0100"), (0b10001, "010001"), (0, "00"), (None, "<nil>")],
)
def test_masks_print_in_pairs_of_digits(mask: int | None, text: str) -> None:
    """As in Koordinator's messages."""
    assert mask_text(mask) == text


def test_long_lists_of_masks_are_cut() -> None:
    """Eight NUMA nodes have 255 sets; nobody reads them in an event."""
    many = [NumaHint(mask, preferred=False) for mask in range(1, 100)]
    text = summary({"cpu": many}, separator=",")
    assert text.startswith("cpu prefer [] among [01 10 11 0100")
    assert text.endswith("and 91 more]")


masks = st.integers(1, 0b111)
lists_of_hints = st.lists(
    st.dictionaries(masks, st.tuples(st.booleans(), st.integers(0, 5)), max_size=7).map(
        lambda by_mask: [NumaHint(mask, *rest) for mask, rest in sorted(by_mask.items())]
    ),
    min_size=1,
    max_size=3,
)


@given(lists=lists_of_hints, shared=masks, single=masks, exclusive=st.sampled_from(Exclusive))
def test_the_merge_equals_walking_through_all_combinations(
    lists: list[list[NumaHint]], shared: int, single: int, exclusive: Exclusive
) -> None:
    """Koordinator walks; a set wins there only if all members of a combination are that set."""
    neighbours = Neighbours(single & ~shared, shared)
    around = MergeContext(zones=0b111, neighbours=neighbours, exclusive=exclusive)
    best = max(
        (
            (
                all(hint.preferred for hint in combination) and neighbours.allow(mask, exclusive),
                neighbours.allow(mask, exclusive),
                -mask.bit_count(),
                0 if neighbours.spoil(mask, exclusive) else sum(h.score for h in combination),
                -mask,
            )
            for combination in product(*lists)
            if (mask := combination[0].mask) and all(hint.mask == mask for hint in combination)
        ),
        default=None,
    )
    merged = merge(lists, around)
    if best is None:
        assert (merged.mask, merged.preferred, merged.aligned) == (0b111, False, False)
    else:
        assert (merged.preferred, merged.clean, merged.score, merged.mask) == (
            best[0],
            best[1],
            best[3],
            -best[4],
        )
