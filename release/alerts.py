"""The alerts: when an operator has to look, and what they say.

kube-scheduler exports figures of the same names as our scheduler, so those are joined with
``numakube_build_info``: only targets that say they are ours count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

RUNBOOKS: Final = "https://github.com/numakube/numakube/blob/main/docs/how-to/alerts.md"

OURS: Final = 'on (job, instance) group_left () numakube_build_info{component="scheduler"}'
"""What a figure that kube-scheduler exports too is multiplied with."""
_NUMA_PLUGIN: Final = "NodeResourceTopologyMatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert.

    Attributes:
        severity: ``critical`` pods are not placed; ``warning`` placed badly or soon not at all;
            ``info`` worth knowing.
        lasts: how long the expression must hold, in Prometheus' notation.
        summary: one line.
        description: what is wrong and where to look; a template of Prometheus.
    """

    name: str
    severity: str
    expression: str
    lasts: str
    summary: str
    description: str

    @property
    def anchor(self) -> str:
        """Where on the page of runbooks it is explained."""
        return self.name.lower()

    def rule(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOKS}#{self.anchor}",
            },
        }


EXPORTER: Final = (
    Alert(
        name="NumakubeTargetDown",
        severity="critical",
        # What ran there is remembered from when it still answered.
        expression=(
            "(up == 0) * on (job, instance) group_left (component) "
            "max by (job, instance, component) (last_over_time(numakube_build_info[6h]))"
        ),
        lasts="5m",
        summary="A numakube process does not answer",
        description=(
            "{{ $labels.component }} at {{ $labels.instance }} has not answered for five minutes."
        ),
    ),
    Alert(
        name="NumakubeTopologyStale",
        severity="warning",
        expression="numakube_exporter_stale == 1",
        lasts="5m",
        summary="A node's topology is marked stale",
        description=(
            "The exporter at {{ $labels.instance }} cannot reach its kubelet: nothing new is known"
            " of the node's zones, and pods are placed on old data."
        ),
    ),
    Alert(
        name="NumakubeExporterNotScanning",
        severity="warning",
        expression="time() - numakube_exporter_last_scan_timestamp_seconds > 600",
        lasts="5m",
        summary="An exporter has not read its kubelet for ten minutes",
        description=(
            "The exporter at {{ $labels.instance }} read its kubelet"
            " {{ $value | humanizeDuration }} ago; it should at least every minute."
        ),
    ),
    Alert(
        name="NumakubeTopologyNotWritten",
        severity="warning",
        expression="increase(rte_noderesourcetopology_patch_failures_total[15m]) > 3",
        lasts="10m",
        summary="An exporter cannot write its NodeResourceTopology",
        description="{{ $value }} writes for node {{ $labels.node }} failed within 15 minutes.",
    ),
    Alert(
        name="NumakubeNodesWithoutTopology",
        severity="info",
        expression='max(numakube_cache_nodes{state="unknown"}) > 0',
        lasts="30m",
        summary="Nodes have no usable NodeResourceTopology",
        description="{{ $value }} nodes have none: their zones are not known to the scheduler.",
    ),
    Alert(
        name="NumakubeExporterGone",
        severity="warning",
        expression='max(numakube_cache_nodes{state="orphaned"}) > 0',
        lasts="5m",
        summary="Nodes have lost their exporter",
        description="The reports of {{ $value }} nodes are not kept up to date by anybody.",
    ),
    Alert(
        name="NumakubeOrphanedTopologies",
        severity="info",
        expression="numakube_gc_orphans > 0",
        lasts="2h",
        summary="NodeResourceTopology objects of vanished nodes stay",
        description="{{ $value }} objects belong to nodes that are gone, and are not removed.",
    ),
)

