"""How ages are shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.kinds.table_columns import human_age
from numakube.values.display import age_text

_NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (8 * 3600 - 1, "7h59m"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (8 * 86400 - 1, "7d23h"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_a_duration_shows_the_units_that_matter(seconds: int, shown: str) -> None:
    """A duration shows the units that matter."""
    assert age_text(seconds) == shown


@given(st.integers(min_value=0, max_value=10**10))
def test_a_duration_is_never_longer_than_a_cell(seconds: int) -> None:
    """A duration is never longer than a cell."""
    assert len(age_text(seconds)) <= 7


def test_a_timestamp_shows_its_age() -> None:
    """A timestamp shows its age."""
    assert human_age("2024-05-01T11:56:40Z", _NOW) == "3m20s"
    assert human_age("2024-05-01T13:56:40.5+02:00", _NOW) == "3m19s"


def test_a_timestamp_that_is_missing_or_broken_is_named_so() -> None:
    """A timestamp that is missing or broken is named so."""
    assert human_age(None, _NOW) == "<unknown>"
    assert human_age("yesterday", _NOW) == "<invalid>"
