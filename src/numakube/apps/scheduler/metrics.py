"""Figures of the scheduler.

Those that mean the same as kube-scheduler's have its names; what is ours starts with ``numakube_``.
No label holds the name of a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_LATENCY_SECONDS: Final = tuple(0.01 * 2**power for power in range(20))


class SchedulerMetrics:
    """All metrics of one scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ("result", "profile"),
            registry=registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, binding included.",
            ("result", "profile"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of deciding, without binding.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the first sight of a pod to its binding.",
            ("attempts",),
            buckets=_LATENCY_SECONDS,
            registry=registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod needed until it was bound.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self.pending = Gauge(
            "scheduler_pending_pods", "Waiting pods, by queue.", ("queue",), registry=registry
        )
        self.cache_size = Gauge(
            "scheduler_cache_size", "Objects in the cache.", ("type",), registry=registry
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.preemptions = Counter(
            "scheduler_preemption_attempts_total", "Preemptions carried out.", registry=registry
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Pods that each plugin keeps from being scheduled.",
            ("plugin",),
            registry=registry,
        )
        self.mispredictions = Counter(
            "numakube_mispredictions_total",
            "Pods that a kubelet treated otherwise than was predicted, by how bad that is.",
            ("severity",),
            registry=registry,
        )
        self.rejections = Counter(
            "numakube_kubelet_rejections_total",
            "Pods of ours that a kubelet refused after they were bound, by its reason.",
            ("reason",),
            registry=registry,
        )
        self.runaways = Gauge(
            "numakube_runaway_workloads",
            "Workloads held back because kubelets kept rejecting their pods.",
            registry=registry,
        )
        self.facts = Counter(
            "numakube_cache_facts_total",
            "What the NUMA cache found worth telling, by kind.",
            ("kind",),
            registry=registry,
        )
        self.leader = Gauge(
            "leader_election_master_status", "Whether this one leads.", ("name",), registry=registry
        )
