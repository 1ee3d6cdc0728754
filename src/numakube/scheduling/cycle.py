"""One scheduling cycle: from a pod and the state of the cluster to a decision.

    pre-filter -> filter all nodes -> score those that are left -> confirm from the best downwards

A pod that fits nowhere gets a diagnosis and, if a post-filter can make room, a nomination. Nothing
is changed here but what plugins keep for themselves; the caller reserves, evicts and binds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.diagnosis import Diagnosis, FilterRun
from numakube.scheduling.framework.plugin_failures import checked
from numakube.scheduling.framework.status import SUCCESS, Status, failure
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.known_refusals import WITHOUT_OTHER_PODS, KnownRefusals
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.nominations import Nominations
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.runtime import Runtime, Scores
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo

_CONFIRMED_AT_MOST: Final = 64
"""Nodes confirmed in one cycle; a cycle must not hold up everybody else for seconds."""
_SECOND_THOUGHTS: Final = 8
"""Nodes to look at besides one that would do, for one that a check has nothing against."""


class Dice(Protocol):
    """Chooses among equals; `numpy.random.Generator` is one."""

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Return *size* numbers between 0 and 1."""
        ...


class FirstOfEquals:
    """Dice that choose the first of equals, so that decisions can be repeated."""

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Return zeros."""
        return np.zeros(size)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The pod fits.

    Attributes:
        evaluated: nodes that were filtered.
        feasible: nodes that passed.
        scores: of all feasible nodes; ``None`` if there was only one.
        diagnosis: why it does not fit the others.
        ties: positions among the scores of the best nodes; unset if the best was refused.
    """

    node: str
    state: CycleState
    evaluated: int
    feasible: int
    scores: Scores | None = None
    diagnosis: Diagnosis | None = None
    ties: Rows | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod fits nowhere.

    Attributes:
        nomination: where room can be made, and by evicting whom.
        unfinished: not every node was looked at; try again soon, without waiting for an event.
        remembered: nothing has changed since a pod like this was refused; it was not tried again.
    """

    diagnosis: Diagnosis
    nomination: Nomination | None = None
    unfinished: bool = False
    remembered: bool = False

    @property
    def why(self) -> str:
        """The reason, as the pod's event has it."""
        return self.diagnosis.message()


@dataclass(frozen=True, slots=True)
class Failed:
    """A plugin could not do its work; the pod is to be tried again later."""

    status: Status

    @property
    def why(self) -> str:
        """The reason, as the pod's event has it."""
        return f"{self.status.plugin}: {self.status.message}"


class Cycle:
    """Decides about one pod after the other."""

    def __init__(self, cluster: Cluster, nominations: Nominations, dice: Dice) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._dice = dice
        self._refusals = KnownRefusals(cluster, nominations)

    def decide(
        self, pod: PodInfo, runtime: Runtime, state: CycleState | None = None
    ) -> Chosen | Refused | Failed:
        """Return where *pod* goes, or why it goes nowhere.

        A *state* in which something is wanted already makes a refusal that holds for it alone.
        """
        # Room that is kept for this pod is there for no other like it.
        alike = state is None and self._nominations.node_of(pod.uid) is None
        known = self._refusals.get(pod, runtime) if alike else None
        if known is not None:
            return Refused(known, remembered=True)
        attempt = Attempt(runtime, pod, self._cluster.snapshot(), self._nominations, state=state)
        rows = attempt.feasible_rows()
        chosen = self._choose(attempt, rows) if len(rows) else None
        if chosen is not None:
            return chosen
        refused = attempt.refuse()
        lasts = refused.nomination is None and not refused.unfinished
        if alike and lasts and not attempt.state.is_one_of_a_kind:
            self._refusals.put(pod, refused.diagnosis, attempt.state)
        return refused

    def _choose(self, attempt: Attempt, rows: Rows) -> Chosen | Failed | None:
        if len(rows) == 1:
            return attempt.chosen(int(rows[0]), rows, None) if attempt.confirms(rows) else None
        scores = attempt.runtime.score(attempt.state, attempt.pod, attempt.snapshot, rows)
        if isinstance(scores, Status):
            return Failed(scores)
        ties = np.flatnonzero(scores.total == scores.total.max())
        best = int(ties[int(self._dice.random(1)[0] * len(ties))])
        if attempt.confirms(rows[best : best + 1]):
            if not attempt.hesitates:
                return attempt.chosen(int(rows[best]), rows, scores, ties)
            other = self._confirmed(attempt, rows, scores, best, most=_SECOND_THOUGHTS)
            if other is None or attempt.hesitates:
                return attempt.chosen(int(rows[best]), rows, scores, ties)
            return attempt.chosen(int(rows[other]), rows, scores)
        other = self._confirmed(attempt, rows, scores, best, most=_CONFIRMED_AT_MOST)
        attempt.unfinished = other is None and len(rows) > _CONFIRMED_AT_MOST + 1
        return None if other is None else attempt.chosen(int(rows[other]), rows, scores)

    def _confirmed(
        self, attempt: Attempt, rows: Rows, scores: Scores, best: int, *, most: int
    ) -> int | None:
        """Return the position of the best node that is confirmed, other than *best*.

        One about which a check hesitates is taken if there is no other among the next few.
        """
        order = np.lexsort((self._dice.random(len(rows)), -scores.total))
        possible: int | None = None
        for tried, position in enumerate(order[order != best][:most].tolist()):
            if possible is not None and tried >= _SECOND_THOUGHTS:
                break
            if attempt.confirms(rows[position : position + 1]):
                if not attempt.hesitates:
                    return int(position)
                possible = position if possible is None else possible
        attempt.hesitates = possible is not None
        return possible


