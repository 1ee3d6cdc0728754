"""What a plugin says: of one node, of many nodes at once, and in the end of the whole cluster.

Codes and their names follow kube-scheduler 1.37. An expected refusal is always a `Status`; an
exception from a plugin is a bug in it, which the runtime turns into `Code.ERROR`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numakube.scheduling.arrays import Mask, Rows


class Code(IntEnum):
    """Outcome of one plugin at one extension point."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    """Not now; evicting other pods may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not now, and no eviction helps."""
    WAIT = 4
    SKIP = 5
    PENDING = 6
    """Not before something outside the scheduler happens."""

    @property
    def label(self) -> str:
        """The name that kube-scheduler prints, such as ``UnschedulableAndUnresolvable``."""
        return _LABELS[self]

    @property
    def is_refusal(self) -> bool:
        """Tell whether the pod was refused, rather than accepted or met by a failure."""
        return self in _REFUSALS


_LABELS: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REFUSALS: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)


@dataclass(frozen=True, slots=True)
class Status:
    """The answer of one plugin.

    Attributes:
        reasons: short texts for events and logs, stable so that equal refusals aggregate.
        plugin: who said so; filled in by the runtime.
        detail: the refusal as a value, such as
            `numakube.scheduling.numa.alignment_refusal.AlignmentRefusal`.
        cause: a short text for the event that may differ from node to node; of many the most
            frequent one is told.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    detail: object = None
    cause: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the plugin has nothing against it."""
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        """Tell whether the plugin has nothing to do for this pod."""
        return self.code is Code.SKIP

    @property
    def refused(self) -> bool:
        """Tell whether the pod was refused."""
        return self.code.is_refusal

    @property
    def message(self) -> str:
        """All reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same answer, signed by *plugin*."""
        return Status(self.code, self.reasons, plugin, self.detail, self.cause)


class TooCostly(Enum):
    """The detail of a status: to find out took all the time that a pod may take.

    If no node is left, the pod is tried again late, and later each time: others have to be served.
    """

    TOO_COSTLY = "too costly"


TOO_COSTLY: Final = TooCostly.TOO_COSTLY
SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str, detail: object = None) -> Status:
    """Refuse; evicting other pods may help."""
    return Status(Code.UNSCHEDULABLE, reasons, detail=detail)


def unresolvable(*reasons: str, detail: object = None) -> Status:
    """Refuse; no eviction helps."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, detail=detail)


def failure(*reasons: str, detail: object = None) -> Status:
    """Say that the plugin could not tell."""
    return Status(Code.ERROR, reasons, detail=detail)


# ------------------------------------------------------------------------------------------------
# The outcome of a filter for many nodes at once.


@dataclass(frozen=True)
class Verdicts:
    """For each row that was asked about, in that order, which of a few statuses it got.

    Attributes:
        choice: index into ``statuses`` for each row.
        statuses: the distinct outcomes; usually success and one or two refusals. A refusal that
            differs in its numbers from node to node is given once with the numbers of the node that
            came closest; the plugin's per-node filter tells those of each.
    """

    choice: npt.NDArray[np.int32]
    statuses: tuple[Status, ...]

    @classmethod
    def where(cls, ok: Mask, refusal: Status) -> Verdicts:
        """Return success where *ok*, and *refusal* elsewhere."""
        return cls(np.where(ok, 0, 1).astype(np.int32), (SUCCESS, refusal))

    @classmethod
    def first_of(cls, size: int, refusals: Iterable[tuple[Mask, Status]]) -> Verdicts:
        """Return for each of *size* rows the first refusal whose mask holds, else success."""
        choice = np.zeros(size, dtype=np.int32)
        statuses = [SUCCESS]
        for refused, status in refusals:
            choice[refused & (choice == 0)] = len(statuses)
            statuses.append(status)
        return cls(choice, tuple(statuses))

    @classmethod
    def each(cls, rows: Sequence[int] | Rows, judge: Callable[[int], Status]) -> Verdicts:
        """Return what *judge* says of each row, with equal statuses stored once."""
        known: dict[tuple[Code, tuple[str, ...]], int] = {(Code.SUCCESS, ()): 0}
        statuses = [SUCCESS]
        choice = np.zeros(len(rows), dtype=np.int32)
        for position, row in enumerate(rows):
            status = judge(int(row))
            if status is SUCCESS:
                continue
            key = (status.code, status.reasons)
            if key not in known:
                known[key] = len(statuses)
                statuses.append(status)
            choice[position] = known[key]
        return cls(choice, tuple(statuses))

    def statuses_met(self) -> list[Status]:
        """Return the outcomes that a row got."""
        return [self.statuses[index] for index in np.unique(self.choice).tolist()]

    def then(self, other: Verdicts | None) -> Verdicts:
        """Return these, and what *other* says of the rows that passed."""
        if other is None:
            return self
        choice = np.where(self.ok, other.choice + len(self.statuses), self.choice)
        return Verdicts(choice.astype(np.int32), self.statuses + other.statuses)

    def replaced(self, where: Mask, other: Verdicts) -> Verdicts:
        """Return these, with what *other* says of the rows *where* it was asked instead."""
        choice = self.choice.copy()
        choice[where] = other.choice + len(self.statuses)
        return Verdicts(choice, self.statuses + other.statuses)

    @cached_property
    def ok(self) -> Mask:
        """Which rows passed; not to be changed."""
        good = [status.ok for status in self.statuses]
        if good[0] and True not in good[1:]:
            return np.equal(self.choice, 0)
        return np.array(good, dtype=np.bool_).take(self.choice)

    def status(self, position: int) -> Status:
        """Return the outcome of the row at *position* of those asked about."""
        return self.statuses[int(self.choice[position])]


