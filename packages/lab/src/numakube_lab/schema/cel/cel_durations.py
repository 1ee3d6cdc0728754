"""Durations of CEL, which reads them as Go does (``1h30m``) and prints them in seconds."""

from __future__ import annotations

from datetime import timedelta

from numakube.errors import InvalidValue
from numakube.values import durations
from numakube_lab.schema.cel.cel_errors import EvaluationError


def parse_duration(text: str) -> timedelta:
    """Read *text*; raise `EvaluationError` if it is not a duration."""
    try:
        nanoseconds = durations.parse_duration(text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None
    return timedelta(microseconds=nanoseconds // durations.MICROSECOND)


def duration_text(duration: timedelta) -> str:
    """Return *duration* as CEL prints it: ``90s``, ``1.5s``."""
    seconds = duration.total_seconds()
    return f"{int(seconds)}s" if seconds.is_integer() else f"{seconds:.9f}".rstrip("0") + "s"
