"""Telling people what was done: in the log, and on pods for which something could not be done.

Every problem is reported once, and again only after it was gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import structlog

from numakube.apps.enforcer.group_writing import Kind
from numakube.kube.catalog import PODS
from numakube.kube.event_recorder import reference_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.apps.enforcer.allowed_cpus import Decisions, Problem
    from numakube.apps.enforcer.group_writing import Outcome
    from numakube.kube.event_recorder import EventRecorder

_Told: TypeAlias = tuple[str, str, str]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Reporter:
    """Tells of what passes did."""

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events
        self._told: set[_Told] = set()
        self._said: set[str] = set()

    def report(self, pods: Mapping[str, Pod], decisions: Decisions, outcome: Outcome) -> None:
        """Tell of a pass; *pods* are the API's objects by the uid that their groups have."""
        self._log_changes(decisions, outcome)
        problems = [*decisions.problems, *(one.problem for one in outcome.refused)]
        told = {(one.uid, one.reason, one.message) for one in problems}
        for one in dict.fromkeys(problems):
            if (one.uid, one.reason, one.message) not in self._told:
                self._warn("not_enforced", one, pods.get(one.uid))
        for uid, reason, message in self._told - told:
            _log.info("mended", uid=uid, reason=reason, problem=message)
        self._told = told
        for problem in (unpinned.problem for unpinned in outcome.unpinned):
            self._warn("started_unpinned", problem, pods.get(problem.uid))

    def say(self, problems: Iterable[str]) -> None:
        """Log what is wrong with the node."""
        now = set(problems)
        for text in sorted(now - self._said):
            _log.warning("odd_node", problem=text)
        self._said = now

    def _warn(self, what: str, problem: Problem, pod: Pod | None) -> None:
        _log.error(what, pod=problem.pod, reason=problem.reason, problem=problem.message)
        if self._events is not None and pod is not None:
            self._events.warning(reference_to(PODS, pod), problem.reason, problem.message)

    def _log_changes(self, decisions: Decisions, outcome: Outcome) -> None:
        moved = 0
        for change in outcome.changes:
            confined = decisions.pods.get(change.owner.uid)
            bound = confined is not None and confined.whole.bound
            moved += not bound
            say = _log.debug
            if change.kind is Kind.DRIFT:
                say = _log.warning
            elif bound:
                say = _log.info
            say(
                str(change.kind),
                pod=change.owner.pod,
                container=change.owner.container,
                group=change.group,
                file=change.file,
                before=change.before,
                after=change.after,
            )
        if moved:
            _log.info("shared_groups_written", files=moved)
