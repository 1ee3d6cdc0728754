"""How long the command line takes to answer anything at all."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).with_name("numakube")
RUNS = 15


def run() -> Iterator[dict[str, object]]:
    """Yield the wall time of the commands that must answer at once."""
    for option in ("--help", "--version"):
        times = [_wall_ms(option) for _ in range(RUNS)]
        yield {
            "metric": f"numakube {option}, median",
            "value": round(statistics.median(times), 1),
            "unit": "ms",
            "budget": 150,
        }


def _wall_ms(option: str) -> float:
    start = time.perf_counter()
    subprocess.run([PROGRAM, option], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return (time.perf_counter() - start) * 1000
