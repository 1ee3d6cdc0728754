"""Why a pod fits nowhere: which filter refused which nodes, in a form that is cheap to make.

A cycle over thousands of nodes keeps the verdicts as the filters gave them. Texts are made from
them only when they are read: the event of a refused pod, preemption, an explanation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.status import SUCCESS, TOO_COSTLY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.framework.verdicts import Verdicts


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
