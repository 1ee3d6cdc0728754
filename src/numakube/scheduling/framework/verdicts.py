"""The outcome of a filter for many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.status import SUCCESS, Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.scheduling.arrays import Mask, Rows


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
