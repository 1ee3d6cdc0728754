"""Are reports of the pods that are really there?

A report that names its pods (exact data) is compared pod by pod; of others the fingerprint is
tried on every set of pods that is plausible, as the scheduler's caches do. Nothing is said while
pods have just come or gone: reports are allowed to be a little late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.insight.doctor.findings import Finding, Rule, Severity, about_report
from numakube.insight.object_ages import age_seconds
from numakube.scheduling.numa.caches.counts_belief import claim_on
from numakube.scheduling.numa.caches.known_pods import KnownPod, PodStage
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods, pods_behind
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.foreseen_holdings import unknown_pods
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import age_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

GRACE_SECONDS: Final = 180
"""Three times what NFD takes between two looks."""

FROZEN: Final = Rule(
    id="NUMA-NRT-FROZEN",
    severity=Severity.ERROR,
    title="A NodeResourceTopology is not updated any more",
    why=(
        "Pods have come or gone since: what those in it hold that are gone looks taken, and what"
        " those hold that it lacks looks free, so the scheduler sends pods that the kubelet"
        " rejects."
    ),
    fix=(
        "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE   # does its exporter run?"
        " restart it, and read its log"
    ),
)
FINGERPRINT: Final = Rule(
    id="NUMA-NRT-FINGERPRINT",
    severity=Severity.WARNING,
    title="A NodeResourceTopology is of other pods than those on the node",
    why=(
        "Its fingerprint fits no set of the pods that the API server knows there. Caches that rely"
        " on it (overreserve) block the node."
    ),
    fix=(
        "# exporter and scheduler must count the same pods: --pods-fingerprint-method of the one,\n"
        "# cache.resyncMethod of the other. Static pods without a mirror pod, or an exporter that\n"
        "# is limited to some namespaces (--watch-namespace), have the same effect"
    ),
)

RULES: Final = (FROZEN, FINGERPRINT)


def check_freshness(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the pods of every report with those on its node."""
    pods, busy = _pods_by_node(facts), _busy_nodes(facts)
    for name in facts.nodes:
        view = facts.view(name)
        if not isinstance(view, NodeTopology) or not view.live or view.stale:
            continue
        here = pods.get(name, [])
        quiet = name not in busy and not _restless(facts, here)
        if view.report is not None:
            yield from _by_name(facts, name, view, here)
            if quiet:
                yield from _gone(name, view, here)
        elif view.fingerprint is not None:
            yield from _by_fingerprint(facts, name, view, here, quiet=quiet)


def _busy_nodes(facts: ClusterFacts) -> frozenset[str]:
    """Return the nodes whose kubelets told of something lately, such as pods that are gone."""
    return frozenset(
        event.source.host
        for event in facts.events
        if (age := age_seconds(facts, event.last_timestamp or event.event_time)) is not None
        and age < GRACE_SECONDS
    )


def _pods_by_node(facts: ClusterFacts) -> dict[str, list[Pod]]:
    """Return the pods of each node, ended ones too, in the order of their start."""
    found: dict[str, list[Pod]] = {}
    for pod in facts.pods:
        if pod.spec.node_name:
            found.setdefault(pod.spec.node_name, []).append(pod)
    for pods in found.values():
        pods.sort(key=lambda pod: (_started(pod) or "~", pod.metadata.key))
    return found


def _started(pod: Pod) -> str | None:
    return pod.status.start_time if pod.status else None


def _by_name(
    facts: ClusterFacts, node: str, view: NodeTopology, pods: Sequence[Pod]
) -> Iterator[Finding]:
    report = view.report
    absent = [
        pod
        for pod in pods
        if report is not None
        and not has_ended(pod)
        and pod.metadata.deletion_timestamp is None
        and _runs(pod)
        and not report.accounts_for(pod.metadata.uid)
        and claim_on(PodInfo(pod), view)
    ]
    yield from _frozen(facts, node, absent)


def _gone(node: str, view: NodeTopology, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Tell of pods that are named and gone, unless it is known whether the exporter is there."""
    if view.report is None or view.heartbeat is not None or view.exporter:
        return
    if gone := len(unknown_pods(view.report, pods)):
        detail = f"it names {gone} pod{'s' * (gone > 1)} which the API server does not know"
        yield about_report(FROZEN, node, detail, fix=FROZEN.fix_for(NODE=node))


def _by_fingerprint(
    facts: ClusterFacts, node: str, view: NodeTopology, pods: Sequence[Pod], *, quiet: bool
) -> Iterator[Finding]:
    known = [_known(pod, node, place) for place, pod in enumerate(pods)]
    accounted = pods_behind(view, known, FingerprintPods.AUTODETECT)
    if accounted is None:
        if quiet:
            detail = f"fingerprint {view.fingerprint}; on the node: {_named(pods)}"
            field = "attributes[nodeTopologyPodsFingerprint]"
            yield about_report(FINGERPRINT, node, detail, field=field)
        return
    absent = [pod for pod in pods if pod.metadata.uid not in accounted and _runs(pod)]
    yield from _frozen(facts, node, absent)


def _named(pods: Sequence[Pod]) -> str:
    names = ", ".join(pod.metadata.key for pod in pods[:3]) or "no pods"
    return names + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")


def _known(pod: Pod, node: str, place: int) -> KnownPod:
    stage = (
        PodStage.ENDED if has_ended(pod) else PodStage.TAKEN if _started(pod) else PodStage.BOUND
    )
    return KnownPod(PodInfo(pod), node, stage, (0, "", 0, place), stage)


def _runs(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase == "Running"


def _frozen(facts: ClusterFacts, node: str, absent: Sequence[Pod]) -> Iterator[Finding]:
    ages = {pod.metadata.key: age_seconds(facts, _started(pod)) or 0 for pod in absent}
    old = {key: age for key, age in ages.items() if age > GRACE_SECONDS}
    if not old:
        return
    oldest = max(old, key=lambda key: old[key])
    more = f" and {len(old) - 1} more" if len(old) > 1 else ""
    detail = f"it lacks {oldest}, which has run for {age_words(old[oldest])}{more}"
    fix = FROZEN.fix_for(NODE=node)
    yield about_report(FROZEN, node, detail, fix=fix)


def _restless(facts: ClusterFacts, pods: Sequence[Pod]) -> bool:
    """Tell whether pods of the node have come or are going, or if that is unknown."""
    for pod in pods:
        times = (_started(pod), pod.metadata.creation_timestamp, pod.metadata.deletion_timestamp)
        ages = [age_seconds(facts, time) for time in times if time]
        if not ages or any(age is None or age < GRACE_SECONDS for age in ages):
            return True
    return False


CHECKS: Final = (check_freshness,)
