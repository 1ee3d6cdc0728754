"""Figures of the extender. No label holds the name of a pod or a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from numakube.apps.node_state_metrics import NodeStates

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS: Final = tuple(0.0005 * 2**power for power in range(14))


class ExtenderMetrics:
    """All metrics of one extender."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "numakube_extender_requests_total",
            "Calls of kube-scheduler, by verb and status.",
            ("verb", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "numakube_extender_request_seconds",
            "Duration of a call, once its body has been read.",
            ("verb",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.refused_pods = Counter(
            "numakube_extender_refusals_total",
            "Filter calls that left no node.",
            registry=registry,
        )
        self.bindings = Counter(
            "numakube_extender_bindings_total",
            "Bind calls, by result: bound or failed.",
            ("result",),
            registry=registry,
        )
        self.woken = Counter(
            "numakube_extender_woken_pods_total",
            "Refused pods that were woken because they fit now.",
            registry=registry,
        )
        self.waiting = Gauge(
            "numakube_extender_waiting_pods", "Refused pods that wait now.", registry=registry
        )
        self.holds = Gauge(
            "numakube_extender_holds",
            "Pods between kube-scheduler's decision and its bind call.",
            registry=registry,
        )
        self.mispredictions = Counter(
            "numakube_mispredictions_total",
            "Pods that a kubelet placed differently than predicted.",
            ("severity",),
            registry=registry,
        )
        self.facts = Counter(
            "numakube_cache_facts_total",
            "Observations of the NUMA cache, by kind.",
            ("kind",),
            registry=registry,
        )
        self.node_states = NodeStates()
        registry.register(self.node_states)
