"""Leave of a sequence only what a disagreement needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.lab.differential.comparing import Disagreement
from tests.lab.differential.sequences import Sequence

Trial = Callable[[Sequence], Awaitable[Disagreement | None]]


async def shrink(
    sequence: Sequence, found: Disagreement, attempt: Trial
) -> tuple[Sequence, Disagreement]:
    """Return the shortest sequence, found by leaving out requests, that shows *found* still."""
    if found.step is not None:
        sequence = replace(sequence, steps=sequence.steps[: found.step + 1])
    index = len(sequence.steps) - 1
    while index >= 0:
        steps = sequence.steps[:index] + sequence.steps[index + 1 :]
        shorter = replace(sequence, steps=steps)
        try:
            again = await attempt(shorter)
        except KeyError:  # it needs what a left-out request would have found out
            again = None
        if again is not None and again.signature == found.signature:
            sequence, found = shorter, again
        index = min(index, len(sequence.steps)) - 1
    return sequence, found