PLACEMENT: Final = (
    Alert(
        name="NumakubeStrandedCapacity",
        severity="warning",
        expression=(
            'sum(numakube_zone_stranded{resource="cpu"}) '
            '/ sum(numakube_zone_allocatable{resource="cpu"}) > 0.1'
        ),
        lasts="30m",
        summary="Free CPUs cannot be used",
        description=(
            "{{ $value | humanizePercentage }} of all CPUs are free in zones whose memory is used"
            " up."
        ),
    ),
    Alert(
        name="NumakubeFragmentedZones",
        severity="warning",
        expression=(
            'sum(numakube_outside_best_zone{resource="cpu"}) '
            '/ sum(numakube_zone_available{resource="cpu"}) > 0.4 '
            f'and sum(scheduler_unschedulable_pods{{plugin="{_NUMA_PLUGIN}"}}) > 0'
        ),
        lasts="30m",
        summary="Pods wait for a zone while CPUs are free in several",
        description=(
            "{{ $value | humanizePercentage }} of the free CPUs are outside the best zone of their"
            " node, and pods wait because no zone holds them."
        ),
    ),
    Alert(
        name="NumakubeRunawayWorkload",
        severity="warning",
        expression="numakube_runaway_workloads > 0",
        lasts="5m",
        summary="Kubelets keep rejecting the pods of a workload",
        description=(
            "{{ $value }} workloads are held back because kubelets rejected their pods again and"
            " again."
        ),
    ),
    Alert(
        name="NumakubeKubeletRejections",
        severity="warning",
        expression="sum by (reason) (increase(numakube_kubelet_rejections_total[15m])) > 2",
        lasts="1m",
        summary="Kubelets reject pods that the scheduler placed",
        description="{{ $value }} pods were rejected with {{ $labels.reason }} in 15 minutes.",
    ),
    Alert(
        name="NumakubeMispredictions",
        severity="warning",
        expression='sum(increase(numakube_mispredictions_total{severity="verdict"}[1h])) > 2',
        lasts="1m",
        summary="Kubelets decide otherwise than foreseen",
        description="{{ $value }} pods within an hour; either data or the model is wrong.",
    ),
    Alert(
        name="NumakubeMisalignedPods",
        severity="info",
        # Every replica of the scheduler counts all of them.
        expression="max by (cause) (numakube_misaligned_pods) > 0",
        lasts="1h",
        summary="Pods that want alignment do not have it",
        description="{{ $value }} pods, cause {{ $labels.cause }}: `kubectl numa check pods`.",
    ),
)

MEASURED: Final = (
    Alert(
        name="NumakubeMemoryElsewhere",
        severity="warning",
        expression="numakube_measured_pod_local_memory_ratio < 0.8",
        lasts="30m",
        summary="A pod's memory is not where it was promised",
        description=(
            "Only {{ $value | humanizePercentage }} of the memory of {{ $labels.pod_namespace }}/"
            "{{ $labels.pod_name }} on {{ $labels.node }} is in its zones: `kubectl numa check pods"
            " --measured`."
        ),
    ),
    Alert(
        name="NumakubeGuestsFillZone",
        severity="warning",
        expression=(
            "numakube_measured_zone_memory_available_bytes < 0.1 * "
            "(numakube_measured_zone_memory_available_bytes"
            " + numakube_measured_zone_guest_memory_bytes)"
        ),
        lasts="30m",
        summary="A zone's memory is used up by pods that were given none of it",
        description=(
            "{{ $labels.zone }} of {{ $labels.node }} has {{ $value | humanize1024 }}B left, and"
            " nine times as much is used by pods without a place there: memory that the kubelet"
            " promises may have to come from elsewhere."
        ),
    ),
    Alert(
        name="NumakubeCpusDisturbed",
        severity="warning",
        expression="numakube_measured_pod_others_cpu_ratio > 0.1",
        lasts="15m",
        summary="Others run on the CPUs that a pod has for itself",
        description=(
            "{{ $value | humanizePercentage }} of the time of the CPUs of {{"
            " $labels.pod_namespace }}/{{ $labels.pod_name }} on {{ $labels.node }} is spent by"
            " others."
        ),
    ),
    Alert(
        name="NumakubeFarInterrupts",
        severity="info",
        expression="numakube_measured_pod_far_interrupts > 0",
        lasts="1h",
        summary="Interrupts of a pod's devices are taken in another zone",
        description=(
            "{{ $value }} interrupts of devices of {{ $labels.pod_namespace }}/{{ $labels.pod_name"
            " }} on {{ $labels.node }}: `kubectl numa explain` says how to move them."
        ),
    ),
)

