"""How much memory notes take, by which the recorder keeps to its limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from numakube.scheduling.numa.alignment_rejection import Kind, Rejection
from numakube.scheduling.recorder import flight_notes as notes

LONGER = 100
"""Characters or elements that are added."""


def group(reason: str = "", detail: str = "", examples: int = 0) -> notes.Group:
    """Return a group of nodes."""
    rejection = Rejection(kind=Kind.KUBELET, detail=detail)
    return notes.Group("P", (reason,), 1, ("n",) * examples, rejection)


def candidates(nodes: int) -> notes.Candidates:
    """Return candidates that one plugin has rated."""
    scores = np.zeros(nodes, dtype=np.int64)
    return notes.Candidates(("n",) * nodes, scores, ("P",), (scores,))


@pytest.mark.parametrize(
    ("made", "bytes_each"),
    [
        (lambda n: group(reason="x" * n), 1),
        (lambda n: group(detail="x" * n), 1),
        (lambda n: group(examples=n), 8),
        (lambda n: notes.NotBound(1.0, "x" * n), 1),
        (lambda n: notes.Tried(at=1.0, seconds=0.1, message="x" * n), 1),
        (lambda n: notes.Tried(at=1.0, seconds=0.1, groups=(group(),) * n), group().size),
        (lambda n: notes.Ended(1.0, "x" * n), 1),
        (lambda n: notes.Told(1.0, "x" * n, {}), 1),
        (lambda n: notes.Told(1.0, "", {"k": "x" * n}), 1),
        (lambda n: notes.Rejected(1.0, "n1", "x" * n, ""), 1),
        (lambda n: notes.Queued(1.0, "x" * n), 1),
        (candidates, 24),
    ],
)
def test_a_note_takes_as_much_more_as_there_is_more_in_it(
    made: Callable[[int], notes.Group], bytes_each: int
) -> None:
    """Beyond what every note takes."""
    least = made(0).size
    assert least >= 100
    assert made(LONGER).size - least == bytes_each * LONGER
