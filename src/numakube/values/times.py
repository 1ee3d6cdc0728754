"""Times as the Kubernetes API writes them: RFC 3339 in UTC.

``metav1.Time`` has whole seconds, ``metav1.MicroTime`` (leases, events) always six digits more; the
API server refuses a lease without them. Reading a clock is the business of the caller.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from numakube.errors import InvalidValue

_RFC_3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_time(text: str) -> datetime:
    """Return the time that *text* names, in UTC; digits beyond microseconds are dropped."""
    if not _RFC_3339.fullmatch(text):
        raise InvalidValue(f"time {text!r}: not of the form 2006-01-02T15:04:05Z")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"time {text!r}: {error}") from None


def format_time(moment: datetime) -> str:
    """Return *moment* with whole seconds, as in ``creationTimestamp``."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Return *moment* with six digits after the second, as in a lease's ``renewTime``."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise InvalidValue(f"time {moment.isoformat()}: has no time zone")
    return moment.astimezone(UTC)
