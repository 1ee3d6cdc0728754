"""What a plugin cannot evaluate costs as little as possible: one node, or the pod whose turn it is.

An exception while nodes are judged is mostly about one of them, which says something that no one
thought of. So the nodes are asked about one by one; those that raise are set aside with a reason,
and the cycle goes on with the others. If all of them raise it is about the pod, and its cycle
alone fails. What is read from a node whatever the pod (`Cluster.aside`) is set aside for everybody
until the node changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.status import unresolvable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo


def why_aside(reason: str) -> Status:
    """Return the refusal of a node that is set aside for *reason*."""
    return unresolvable(f"node(s) set aside because evaluating them failed: {reason}")


def checked(ask: Callable[[NodeInfo], Status], node: NodeInfo) -> Status:
    """Return what *ask* says of *node*; if it raises, why the node is set aside."""
    try:
        return ask(node)
    except Exception as error:
        return why_aside(reason_of(error))


def judged(
    ask_all: Callable[[], Verdicts | None],
    ask: Callable[[NodeInfo], Status],
    snapshot: Snapshot,
    rows: Rows,
) -> Verdicts | None:
    """Return what a filter says of *rows*; nodes on which it raises are set aside."""
    try:
        return ask_all()
    except Exception as error:
        raised = error
    failed = 0

    def one(row: int) -> Status:
        nonlocal failed
        try:
            return ask(snapshot.at(row))
        except Exception as error:
            failed += 1
            return why_aside(reason_of(error))

    verdicts = Verdicts.each(rows, one)
    if failed == len(rows):
        raise raised
    return verdicts


def rated(
    ask_all: Callable[[], Ratings], ask: Callable[[NodeInfo], int], snapshot: Snapshot, rows: Rows
) -> Ratings:
    """Return how a plugin rates *rows*; a node on which it raises gets nothing."""
    try:
        return ask_all()
    except Exception as error:
        raised = error
    scores = np.zeros(len(rows), dtype=np.int64)
    failed = 0
    for position, row in enumerate(rows.tolist()):
        try:
            scores[position] = ask(snapshot.at(row))
        except Exception:
            failed += 1
    if failed == len(rows):
        raise raised
    return scores


def without_aside(snapshot: Snapshot, rows: Rows) -> tuple[Rows, list[tuple[Rows, Status]]]:
    """Return those of *rows* that are not set aside for everybody, and the others by reason."""
    by_reason: dict[str, list[int]] = {}
    for (name, part), reason in snapshot.aside.items():
        if name in snapshot.row_of:
            by_reason.setdefault(f"{part}: {reason}", []).append(snapshot.row_of[name])
    refused = []
    for reason, places in by_reason.items():
        found = np.intersect1d(rows, np.array(places, dtype=np.intp))
        if len(found):
            refused.append((found, why_aside(reason)))
            rows = np.setdiff1d(rows, found)
    return rows, refused
