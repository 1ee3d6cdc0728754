"""What the enforcer counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.apps.enforcer.allowed_cpus import Decisions, Problem
    from numakube.apps.enforcer.group_writing import Outcome

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
        bound = sum(one.whole.bound for one in decisions.pods.values())
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
        groups = {(one.group, one.reason) for one in outcome.refused}
        self._not_enforced.clear()
        for _, reason in groups:
            self._not_enforced.labels(reason).inc()
        self._show_problems([*decisions.problems, *(one.problem for one in outcome.refused)])

    def _show_problems(self, problems: Iterable[Problem]) -> None:
        pods: dict[str, set[str]] = {reason: set() for reason in self._reasons}
        for problem in problems:
            pods.setdefault(problem.reason, set()).add(problem.uid)
        for reason, uids in pods.items():
            self._problems.labels(reason).set(len(uids))
        self._reasons |= pods.keys()
