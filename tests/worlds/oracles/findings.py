"""What an oracle finds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.worlds.virtual_lab import Lab

Oracle: TypeAlias = Callable[[Lab], AsyncIterator[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold.

    Attributes:
        oracle: which one found it.
    """

    oracle: str
    text: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.oracle.replace('_', ' ')}: {self.text}"