# ------------------------------------------------------------------------------------------------
# Why a pod fits nowhere: which filter refused which nodes, in a form that is cheap to make.
#
# A cycle over thousands of nodes keeps the verdicts as the filters gave them. Texts are made from
# them only when they are read: the event of a refused pod, preemption, an explanation.

NO_NODES: Final = "no nodes available to schedule pods"
"""What kube-scheduler says in a cluster without nodes, whatever the pod is like."""


@dataclass(frozen=True, slots=True)
class FilterRun:
    """What one filter said of the nodes that the filters before it had left.

    Attributes:
        confirmed: whether it was the final check of a node that had passed every filter.
    """

    plugin: str
    rows: Rows
    verdicts: Verdicts
    confirmed: bool = False

    def refused(self) -> Iterator[tuple[Rows, Status]]:
        """Yield the rows of each refusal."""
        for index, status in enumerate(self.verdicts.statuses):
            if status.ok:
                continue
            rows = self.rows[self.verdicts.choice == index]
            if len(rows):
                yield rows, status.by(self.plugin)


@dataclass(slots=True)
class Diagnosis:
    """The refusals of one cycle.

    Attributes:
        names: name of the node at each row, as it was in the cycle.
        pre_filter: set if the pod was refused before any node was looked at.
        excluded: nodes that a pre-filter had ruled out together, and the status that says so.
        post_filter: why no eviction helps.
        even_if_idle: what keeps the pod off nodes that are full, whoever leaves them; in words.
        digest: what a reader has made of it, for those who read the same later.
    """

    names: Sequence[str] = ()
    total: int = 0
    pre_filter: Status | None = None
    excluded: list[tuple[Rows, Status]] = field(default_factory=list)
    runs: list[FilterRun] = field(default_factory=list)
    post_filter: Status = SUCCESS
    even_if_idle: str = ""
    digest: object = None
    _known: tuple[int, Sequence[tuple[FilterRun, tuple[Rows, Status]]]] = (0, ())

    def groups(self) -> Iterator[tuple[Rows, Status]]:
        """Yield each refusal with the rows that got it."""
        yield from self.excluded
        for _, refusal in self.refused():
            yield refusal

    def refused(self) -> Sequence[tuple[FilterRun, tuple[Rows, Status]]]:
        """Return each refusal of a filter; found once, since several ask."""
        if len(self.runs) != self._known[0]:
            found = [(run, refusal) for run in self.runs for refusal in run.refused()]
            self._known = len(self.runs), found
        return self._known[1]

    def plugins(self) -> frozenset[str]:
        """Return who refused the pod on any node: their events may let it fit.

        Who refuses it on nodes that others would have to leave is among them: if that changes, room
        can be made.
        """
        if self.pre_filter is not None:
            return frozenset({self.pre_filter.plugin})
        told = self.post_filter.detail
        beside = told if isinstance(told, frozenset) else frozenset()
        return beside | {status.plugin for _, status in self.groups() if status.plugin}

    @property
    def is_costly(self) -> bool:
        """Whether a plugin gave up on nodes because it had taken all the time that it may."""
        return any(status.detail is TOO_COSTLY for _, status in self.groups())

    def statuses(self) -> dict[str, Status]:
        """Return the refusal of every refused node by its name."""
        names = self.names
        return {names[row]: status for rows, status in self.groups() for row in rows.tolist()}

    def message(self) -> str:
        """Return the text of the event: ``0/5 nodes are available: 3 Insufficient cpu, ...``."""
        if not self.total:
            return NO_NODES
        if self.pre_filter is not None:
            reasons = self.pre_filter.message
        else:
            reasons = ", ".join(sorted(self._counted()))
        text = f"0/{self.total} nodes are available:" + (f" {reasons}." if reasons else "")
        besides = f"Besides, {self.even_if_idle}." if self.even_if_idle else ""
        return " ".join(filter(None, (text, self.post_filter.message, besides)))

    def _counted(self) -> Iterator[str]:
        """Yield each reason with the number of nodes, and with the most frequent of its causes."""
        counts: Counter[str] = Counter()
        causes: dict[str, Counter[str]] = {}
        for rows, status in self.groups():
            counts.update(dict.fromkeys(status.reasons, len(rows)))
            if status.cause:
                causes.setdefault(status.message, Counter())[status.cause] += len(rows)
        for reason, count in counts.items():
            yield f"{count} {reason}{_because(causes.get(reason))}"


def _because(causes: Counter[str] | None) -> str:
    """Return *causes* in Koordinator's form: the first by frequency and name, and how many more."""
    if not causes:
        return ""
    first = min(causes, key=lambda cause: (-causes[cause], cause))
    more = f" and {len(causes) - 1} more" if len(causes) > 1 else ""
    return f" cause [{first}]{more}"
