"""From a decision, with its arrays over all nodes, to the few values of it that are kept.

Verdicts and scores of thousands of nodes would take hundreds of kilobytes an attempt. What is kept
of them is who refused how many nodes and why, with the names of a few, and the best candidates with
the scores of every plugin. Names are those of the moment: call it before anything is awaited.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.scheduling.framework.runtime import Scores
from numakube.scheduling.framework.status import Code
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    closeness,
)
from numakube.scheduling.recorder.flight_recorder import (
    Candidates,
    Nominated,
    RefusedGroup,
    TriedNote,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.status import Diagnosis, Status
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo

Refusal: TypeAlias = "tuple[Rows, Status, bool]"
"""Rows, what they were told, and whether by the final check."""

CANDIDATES: Final = 5
EXAMPLES: Final = 5
GROUPS: Final = 32


@dataclass(frozen=True, slots=True)
class Digest:
    """Refusals by reason.

    Attributes:
        others: refused nodes that are in none of ``groups``, of which there were too many.
    """

    groups: tuple[RefusedGroup, ...] = ()
    others: int = 0


def tried(
    decision: Chosen | Refused | Failed,
    *,
    at: float,
    seconds: float,
    cluster: Cluster,
    message: str = "",
) -> TriedNote:
    """Return what is kept of *decision*.

    Args:
        decision: of the cycle that has just ended.
        at: when it ended.
        seconds: how long it took.
        cluster: as it was decided about.
        message: what users see, if that is known already.
    """
    if isinstance(decision, Failed):
        status = decision.status
        return TriedNote(at=at, seconds=seconds, message=f"{status.plugin}: {status.message}")
    diagnosis = decision.diagnosis
    digest = Digest() if diagnosis is None else condensed(diagnosis, cluster.by_row)
    if isinstance(decision, Chosen):
        return TriedNote(
            at=at,
            seconds=seconds,
            evaluated=decision.evaluated,
            feasible=decision.feasible,
            node=decision.node,
            groups=digest.groups,
            others=digest.others,
            candidates=best_of(decision, cluster),
        )
    nomination = decision.nomination
    victims = () if nomination is None else tuple(pod.key for pod in nomination.victims)
    return TriedNote(
        at=at,
        seconds=seconds,
        evaluated=diagnosis.total if diagnosis is not None else 0,
        groups=digest.groups,
        others=digest.others,
        message=message,
        nominated=None if nomination is None else Nominated(nomination.node, victims),
        remembered=decision.remembered,
        unfinished=decision.unfinished,
    )


def condensed(diagnosis: Diagnosis, by_row: Sequence[NodeInfo | None]) -> Digest:
    """Return the refusals of *diagnosis* by reason.

    They are found once: many pods that are alike share a diagnosis.
    """
    if not isinstance(diagnosis.digest, Digest):
        diagnosis.digest = _digest(diagnosis, by_row)
    return diagnosis.digest


def _digest(diagnosis: Diagnosis, by_row: Sequence[NodeInfo | None]) -> Digest:
    status = diagnosis.pre_filter
    if status is not None:
        return Digest(
            (RefusedGroup(status.plugin, status.reasons, diagnosis.total, hopeless=True),)
        )
    excluded = ((rows, status, False) for rows, status in diagnosis.excluded)
    runs = ((*refusal, run.confirmed) for run, refusal in diagnosis.refused())
    return grouped((*excluded, *runs), by_row)


def grouped(refusals: Iterable[Refusal], by_row: Sequence[NodeInfo | None]) -> Digest:
    """Return *refusals* by reason, the largest groups first."""
    groups: dict[tuple[str, tuple[str, ...], bool], RefusedGroup] = {}
    others = 0
    for rows, status, confirmed in refusals:
        key = status.plugin, status.reasons, confirmed
        before = groups.get(key)
        if before is None and len(groups) >= GROUPS:
            others += len(rows)
            continue
        groups[key] = _group(rows, status, by_row, confirmed=confirmed, before=before)
    return Digest(tuple(sorted(groups.values(), key=lambda group: -group.nodes)), others)


def _group(
    rows: Rows,
    status: Status,
    by_row: Sequence[NodeInfo | None],
    *,
    confirmed: bool,
    before: RefusedGroup | None,
) -> RefusedGroup:
    refusal = _refusal(status.detail)
    nodes, names = len(rows), _names(rows[:EXAMPLES], by_row)
    if before is not None:
        nodes += before.nodes
        names = (*before.examples, *names)[:EXAMPLES]
        known = [one for one in (before.refusal, refusal) if one is not None]
        refusal = min(known, key=closeness, default=None)
    return RefusedGroup(
        plugin=status.plugin,
        reasons=status.reasons,
        nodes=nodes,
        examples=names,
        refusal=refusal,
        confirmed=confirmed,
        hopeless=status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    )


def _refusal(detail: object) -> AlignmentRefusal | None:
    """Return the refusal of the node that came closest, if a status has one."""
    closest = detail.closest if isinstance(detail, AlignmentRefusalGroup) else detail
    return closest if isinstance(closest, AlignmentRefusal) else None


def best_of(decision: Chosen, cluster: Cluster) -> Candidates | None:
    """Return the best candidates, the chosen node among them; ``None`` if it was the only one."""
    scores = _best_scores(decision, cluster)
    if scores is None:
        return None
    names, columns = _names(scores.rows, cluster.by_row), scores.by_plugin
    return Candidates(names, scores.total, tuple(columns), tuple(columns.values()))


def with_best_scores(decision: Chosen, cluster: Cluster) -> Chosen:
    """Return *decision* with the scores of the best candidates alone."""
    return replace(decision, scores=_best_scores(decision, cluster), ties=None)


def _best_scores(decision: Chosen, cluster: Cluster) -> Scores | None:
    scores = decision.scores
    if scores is None or len(scores.total) <= CANDIDATES:
        return scores
    chosen = int(scores.rows.searchsorted(cluster.row_of.get(decision.node, 0)))
    top = _top(scores.total, chosen, decision.ties)
    by_plugin = {name: column[top] for name, column in scores.by_plugin.items()}
    return Scores(scores.rows[top], scores.total[top], by_plugin)


def _top(total: IntArray, chosen: int, ties: Rows | None) -> Rows:
    """Return the positions of the best, and of the chosen one: one of many that are as good."""
    if ties is not None and len(ties) >= CANDIDATES:
        top = ties[:CANDIDATES].copy()
    else:
        # For so few, several times faster than a partition.
        rest, top = total.copy(), np.zeros(CANDIDATES, dtype=np.intp)
        for number in range(CANDIDATES):
            top[number] = best = rest.argmax()
            rest[best] = -1
    if chosen not in top.tolist():
        top[int(total[top].argmin())] = chosen
    return top


def _names(rows: Rows, by_row: Sequence[NodeInfo | None]) -> tuple[str, ...]:
    nodes = [by_row[row] for row in rows.tolist()]
    return tuple(["" if node is None else node.name for node in nodes])
