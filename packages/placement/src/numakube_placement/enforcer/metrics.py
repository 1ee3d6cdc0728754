"""What the enforcer counts, and what it tells people.

In the log, and on pods for which something could not be done. Every problem is reported once, and
again only after it was gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from numakube.kube import reference_to
from numakube.kube.catalog import PODS
from numakube_placement.enforcer.group_writing import WriteReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kube import EventRecorder
    from numakube_placement.enforcer.allowed_cpus import Decisions, PodProblem
    from numakube_placement.enforcer.group_writing import Outcome


_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BOUND, SHARED = "bound", "shared"


class EnforcerMetrics:
    """The metrics of one enforcer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pods = Gauge(
            "numakube_enforcer_pods",
            "Pods whose control groups the enforcer manages: with exclusive CPUs, or not.",
            ("kind",),
            registry=registry,
        )
        self._pool = Gauge(
            "numakube_enforcer_pool_cpus",
            "CPUs in the shared pools by pool and NUMA node.",
            ("pool", "numa_node"),
            registry=registry,
        )
        self._writes = Counter(
            "numakube_enforcer_writes_total",
            "Files of control groups that were written, by file and reason.",
            ("file", "kind"),
            registry=registry,
        )
        self._refused = Counter(
            "numakube_enforcer_refused_writes_total",
            "Writes that the kernel refused.",
            registry=registry,
        )
        self._problems = Gauge(
            "numakube_enforcer_problems",
            "Pods that could not be treated as their allotment says, by reason.",
            ("reason",),
            registry=registry,
        )
        self._not_enforced = Gauge(
            "numakube_enforcer_not_enforced",
            "Control groups that are not as they should be, by what the kernel says; readiness "
            "and the log name them.",
            ("reason",),
            registry=registry,
        )
        self.pass_seconds = Histogram(
            "numakube_enforcer_pass_seconds",
            "How long it takes to check and correct all control groups.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.failures = Counter(
            "numakube_enforcer_failed_passes_total",
            "Passes that could not be made.",
            registry=registry,
        )
        self.nri_connected = Gauge(
            "numakube_enforcer_nri_connected",
            "Whether the container runtime asks before it starts containers.",
            registry=registry,
        )
        self.nri_containers = Counter(
            "numakube_enforcer_nri_containers_total",
            "New containers that the runtime asked about, by answer: adjusted, nothing to say, "
            "unknown pod, or too late to say.",
            ("answer",),
            registry=registry,
        )
        self.nri_seconds = Histogram(
            "numakube_enforcer_nri_seconds",
            "How long the runtime waits for the values of a new container.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.nri_updates = Counter(
            "numakube_enforcer_nri_updates_total",
            "Running containers whose values went to the runtime with an answer.",
            registry=registry,
        )
        self._unpinned = Counter(
            "numakube_enforcer_unpinned_starts_total",
            "Containers that ran elsewhere than on their own CPUs and memory nodes when the "
            "enforcer first saw them; it set them right.",
            registry=registry,
        )
        self._reasons: set[str] = set()

    def show(self, decisions: Decisions, outcome: Outcome) -> None:
        """Show what was decided and done."""
        bound = sum(confinement.whole.bound for confinement in decisions.pods.values())
        self._pods.labels(BOUND).set(bound)
        self._pods.labels(SHARED).set(len(decisions.pods) - bound)
        pools = {"ls": decisions.pools.shared, "be": decisions.pools.best_effort}
        for name, by_node in pools.items():
            for node, cpus in by_node.items():
                self._pool.labels(name, str(node)).set(cpus.bit_count())
        for change in outcome.changes:
            self._writes.labels(change.file, str(change.kind)).inc()
        self._refused.inc(len(outcome.refused))
        self._unpinned.inc(len(outcome.unpinned))
        groups = {(refused.group, refused.reason) for refused in outcome.refused}
        self._not_enforced.clear()
        for _, reason in groups:
            self._not_enforced.labels(reason).inc()
        self._show_problems(
            [*decisions.problems, *(refused.problem for refused in outcome.refused)]
        )

    def _show_problems(self, problems: Iterable[PodProblem]) -> None:
        pods: dict[str, set[str]] = {reason: set() for reason in self._reasons}
        for problem in problems:
            pods.setdefault(problem.reason, set()).add(problem.uid)
        for reason, uids in pods.items():
            self._problems.labels(reason).set(len(uids))
        self._reasons |= pods.keys()


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
        problems = [*decisions.problems, *(refused.problem for refused in outcome.refused)]
        told = {(problem.uid, problem.reason, problem.message) for problem in problems}
        for problem in dict.fromkeys(problems):
            if (problem.uid, problem.reason, problem.message) not in self._told:
                self._warn("not_enforced", problem, pods.get(problem.uid))
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

    def _warn(self, what: str, problem: PodProblem, pod: Pod | None) -> None:
        _log.warning(what, pod=problem.pod, reason=problem.reason, problem=problem.message)
        if self._events is not None and pod is not None:
            self._events.warning(reference_to(PODS, pod), problem.reason, problem.message)

    def _log_changes(self, decisions: Decisions, outcome: Outcome) -> None:
        moved = 0
        for change in outcome.changes:
            confined = decisions.pods.get(change.owner.uid)
            bound = confined is not None and confined.whole.bound
            moved += not bound
            say = _log.debug
            if change.kind is WriteReason.DRIFT:
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
