"""CPU sets: the kernel's list format and set arithmetic."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet, format_cpu_list, iter_bits, parse_cpu_list

VECTORS = Path(__file__).parents[1] / "vectors" / "values.jsonl.gz"

cpus = st.sets(st.integers(0, 300))


def test_every_recorded_cpuset_is_answered_as_kubernetes_does() -> None:
    """Canonical list, size and refusals of all recorded rows are reproduced."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["kind"] == "cpuset"]
    answers = []
    for row in rows:
        answer: dict[str, Any] = {"kind": "cpuset", "s": row["s"]}
        try:
            ranges = parse_cpu_list(row["s"])
        except InvalidValue:
            answer["error"] = True
        else:
            answer["canonical"] = format_cpu_list(ranges)
            answer["size"] = sum(last - first + 1 for first, last in ranges)
        answers.append(answer)

    assert len(rows) == 169
    assert answers == rows


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("", ""), ("3,1,2", "1-3"), ("+1,0", "0-1"), ("0-3,2-5", "0-5"), ("4-6,0-2", "0-2,4-6")],
)
def test_lists_are_sorted_and_merged(text: str, canonical: str) -> None:
    """Two adjacent CPUs already make a range."""
    assert str(CpuSet.parse(text)) == canonical


@pytest.mark.parametrize(
    "text", ["3-1", "a", "0-", "-1", "1,,2", " 1", "0-1-2", "0\n", "٣", "9" * 20]
)
def test_malformed_lists_are_refused_with_the_list_in_the_message(text: str) -> None:
    """White space, reversed ranges and numbers beyond int64 are errors."""
    with pytest.raises(InvalidValue) as refused:
        CpuSet.parse(text)

    assert repr(text) in str(refused.value)


def test_a_set_refuses_cpus_that_no_kernel_has() -> None:
    """A hostile list cannot fill the memory."""
    assert parse_cpu_list("0-4000000000") == ((0, 4000000000),)
    with pytest.raises(InvalidValue, match="above the limit"):
        CpuSet.parse("0-4000000000")


@given(cpus)
def test_printing_and_parsing_are_inverse(ids: set[int]) -> None:
    """A set survives the way through text."""
    cpuset = CpuSet.of(ids)

    assert CpuSet.parse(str(cpuset)) == cpuset
    assert list(cpuset) == sorted(ids)


@given(cpus, cpus)
def test_arithmetic_is_that_of_sets(one: set[int], other: set[int]) -> None:
    """Union, intersection, difference, inclusion, size and membership."""
    left, right = CpuSet.of(one), CpuSet.of(other)

    assert set(left | right) == one | other
    assert set(left & right) == one & other
    assert set(left - right) == one - other
    assert (left <= right) == (one <= other)
    assert (len(left), bool(left)) == (len(one), bool(one))
    assert all((cpu in left) == (cpu in one) for cpu in range(301))


def test_membership_of_anything_else_is_false() -> None:
    """A negative number or a text is in no set."""
    assert -1 not in CpuSet.of([0])
    assert "0" not in CpuSet.of([0])


def test_bits_are_visited_ascending() -> None:
    """The order that every algorithm of the kubelet relies on."""
    assert list(iter_bits(0b1011)) == [0, 1, 3]
