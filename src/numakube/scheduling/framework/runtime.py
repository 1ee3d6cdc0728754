"""Runs the plugins of a profile at their extension points, and survives those that fail.

A filter is asked in its vectorised form if it has one. The order of the plugins decides who is
named as the one that refused a node, so it is kept.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from numakube.scheduling.arrays import is_uniform, uniform
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Bind,
    Booking,
    Confirm,
    Filter,
    NormalizesScores,
    Permit,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SUCCESS,
    Code,
    Diagnosis,
    FilterRun,
    Status,
    Verdicts,
    failure,
    unresolvable,
)
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.zone_belief import NOTHING
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numakube.scheduling.arrays import IntArray, Ratings, Rows
    from numakube.scheduling.framework.plugins import Nomination, Plugin
    from numakube.scheduling.framework.registry import Profile
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


# ------------------------------------------------------------------------------------------------
# What a plugin cannot evaluate costs as little as possible: one node, or the pod whose turn it is.
#
# An exception while nodes are judged is mostly about one of them, which says something that no one
# thought of. So the nodes are asked about one by one; those that raise are set aside with a
# reason, and the cycle goes on with the others. If all of them raise it is about the pod, and its
# cycle alone fails. What is read from a node whatever the pod (`Cluster.aside`) is set aside for
# everybody until the node changes.


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


# ------------------------------------------------------------------------------------------------
# Runs the plugins of a profile, each at its extension points, as kube-scheduler 1.37 does.

Stopwatch: TypeAlias = "Callable[[str, str], AbstractContextManager[object]]"
"""Given an extension point and a plugin, returns a context that measures how long it lasts."""

_Judge: TypeAlias = "Callable[[CycleState, PodInfo, Snapshot, Rows], Verdicts | None]"
_Rater: TypeAlias = "Callable[[CycleState, PodInfo, Snapshot, Rows], Ratings]"
_nothing: Final = nullcontext()
_LEAST, _MOST = np.int8(0), np.int8(MAX_NODE_SCORE)
"""As NumPy has them: of other numbers it looks up each time whether the array can hold them."""


def _untimed(_point: str, _plugin: str) -> AbstractContextManager[object]:
    return _nothing


@dataclass(frozen=True, slots=True)
class Scores:
    """How good the feasible nodes are.

    Attributes:
        total: weighted sum for each of ``rows``.
        by_plugin: normalised and weighted scores of each plugin that took part.
    """

    rows: Rows
    total: IntArray
    by_plugin: dict[str, Ratings]


class Runtime:
    """The plugins of one profile at work.

    Attributes:
        pre_binds: the plugins that prepare a binding, for the binding cycle; the others likewise.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.stopwatch: Stopwatch = _untimed
        """Set by a program that measures how long plugins take."""
        self._pre_enqueue = profile.at(PreEnqueue)
        self._pre_filters = profile.at(PreFilter)
        self._filters = tuple(
            (plugin, _judge_of(plugin)) for plugin in profile.points.get("filter", ())
        )
        self._post_filters = profile.at(PostFilter)
        self._pre_scores = profile.at(PreScore)
        self._scores = tuple(
            (plugin, _rater_of(plugin), plugin if isinstance(plugin, NormalizesScores) else None)
            for plugin in profile.points.get("score", ())
        )
        self._confirms = profile.at(Confirm)
        self._reserves = profile.at(Reserve)
        self._permits = profile.at(Permit)
        self.pre_binds = profile.at(PreBind)
        self.binds = profile.at(Bind)
        self._post_binds = profile.at(PostBind)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return the first refusal to let *pod* into the active queue."""
        for plugin in self._pre_enqueue:
            try:
                status = plugin.pre_enqueue(pod)
            except Exception as error:
                status = unresolvable(f"{plugin.name} failed: {reason_of(error)}")
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    def opened_by(self, pod: PodInfo, gate: Status) -> Iterable[Hashable]:
        """Return what may open a *gate* that keeps *pod* back."""
        for plugin in self._pre_enqueue:
            if plugin.name == gate.plugin:
                with suppress(Exception):  # then it is asked with all
                    return frozenset(plugin.opened_by(pod))
        return ()

    def pre_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> Rows:
        """Run all pre-filters and return the rows that are left; refusals go to *diagnosis*."""
        allowed: frozenset[str] | None = None
        narrowed_by: list[str] = []
        for plugin in self._pre_filters:
            with self.stopwatch("PreFilter", plugin.name):
                result = plugin.pre_filter(state, pod, snapshot)
            if result.status.skipped:
                state.skipped_filters.add(plugin.name)
                continue
            if not result.status.ok:
                diagnosis.pre_filter = result.status.by(plugin.name)
                return np.zeros(0, dtype=np.intp)
            if result.nodes is not None:
                narrowed_by.append(plugin.name)
                allowed = result.nodes if allowed is None else allowed & result.nodes
                if not allowed:
                    diagnosis.pre_filter = _nothing_left(narrowed_by)
                    return np.zeros(0, dtype=np.intp)
        if allowed is None:
            return snapshot.rows
        return _narrow(snapshot, allowed, narrowed_by, diagnosis)

    def filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows, diagnosis: Diagnosis
    ) -> Rows:
        """Return those of *rows* that pass every filter; refusals go to *diagnosis*."""
        for plugin, judge in self._filters:
            if not len(rows):
                break
            if plugin.name in state.skipped_filters:
                continue
            with self.stopwatch("Filter", plugin.name):
                verdicts = judged(
                    partial(judge, state, pod, snapshot, rows),
                    partial(_judged_alone, plugin, state, pod),
                    snapshot,
                    rows,
                )
            if verdicts is not None and not (ok := verdicts.ok).all():
                diagnosis.runs.append(FilterRun(plugin.name, rows, verdicts))
                rows = rows[ok]
            if snapshot.aside:
                rows, refused = without_aside(snapshot, rows)
                diagnosis.excluded += ((gone, why.by(plugin.name)) for gone, why in refused)
        return rows

    def even_if_idle(self, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis) -> str:
        """Say what keeps *pod* off every node that is full now, whoever leaves it; or nothing.

        The first filter that refuses a node is the one that is named. Once a node is full, nobody
        would read that the pod is too large for it in another way.
        """
        full = [rows for rows, one in diagnosis.groups() if one.code is Code.UNSCHEDULABLE]
        if not full:
            return ""
        rows = np.unique(np.concatenate(full))
        for plugin, judge in self._filters:
            if not plugin.judges_nodes_alone or not isinstance(plugin, VectorFilter):
                continue
            with suppress(Exception):  # a plugin that fails has been told of, or will be
                verdicts = judge(CycleState(), pod, snapshot, rows)
                if verdicts is not None and all(map(_is_hopeless, verdicts.statuses_met())):
                    run = FilterRun(plugin.name, rows, verdicts)
                    return ", ".join(f"{len(some)} {one.message}" for some, one in run.refused())
        return ""

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what the filters say of one node, which may be a clone with other pods."""
        for plugin, _ in self._filters:
            if plugin.name in state.skipped_filters:
                continue
            status = checked(partial(_judged_alone, plugin, state, pod), node)
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    def filters_beyond_nodes(self, state: CycleState) -> frozenset[str]:
        """Return the filters of this cycle that look at more than the node they are asked about."""
        return frozenset(
            plugin.name
            for plugin, _ in self._filters
            if not plugin.judges_nodes_alone and plugin.name not in state.skipped_filters
        )

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what the final checks say of one node that passed the filters.

        A success with reasons would rather have another node.
        """
        answer = SUCCESS
        for plugin in self._confirms:
            with self.stopwatch("Confirm", plugin.name):
                status = checked(partial(plugin.confirm, state, pod), node)
            if not status.ok:
                return status.by(plugin.name)
            answer = status.by(plugin.name) if status.reasons else answer
        return answer

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what filters and final checks together say of one node; for what-ifs."""
        status = self.filter_node(state, pod, node)
        return self.confirm(state, pod, node) if status.ok else status

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put *added* on *node*, a clone, and tell the pre-filters of it."""
        node.add_pod(added)
        for plugin in self._active_pre_filters(state):
            plugin.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take *removed* off *node*, a clone, and tell the pre-filters of it."""
        node.remove_pod(removed.uid)
        for plugin in self._active_pre_filters(state):
            plugin.remove_pod(state, pod, removed, node)

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> tuple[Nomination | None, Status]:
        """Let the post-filters try to make room; the first that can, does."""
        refusals = diagnosis.statuses()
        last = SUCCESS
        for plugin in self._post_filters:
            with self.stopwatch("PostFilter", plugin.name):
                try:
                    nomination, status = plugin.post_filter(state, pod, snapshot, refusals)
                except Exception as error:
                    # The status may have any text; the refusal itself holds.
                    nomination, status = None, failure(f"{plugin.name} failed: {reason_of(error)}")
            if status.ok:
                return nomination, status.by(plugin.name)
            last = status.by(plugin.name)
        return None, last

    def score(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Scores | Status:
        """Return how good each of the feasible *rows* is, or which plugin could not tell."""
        for pre in self._pre_scores:
            with self.stopwatch("PreScore", pre.name):
                status = pre.pre_score(state, pod, snapshot, rows)
            if status.skipped:
                state.skipped_scores.add(pre.name)
            elif not status.ok:
                return status.by(pre.name)
        by_plugin: dict[str, Ratings] = {}
        total, everywhere = np.zeros(len(rows), dtype=np.int64), 0
        for plugin, rate, normalizer in self._scores:
            if plugin.name in state.skipped_scores:
                continue
            with self.stopwatch("Score", plugin.name):
                scores = rated(
                    partial(rate, state, pod, snapshot, rows),
                    partial(_rated_alone, plugin, state, pod),
                    snapshot,
                    rows,
                )
            same = is_uniform(scores)
            if same:
                scores = scores[:1]
            if normalizer is not None:
                scores = normalizer.normalize(state, pod, scores.astype(np.int64, copy=False))
            weighted: Ratings = scores.clip(_LEAST, _MOST)
            weight = self.profile.weights.get(plugin.name, 1)
            if weight != 1:
                weighted = np.multiply(weighted, weight, dtype=np.int64)
            if same:
                everywhere += int(weighted[0])
                weighted = uniform(int(weighted[0]), len(rows))
            else:
                total += weighted
            by_plugin[plugin.name] = weighted
        total += everywhere
        return Scores(rows, total, by_plugin)

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Book with every plugin; if one refuses, nothing stays booked.

        The changes of all plugins are in the answer even then: a belief that was booked on and
        given back is another object than before. If a plugin breaks, `unreserve` says the same.
        """
        changes = NOTHING
        for plugin in self._reserves:
            with self.stopwatch("Reserve", plugin.name):
                booking = plugin.reserve(state, pod, node)
            changes += booking.changes
            if not booking.ok:
                changes += self.unreserve(state, pod, node.name)
                return Booking(booking.status.by(plugin.name), changes)
        return Booking(changes=changes)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Undo the bookings, last first."""
        changes = NOTHING
        for plugin in reversed(self._reserves):
            changes += plugin.unreserve(state, pod, node)
        return changes

    def postpone(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Say that *pod* waits, and that pods which come later are bound before it."""
        changes = NOTHING
        for plugin in self._reserves:
            changes += plugin.postpone(state, pod, node)
        return changes

    def resume(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Say that *pod* is bound after all that are on their way now."""
        changes = NOTHING
        for plugin in self._reserves:
            changes += plugin.resume(state, pod, node)
        return changes

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Say that *pod* is bound."""
        changes = NOTHING
        for plugin in self._post_binds:
            changes += plugin.post_bind(state, pod, node)
        return changes

    def still_holds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return the first refusal to bind *pod*, though everything was booked."""
        for plugin in self._reserves:
            status = plugin.still_holds(state, pod, node)
            if not status.ok:
                return status.by(plugin.name)
        return SUCCESS

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Return success, the first refusal, or a wait with the longest time any plugin allows."""
        wait, seconds = SUCCESS, 0.0
        for plugin in self._permits:
            status, timeout = plugin.permit(state, pod, node)
            if status.refused or status.code is Code.ERROR:
                return status.by(plugin.name), 0.0
            if not status.ok:
                wait, seconds = status.by(plugin.name), max(seconds, timeout)
        return wait, seconds

    def _active_pre_filters(self, state: CycleState) -> Iterable[PreFilter]:
        return (one for one in self._pre_filters if one.name not in state.skipped_filters)


def _nothing_left(plugins: list[str]) -> Status:
    """Say that pre-filters left no node, in kube-scheduler's words."""
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    listed = " ".join(sorted(plugins))
    refusal = unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously")
    return refusal.by(plugins[-1])


def _narrow(
    snapshot: Snapshot, allowed: frozenset[str], plugins: list[str], diagnosis: Diagnosis
) -> Rows:
    known = sorted(snapshot.row_of[name] for name in allowed if name in snapshot.row_of)
    rows = np.array(known, dtype=np.intp)
    excluded = np.setdiff1d(snapshot.rows, rows)
    if len(excluded):
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"
        diagnosis.excluded.append((excluded, unresolvable(text).by(plugins[0])))
    return rows


def _is_hopeless(status: Status) -> bool:
    """Tell whether a node refuses the pod even if nothing else is there; its detail says so."""
    return bool(getattr(status.detail, "hopeless", False))


def _judge_of(plugin: Plugin) -> _Judge:
    """Return how to ask a filter about many nodes."""
    if isinstance(plugin, VectorFilter):
        return plugin.filter_all
    if not isinstance(plugin, Filter):
        return lambda _state, _pod, _snapshot, _rows: None
    judge = plugin.filter
    return lambda state, pod, snapshot, rows: Verdicts.each(
        rows, lambda row: judge(state, pod, snapshot.at(row))
    )


def _judged_alone(plugin: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
    """Ask a filter about one node, even if it only has the vectorised form."""
    if isinstance(plugin, Filter):
        return plugin.filter(state, pod, node)
    if not isinstance(plugin, VectorFilter):
        return failure(f"{plugin.name} is no filter")
    snapshot = Snapshot.of([node])
    verdicts = plugin.filter_all(state, pod, snapshot, snapshot.rows)
    return SUCCESS if verdicts is None else verdicts.status(0)


def _rated_alone(plugin: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
    """Ask a plugin for the score of one node, even if it only has the vectorised form."""
    if isinstance(plugin, Score):
        return plugin.score(state, pod, node)
    snapshot = Snapshot.of([node])
    return int(_rater_of(plugin)(state, pod, snapshot, snapshot.rows)[0])


def _rater_of(plugin: Plugin) -> _Rater:
    """Return how to ask a plugin for the scores of many nodes."""
    if isinstance(plugin, VectorScore):
        return plugin.score_all
    if not isinstance(plugin, Score):
        return lambda _state, _pod, _snapshot, rows: np.zeros(len(rows), dtype=np.int64)
    rate = plugin.score
    return lambda state, pod, snapshot, rows: np.array(
        [rate(state, pod, snapshot.at(int(row))) for row in rows], dtype=np.int64
    )
