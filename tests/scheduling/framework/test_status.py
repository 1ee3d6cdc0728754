"""The text of the event: each reason once, with the nodes that gave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from numakube.scheduling.framework.status import Diagnosis, unschedulable


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ([], "1 Unaligned"),
        (["a"], "1 Unaligned cause [a], 1 short"),
        (["a", "a"], "1 short, 2 Unaligned cause [a]"),
        (["a", "b", "b", "c"], "1 short, 4 Unaligned cause [b] and 2 more"),
        (["b", "a"], "1 short, 2 Unaligned cause [a] and 1 more"),
    ],
)
def test_of_many_causes_of_a_reason_the_most_frequent_is_told(causes: list[str], text: str) -> None:
    """However many nodes there are, the text stays short."""
    statuses = [replace(unschedulable("Unaligned"), cause=cause) for cause in causes]
    statuses.append(unschedulable("short" if causes else "Unaligned"))
    excluded = [(np.array([row]), status) for row, status in enumerate(statuses)]
    total = len(excluded)
    diagnosis = Diagnosis(total=total, excluded=excluded)
    assert diagnosis.message() == f"0/{total} nodes are available: {text}."
