"""Times as the API writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.times import format_micro_time, format_time, parse_time

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)


def test_times_are_written_in_utc() -> None:
    """With whole seconds, or with six digits more."""
    there = MOMENT.astimezone(timezone(timedelta(hours=2)))

    assert format_time(there) == "2026-01-02T03:04:05Z"
    assert format_micro_time(there) == "2026-01-02T03:04:05.000060Z"


@pytest.mark.parametrize(
    "text",
    ["2026-01-02T03:04:05.00006Z", "2026-01-02T05:04:05.000060999+02:00"],
)
def test_times_are_read(text: str) -> None:
    """With any offset and any number of digits."""
    assert parse_time(text) == MOMENT


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-02", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05"],
)
def test_others_are_refused(text: str) -> None:
    """A time without an offset names no moment."""
    with pytest.raises(InvalidValue, match="time"):
        parse_time(text)


def test_a_moment_without_time_zone_is_not_written() -> None:
    """It would be a guess."""
    with pytest.raises(InvalidValue, match="no time zone"):
        format_time(datetime(2026, 1, 2))


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)))
def test_micro_times_survive(moment: datetime) -> None:
    """Nothing is lost."""
    assert parse_time(format_micro_time(moment)) == moment
