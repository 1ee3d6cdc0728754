"""Durations as Go writes them: ``1h30m``, ``250ms``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from numakube_lab.schema.cel.cel_errors import EvaluationError

_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")


def parse_duration(text: str) -> timedelta:
    """Read *text*; raise `EvaluationError` if it is no duration."""
    if not _WHOLE.fullmatch(text):
        raise EvaluationError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def duration_text(duration: timedelta) -> str:
    """Return *duration* as CEL prints it: ``90s``, ``1.5s``."""
    seconds = duration.total_seconds()
    return f"{int(seconds)}s" if seconds.is_integer() else f"{seconds:.9f}".rstrip("0") + "s"
