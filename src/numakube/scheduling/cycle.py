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
from numakube.scheduling.framework.runtime import checked
from numakube.scheduling.framework.status import (
    SUCCESS,
    Diagnosis,
    FilterRun,
    Status,
    Verdicts,
    failure,
)
from numakube.scheduling.snapshot.pod_equivalence import (
    depends_on_pods,
    replica_key,
    scheduling_key,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.plugins import Nomination, Nominations
    from numakube.scheduling.framework.runtime import Runtime, Scores
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# Refusals that still hold: a pod like one that fitted nowhere need not be tried again.
#
# A refusal holds until room is made somewhere. Even then it holds if each node that has changed
# since is refused for the reasons that it was refused for before: a pod that came and went leaves
# a node as it was. That is only asked where every filter that had a say judges nodes one by one,
# and where no pod could be evicted.

_GUARD: Final = "RejectionGuard"
"""Whose refusals end with time."""
WITHOUT_OTHER_PODS: Final = frozenset({"GangScheduling", _GUARD})
"""Filters that look beyond a node, but not at the pods on it; no other pod changes them."""
_VERDICTS_KEPT: Final = 1_000_000
"""Nodes of all refusals together: some thirty megabytes."""
_ASKED_AT_MOST: Final = 8
"""Nodes that are asked again one by one; more are better tried together."""


@dataclass(eq=False)
class _KnownRefusal:
    """A refusal, and when it was found to hold: generations of room, nominations and all else."""

    diagnosis: Diagnosis
    state: CycleState
    evicting_may_help: bool
    stamp: tuple[int, int]
    generation: int
    nodes_generation: int

    @cached_property
    def statuses(self) -> Mapping[str, Status]:
        """The refusal of every node."""
        return self.diagnosis.statuses()


class KnownRefusals:
    """The refusals of one scheduler."""

    def __init__(self, cluster: Cluster, nominations: Nominations) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._known: dict[PodKey, _KnownRefusal] = {}

    def get(self, pod: PodInfo, runtime: Runtime) -> Diagnosis | None:
        """Return why *pod* fits nowhere, if that is known of one like it and holds."""
        known = self._known.get(self._key(pod))
        if known is None:
            return None
        stamp = self._stamp(pod)
        if known.stamp != stamp:
            if not self._holds(known, pod, runtime):
                return None
            known.stamp, known.generation = stamp, self._cluster.generation
        return known.diagnosis

    def put(self, pod: PodInfo, diagnosis: Diagnosis, state: CycleState) -> None:
        """Remember why *pod* fits nowhere, unless it may fit in time."""
        if _GUARD in diagnosis.plugins():
            return
        if len(self._known) > _VERDICTS_KEPT // max(1, diagnosis.total):
            self._known.clear()
        cluster = self._cluster
        self._known[self._key(pod)] = _KnownRefusal(
            diagnosis,
            state,
            self._evicting_may_help(pod),
            self._stamp(pod),
            cluster.generation,
            cluster.nodes_generation,
        )

    def _holds(self, known: _KnownRefusal, pod: PodInfo, runtime: Runtime) -> bool:
        """Tell whether all nodes that have changed are refused as they were."""
        cluster = self._cluster
        if (
            known.nodes_generation != cluster.nodes_generation
            or known.evicting_may_help
            or known.stamp[1] != self._nominations.generation
            or self._nominations
            or cluster.aside
            or not cluster.indexes.terms.is_empty
            or self._evicting_may_help(pod)
        ):
            return False
        changed = cluster.changed_since(known.generation, most=_ASKED_AT_MOST)
        if changed is None or not _is_node_by_node(known, runtime):
            return False
        statuses = known.statuses
        return all(
            runtime.filter_node(known.state, pod, node) == statuses.get(node.name)
            for node in changed
        )

    def _evicting_may_help(self, pod: PodInfo) -> bool:
        lowest = self._cluster.indexes.lowest_priority
        return lowest is not None and lowest < pod.priority

    def _key(self, pod: PodInfo) -> PodKey:
        """Return what *pod* has in common with those that are refused wherever it is."""
        selected = self._nominations or not self._cluster.indexes.terms.is_empty
        return scheduling_key(pod) if selected or depends_on_pods(pod) else replica_key(pod)

    def _stamp(self, pod: PodInfo) -> tuple[int, int]:
        cluster = self._cluster
        own = cluster.generation if depends_on_pods(pod) else cluster.room_generation
        return own, self._nominations.generation


def _is_node_by_node(known: _KnownRefusal, runtime: Runtime) -> bool:
    """Tell whether the nodes were refused by filters that look at nothing but the node."""
    diagnosis = known.diagnosis
    if diagnosis.pre_filter is not None or diagnosis.excluded:
        return False
    beyond = runtime.filters_beyond_nodes(known.state)
    return beyond <= WITHOUT_OTHER_PODS and not beyond & diagnosis.plugins()


# ------------------------------------------------------------------------------------------------
# One scheduling cycle: from a pod and the state of the cluster to a decision.

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
        doubts: what a check has against the node, which would do all the same.
    """

    node: str
    state: CycleState
    evaluated: int
    feasible: int
    scores: Scores | None = None
    diagnosis: Diagnosis | None = None
    ties: Rows | None = None
    doubts: tuple[str, ...] = ()


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
        self._doubts: dict[int, tuple[str, ...]] = {}

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
        if status.ok and status.reasons:
            self._doubts[int(rows[0])] = status.reasons
        return status.ok

    def chosen(
        self, row: int, rows: Rows, scores: Scores | None, ties: Rows | None = None
    ) -> Chosen:
        """Return the decision for the node at *row*."""
        node = self.snapshot.at(row).name
        evaluated = len(self.snapshot.rows)
        doubts = self._doubts.get(row, ())
        return Chosen(node, self.state, evaluated, len(rows), scores, self.diagnosis, ties, doubts)

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
        others = [pod for pod in there if not self.snapshot.has_placed(pod.uid)]
        node = self.snapshot.node(name)
        if not others or node is None:
            return SUCCESS
        versions = tuple((other.uid, other.pod.metadata.resource_version) for other in others)
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