def _names(snapshot: Snapshot) -> list[str]:
    return [node.name if node else "" for node in snapshot.by_row]


class Attempt:
    """The work on one pod in one snapshot."""

    def __init__(
        self,
        runtime: Runtime,
        pod: PodInfo,
        snapshot: Snapshot,
        nominations: Nominations,
        *,
        state: CycleState | None = None,
    ) -> None:
        self.runtime = runtime
        self.pod = pod
        self.snapshot = snapshot
        self.state = state or CycleState()
        self.unfinished = False
        self.hesitates = False
        """Whether the node that was confirmed last would do, but another may be better."""
        self._nominations = nominations
        self.diagnosis = Diagnosis(total=len(snapshot.rows))

    def feasible_rows(self) -> Rows:
        """Return the nodes that pass every filter, pods nominated there included."""
        runtime, pod, state = self.runtime, self.pod, self.state
        rows = runtime.pre_filter(state, pod, self.snapshot, self.diagnosis)
        rows = runtime.filter(state, pod, self.snapshot, rows, self.diagnosis)
        return self._beside_nominated(rows)

    def verdict_of(self, name: str) -> Status:
        """Return what all checks after the pre-filters say of one node."""
        node = self.snapshot.node(name)
        if node is None:
            return failure(f"node {name} is gone")
        status = self.runtime.filter_node(self.state, self.pod, node)
        status = self._try_beside(name) if status.ok else status
        return self.runtime.confirm(self.state, self.pod, node) if status.ok else status

    def confirms(self, rows: Rows) -> bool:
        """Tell whether the node at the one row of *rows* stands up to the final checks."""
        node = self.snapshot.at(int(rows[0]))
        status = self.runtime.confirm(self.state, self.pod, node)
        self._note(rows, status, confirmed=True)
        self.hesitates = bool(status.reasons)
        return status.ok

    def chosen(
        self, row: int, rows: Rows, scores: Scores | None, ties: Rows | None = None
    ) -> Chosen:
        """Return the decision for the node at *row*."""
        node = self.snapshot.at(row).name
        evaluated = len(self.snapshot.rows)
        return Chosen(node, self.state, evaluated, len(rows), scores, self.diagnosis, ties)

    def refuse(self) -> Refused:
        """Return why the pod fits nowhere, and where room can be made for it."""
        self.diagnosis.names = self.snapshot.derived("names", _names)
        nomination, self.diagnosis.post_filter = self.runtime.post_filter(
            self.state, self.pod, self.snapshot, self.diagnosis
        )
        if nomination is None:
            self.diagnosis.even_if_idle = self.runtime.even_if_idle(
                self.pod, self.snapshot, self.diagnosis
            )
        return Refused(self.diagnosis, nomination, unfinished=self.unfinished)

    def _beside_nominated(self, rows: Rows) -> Rows:
        if not self._nominations:
            return rows
        kept = np.ones(len(rows), dtype=np.bool_)
        for name in self._nominations.nodes():
            row = self.snapshot.row_of.get(name, -1)
            position = int(np.searchsorted(rows, row))
            if row < 0 or position == len(rows) or rows[position] != row:
                continue
            status = self._try_beside(name)
            if not status.ok:
                kept[position] = False
                self._note(rows[position : position + 1], status)
        return rows if kept.all() else rows[kept]

    def _try_beside(self, name: str) -> Status:
        there = self._nominations.before(self.pod, name)
        others = [one for one in there if not self.snapshot.has_placed(one.uid)]
        node = self.snapshot.node(name)
        if not others or node is None:
            return SUCCESS
        versions = tuple((one.uid, one.pod.metadata.resource_version) for one in others)
        state = node.generation, versions
        kind, nominations = self._kind, self._nominations
        known = nominations.verdict(kind, name, state) if kind is not None else None
        if known is not None:
            return known
        status = self._ask_beside(node, others)
        if kind is not None and status.plugin not in WITHOUT_OTHER_PODS:
            nominations.remember(kind, name, state, status)
        return status

    @cached_property
    def _kind(self) -> PodKey | None:
        """What this pod has in common with others if filters judge each node alone, or nothing."""
        beyond = self.runtime.filters_beyond_nodes(self.state)
        return scheduling_key(self.pod) if beyond <= WITHOUT_OTHER_PODS else None

    def _ask_beside(self, node: NodeInfo, others: Sequence[PodInfo]) -> Status:
        state = self.state.clone()

        def ask(copy: NodeInfo) -> Status:
            for other in others:
                self.runtime.add_pod(state, self.pod, other, copy)
            return self.runtime.filter_node(state, self.pod, copy)

        return checked(ask, node.clone())

    def _note(self, rows: Rows, status: Status, *, confirmed: bool = False) -> None:
        if not status.ok:
            verdict = Verdicts(np.zeros(1, dtype=np.int32), (status,))
            run = FilterRun(status.plugin, rows, verdict, confirmed)
            self.diagnosis.runs.append(run)
