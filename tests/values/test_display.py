"""Amounts for people: the same figure everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.values.display import amount_text, bytes_text, lack_text
from numakube.values.quantity import parse_quantity


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0"),
        ("512", "512"),
        ("1Mi", "1Mi"),
        ("1536Mi", "1.5Gi"),
        ("1500Mi", "1500Mi"),
        ("1400Gi", "1400Gi"),
        ("1536Gi", "1.5Ti"),
        ("11776Mi", "11.5Gi"),
        ("27580Mi", "26.9Gi"),
        ("1073741823", "1023.9Mi"),
    ],
)
def test_what_can_be_said_shortly_is_said_exactly(amount: str, text: str) -> None:
    """The rest is rounded down: what is free must not look like enough when it is not."""
    assert amount_text("memory", int(parse_quantity(amount).value())) == text


@given(st.integers(min_value=0, max_value=1 << 60))
def test_no_figure_is_larger_than_the_amount(count: int) -> None:
    """And none is further off than a tenth of its unit."""
    shown = int(parse_quantity(bytes_text(count)).value())
    assert count * 9 // 10 <= shown <= count


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("512", "512"),
        ("1500Mi", "1500Mi"),
        ("3840Mi", "3840Mi"),
        ("27580Mi", "27Gi"),
        ("11777Mi", "11.6Gi"),
        ("1073741823", "1Gi"),
    ],
)
def test_what_is_missing_is_rounded_up(amount: str, text: str) -> None:
    """A pod that gets no more than a figure rounded down still does not fit."""
    assert lack_text("memory", amount) == text


@given(st.integers(min_value=0, max_value=1 << 60))
def test_nothing_that_is_missing_looks_smaller_than_it_is(count: int) -> None:
    """And none is further off than a tenth of its unit."""
    shown = int(parse_quantity(lack_text("memory", str(count))).value())
    assert count <= shown <= count * 11 // 10 + 1


@pytest.mark.parametrize(("milli", "text"), [(2000, "2"), (500, "500m"), (1500, "1500m")])
def test_cpus_are_written_as_kubectl_does(milli: int, text: str) -> None:
    """Whole, or in thousandths."""
    assert amount_text("cpu", milli) == text
    assert amount_text("vendor.example/gpu", milli) == str(milli)