SCHEDULING: Final = (
    Alert(
        name="NumakubeNoLeader",
        severity="critical",
        expression=f"max(leader_election_master_status * {OURS}) == 0",
        lasts="2m",
        summary="No scheduler leads",
        description="Schedulers run, but none holds the lease: no pod is scheduled.",
    ),
    Alert(
        name="NumakubeQueueStuck",
        severity="critical",
        # A result has no series before its first attempt: count that as zero.
        expression=(
            f'sum(scheduler_pending_pods{{queue="active"}} * {OURS}) > 0 '
            f"unless sum(rate(scheduler_schedule_attempts_total[10m]) * {OURS}) > 0"
        ),
        lasts="10m",
        summary="Pods are ready to be tried and none is",
        description="{{ $value }} pods wait in the active queue; nothing was tried in ten minutes.",
    ),
    Alert(
        name="NumakubeCacheStalled",
        severity="warning",
        expression='max(numakube_cache_nodes{state="blocked"}) > 0',
        lasts="10m",
        summary="Nodes are blocked because their reports do not add up",
        description="{{ $value }} nodes take no pods until a report has the pods that are there.",
    ),
    Alert(
        name="NumakubeGangOverlooked",
        severity="critical",
        expression='max(numakube_gangs{state="overlooked"}) > 0',
        lasts="5m",
        summary="The scheduler does not try gangs that have all their pods",
        description=(
            "{{ $value }} gangs are held back for no reason, which is a bug of the scheduler;"
            " kubectl numa doctor names them."
        ),
    ),
    Alert(
        name="NumakubeSchedulingErrors",
        severity="warning",
        expression=(
            f'sum(rate(scheduler_schedule_attempts_total{{result="error"}}[10m]) * {OURS}) > 0.1'
        ),
        lasts="10m",
        summary="Attempts to schedule pods fail",
        description="{{ $value }} attempts a second end with an error; the scheduler's log tells.",
    ),
    Alert(
        name="NumakubeExtenderErrors",
        severity="critical",
        expression=(
            'sum(rate(numakube_extender_requests_total{status!="200"}[5m])) '
            "/ sum(rate(numakube_extender_requests_total[5m])) > 0.05"
        ),
        lasts="5m",
        summary="The extender fails calls of kube-scheduler",
        description=(
            "{{ $value | humanizePercentage }} of the calls failed; pods whose calls fail wait."
        ),
    ),
    Alert(
        name="NumakubeExtenderSlow",
        severity="warning",
        expression=(
            "histogram_quantile(0.99, "
            "sum by (le, verb) (rate(numakube_extender_request_seconds_bucket[5m]))) > 1"
        ),
        lasts="10m",
        summary="The extender is slow",
        description=(
            "One in a hundred {{ $labels.verb }} calls takes {{ $value }} s; kube-scheduler gives"
            " up after its httpTimeout."
        ),
    ),
)

CLAIMING: Final = (
    Alert(
        name="NumakubeClaimsNotPrepared",
        severity="critical",
        expression=(
            'sum by (instance) (increase(numakube_dra_prepare_seconds_count{result="error"}[10m]))'
            " > 0"
        ),
        lasts="10m",
        summary="Claims for CPUs and memory are not prepared on a node",
        description=(
            "The DRA driver at {{ $labels.instance }} refused {{ $value }} calls in ten minutes:"
            " pods with claims do not start there; its log and the events of the pods say why."
        ),
    ),
    Alert(
        name="NumakubeClaimsOrphaned",
        severity="warning",
        expression="sum by (instance) (increase(numakube_dra_orphans_total[1h])) > 0",
        lasts="5m",
        summary="Claims were left behind on a node",
        description=(
            "The DRA driver at {{ $labels.instance }} took back {{ $value }} claims that neither"
            " kubelet nor API server knew any more; nobody could have their CPUs meanwhile."
        ),
    ),
    Alert(
        name="NumakubeClaimWriterUnknown",
        severity="critical",
        expression="max(numakube_claim_writer_registered) == 0",
        lasts="5m",
        summary="API servers do not trust the claim writer",
        description=(
            "Pods that ask for a claim cannot be created: the authority of the claim writer's"
            " certificate is not registered; /readyz of its pods says why."
        ),
    ),
)

ENFORCING: Final = (
    Alert(
        name="NumakubeEnforcerFails",
        severity="critical",
        expression=(
            "sum by (instance) (increase(numakube_enforcer_failed_passes_total[10m])"
            " + increase(numakube_enforcer_refused_writes_total[10m])) > 0"
        ),
        lasts="10m",
        summary="Containers of a node are not confined",
        description=(
            "The enforcer at {{ $labels.instance }} cannot read or write control groups: pods with"
            " CPUs of their own may share them."
        ),
    ),
    Alert(
        name="NumakubeAllotmentNotEnforced",
        severity="warning",
        expression="sum by (instance, reason) (numakube_enforcer_problems) > 0",
        lasts="10m",
        summary="Pods are not treated as a scheduler decided",
        description=(
            "{{ $value }} pods at {{ $labels.instance }}: {{ $labels.reason }}. Events of the pods"
            " tell more."
        ),
    ),
)

GROUPS: Final = {
    "numakube-reports": EXPORTER,
    "numakube-placement": PLACEMENT,
    "numakube-measured": MEASURED,
    "numakube-scheduling": SCHEDULING,
    "numakube-claiming": CLAIMING,
    "numakube-enforcing": ENFORCING,
}
ALERTS: Final = tuple(alert for group in GROUPS.values() for alert in group)


def rule_file() -> dict[str, Any]:
    """Return a file for ``rule_files`` of Prometheus."""
    return {
        "groups": [
            {"name": name, "rules": [alert.rule() for alert in alerts]}
            for name, alerts in GROUPS.items()
        ]
    }


def prometheus_rule(namespace: str = "numakube") -> dict[str, Any]:
    """Return the same rules for the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "numakube",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "numakube"},
        },
        "spec": rule_file(),
    }
