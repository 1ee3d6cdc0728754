"""Running commands inside the test's process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from numakube.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable


LOG_LINE = re.compile(r"level='\w+' event='.*\n")
"""What a cluster logs that runs in the test's process, to the same stream."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the width that the runner of parallel tests has set for its own output."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def numakube(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Return a function that runs a command line and returns how it ended."""

    def call(*arguments: object) -> Ended:
        code = run([str(argument) for argument in arguments], program="numakube")
        out, err = capfd.readouterr()
        return Ended(code, LOG_LINE.sub("", out), err)

    return call
