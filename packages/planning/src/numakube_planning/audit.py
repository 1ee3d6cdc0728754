"""The audit of a cluster: which pods are not aligned, since when and why, and where they could be.

A pod wants alignment if it asks for exclusive CPUs or devices, and its scheduler knows NUMA, its
node's kubelet aligns pods, or it has an annotation that says so. To find nodes that would align it
now, the audit removes the pod from its node, releases its claims, and asks the scheduler's plugins
and the kubelet model.

The result is a document, and lines of text; fields are only ever added, and
docs/how-to/check-a-cluster.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.pod import has_ended
from numakube.errors import InvalidValue
from numakube.insight import configuration_in, engine_of
from numakube.insight.dra_devices import use_with_devices
from numakube.insight.explain import nodes_again, placement_now, pod_subject
from numakube.insight.explain.explanation_document import Document
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.misalignment import Cause, is_given_to_align, judged, wants_alignment
from numakube.insight.observations import UNKNOWN, observed
from numakube.insight.pod_timeline import use_text
from numakube.scheduling.numa.caches.counts_belief import use_in_report
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import age_text, counted
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.insight.misalignment import Judged
    from numakube.insight.observations import Observation, Observer
    from numakube.scheduling import Engine

OBSERVED_TITLES: Final = ("NAMESPACE", "POD", "NODE", "HAS", "SINCE", "WHY")
UNMET_TITLES: Final = ("NAMESPACE", "POD", "NODE", "NOT AS IT ASKS")
TITLES: Final = ("NAMESPACE", "POD", "NODE", "ZONES", "SINCE", "CAUSE", "ALIGNED ON", "WHY")
MORE: Final = ("CONTROLLER", "PREDICTED", "IS")
_FEW: Final = 2


class AuditedPod(Document, frozen=True):
    """A pod that wants alignment and does not have it.

    Attributes:
        controller: its controller, as ``kind/name``; empty for a bare pod.
        fewest: on how many zones it could be on an idle node; 0 if that is not known.
        since: when its kubelet admitted it, in RFC 3339.
        predicted: what its scheduler expected, according to a flight recorder.
        actual: what it has, by zone.
        better: nodes that would align it now, its own among them.
    """

    namespace: str
    name: str
    controller: str = ""
    scheduler: str = ""
    node: str = ""
    policy: str = ""
    zones: tuple[int, ...] = ()
    fewest: int = 0
    cause: str = ""
    why: str = ""
    since: str = ""
    predicted: str = ""
    actual: str = ""
    better: tuple[str, ...] = ()


class UnknownPod(Document, frozen=True):
    """A pod that wants alignment; whether it has it is unknown."""

    namespace: str
    name: str
    node: str
    why: str


class ObservedPod(Document, frozen=True):
    """A pod that wants alignment, and what was seen of it beside what it was given.

    Attributes:
        text: in a few words; ``unknown`` if nothing was seen, and ``figures`` then say why.
        why: in sentences, who is in the way among them.
        disappointed: whether it does not have what it was promised.
        since: since when.
    """

    namespace: str
    name: str
    node: str
    text: str
    why: tuple[str, ...] = ()
    disappointed: bool = False
    since: str = ""
    figures: dict[str, Any] = msgspec.field(default_factory=dict)


class Audit(Document, frozen=True, kw_only=True):
    """The audit of a cluster, or of some of its pods.

    Attributes:
        wanting: how many pods want alignment.
        aligned: how many of them have it.
        observed: what was seen of all that want it, if that was asked for.
        unmet: those that are not beside other pods of their node, or whose devices are not linked,
            as they ask by annotations.
    """

    api_version: str = "insight.numakube.dev/v1alpha1"
    kind: str = "AlignmentAudit"
    taken_at: str = ""
    wanting: int = 0
    aligned: int = 0
    misaligned: tuple[AuditedPod, ...] = ()
    unknown: tuple[UnknownPod, ...] = ()
    observed: tuple[ObservedPod, ...] = ()
    unmet: tuple[ObservedPod, ...] = ()

    @property
    def disappointed(self) -> tuple[ObservedPod, ...]:
        """The pods that do not really have what they were promised."""
        return tuple(pod for pod in self.observed if pod.disappointed)


def observed_row(pod: ObservedPod, taken_at: str) -> list[str]:
    """Return the cells of what was seen of a pod."""
    return [
        pod.namespace,
        pod.name,
        pod.node,
        pod.text,
        _age(pod.since, taken_at),
        " ".join(pod.why[1:]),
    ]


def unmet_row(pod: ObservedPod) -> list[str]:
    """Return the cells of a pod that does not have what it asks for by annotations."""
    return [pod.namespace, pod.name, pod.node, " ".join(pod.why)]


def observed_summary(audit: Audit, observer: str) -> str:
    """Return in a sentence how many pods really have what they were promised."""
    known = [pod for pod in audit.observed if pod.text != UNKNOWN]
    unknown = [pod for pod in audit.observed if pod.text == UNKNOWN]
    fine = len(known) - len(audit.disappointed)
    parts = []
    if known:
        parts.append(f"{fine} of {counted(len(known), 'pod')} {observer} have what was promised")
    if unknown:
        why = unknown[0].figures.get("unknown", UNKNOWN)
        parts.append(f"{counted(len(unknown), 'pod')} not {observer} ({why})")
    return "; ".join(parts) + "."


def row(pod: AuditedPod, taken_at: str, *, wide: bool) -> list[str]:
    """Return the cells of a pod."""
    cells = [
        pod.namespace,
        pod.name,
        pod.node,
        "+".join(map(str, pod.zones)),
        _age(pod.since, taken_at),
        pod.cause,
        _few_of(pod.better),
        pod.why,
    ]
    return [*cells, pod.controller, pod.predicted, pod.actual] if wide else cells


def summary(audit: Audit) -> str:
    """Return the whole audit in a sentence or two."""
    if not audit.wanting:
        return "No pod wants alignment."
    wanting = counted(audit.wanting, "pod")
    known = f"{audit.aligned} of {wanting} that want alignment have it"
    parts = [known]
    if audit.misaligned:
        movable = sum(bool(pod.better) for pod in audit.misaligned)
        parts.append(f"{len(audit.misaligned)} do not, {movable} of them would if placed again")
    if audit.unknown:
        parts.append(f"of {len(audit.unknown)} it is not known ({audit.unknown[0].why})")
    return "; ".join(parts) + "."


def _few_of(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _FEW} more" if nodes[_FEW:] else ""
    return ", ".join(nodes[:_FEW]) + more


def _age(since: str, taken_at: str) -> str:
    try:
        return age_text((parse_time(taken_at) - parse_time(since)).total_seconds())
    except InvalidValue:
        return ""


_STATIC: Final = "static"


def audit(
    facts: ClusterFacts,
    pods: Iterable[Pod],
    *,
    moves: bool = True,
    watcher: Observer | None = None,
    wishes: Iterable[Observer] = (),
) -> Audit:
    """Return which of *pods* want alignment and do not have it.

    Args:
        facts: the cluster.
        pods: those to look at.
        moves: whether to look for nodes that would align them now, which takes the most time.
        watcher: tells what they really have, if that is wanted.
        wishes: tell whether pods have what they ask for besides.
    """
    return _Auditor(facts, moves=moves, watcher=watcher, wishes=tuple(wishes)).of(pods)


def _observed_pod(pod: Pod, one: Observation) -> ObservedPod:
    """Return what was seen of a pod, for lists."""
    return ObservedPod(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        text=one.text,
        why=one.words,
        disappointed=one.is_bad,
        since=one.since,
        figures=dict(one.document),
    )


class _Auditor:
    """The work on one audit."""

    def __init__(
        self,
        facts: ClusterFacts,
        *,
        moves: bool,
        watcher: Observer | None,
        wishes: tuple[Observer, ...],
    ) -> None:
        self._facts = facts
        self._watcher = watcher
        self._wishes = wishes
        self._moves = moves
        self._schedulers = numa_schedulers(facts)
        self._predicted = predictions_in(facts)
        self._engines: dict[object, Engine] = {}

    def of(self, pods: Iterable[Pod]) -> Audit:
        found: list[AuditedPod] = []
        unknown: list[UnknownPod] = []
        seen: list[ObservedPod] = []
        unmet: list[ObservedPod] = []
        wanting = 0
        for pod, view in self._wanting(pods):
            wanting += 1
            seen += self._seen(pod)
            unmet += self._unmet(pod)
            if view is None:
                unknown.append(_unknown(pod, "nothing is known of its node's NUMA zones"))
                continue
            devices = self._facts.dra_devices(pod.spec.node_name)
            verdict = judged(pod, view, devices)
            if verdict.unknown:
                unknown.append(_unknown(pod, verdict.unknown))
            elif verdict.cause is not None:
                found.append(self._audited(pod, view, verdict, verdict.cause))
        return Audit(
            taken_at=self._facts.taken_at,
            wanting=wanting,
            aligned=wanting - len(found) - len(unknown),
            misaligned=tuple(sorted(found, key=lambda one: (one.namespace, one.name))),
            unknown=tuple(sorted(unknown, key=lambda one: (one.namespace, one.name))),
            observed=tuple(sorted(seen, key=lambda one: (one.namespace, one.name))),
            unmet=tuple(sorted(unmet, key=lambda one: (one.namespace, one.name))),
        )

    def _unmet(self, pod: Pod) -> Iterator[ObservedPod]:
        for observer in self._wishes:
            one = observer.of_pod(observed(self._facts, pod.spec.node_name), pod)
            if one.is_bad:
                yield _observed_pod(pod, one)

    def _seen(self, pod: Pod) -> Iterator[ObservedPod]:
        if self._watcher is None:
            return
        yield _observed_pod(
            pod, self._watcher.of_pod(observed(self._facts, pod.spec.node_name), pod)
        )

    def _wanting(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, NodeTopology | None]]:
        for pod in pods:
            if has_ended(pod) or not pod.spec.node_name:
                continue
            view = self._facts.view(pod.spec.node_name)
            if not isinstance(view, NodeTopology):
                if is_given_to_align(pod, self._schedulers):
                    yield pod, None
            elif wants_alignment(pod, view, self._schedulers):
                yield pod, view

    def _audited(self, pod: Pod, view: NodeTopology, verdict: Judged, cause: Cause) -> AuditedPod:
        meta, owner = pod.metadata, pod.metadata.controller
        return AuditedPod(
            namespace=meta.namespace,
            name=meta.name,
            controller=f"{owner.kind}/{owner.name}" if owner is not None else "",
            scheduler=pod.spec.scheduler_name or "default-scheduler",
            node=pod.spec.node_name,
            policy=view.known_policy,
            zones=verdict.zones,
            fewest=verdict.fewest,
            cause=str(cause),
            why=verdict.why,
            since=(pod.status.start_time or "") if pod.status else "",
            predicted=self._predicted.get(meta.uid, ""),
            actual=self._actual(pod, view),
            better=self._better(pod, cause) if self._moves else (),
        )

    def _actual(self, pod: Pod, view: NodeTopology) -> str:
        holding = view.report.holding(pod.metadata.uid) if view.report is not None else None
        if view.report is None or holding is None:
            return ""
        devices = self._facts.dra_devices(pod.spec.node_name)
        own = [device for device in devices if pod.metadata.key in device.pods]
        use = use_with_devices(use_in_report(view.report, holding), own)
        return use_text(use_document(use))

    def _better(self, pod: Pod, cause: Cause) -> tuple[str, ...]:
        """Return the nodes that would align *pod* now."""
        engine, subject = self._engine(pod), pod_subject(pod)
        if cause in (Cause.SHARED_CPUS, Cause.DEVICE_HEALTH):
            return tuple(filter(self._gives_cpus, nodes_again(self._facts, engine, subject)))
        placement = placement_now(self._facts, engine, subject)
        return placement.better if placement is not None else ()

    def _gives_cpus(self, node: str) -> bool:
        view = self._facts.view(node)
        return isinstance(view, NodeTopology) and view.cpu_manager_policy == _STATIC

    def _engine(self, pod: Pod) -> Engine:
        config = configuration_in(self._facts, pod.spec.scheduler_name)
        key = (
            None if config is None else tuple(profile.scheduler_name for profile in config.profiles)
        )
        if key not in self._engines:
            self._engines[key] = engine_of(self._facts, config, pod.spec.scheduler_name)
        return self._engines[key]


def _unknown(pod: Pod, why: str) -> UnknownPod:
    meta = pod.metadata
    return UnknownPod(namespace=meta.namespace, name=meta.name, node=pod.spec.node_name, why=why)


def predictions_in(facts: ClusterFacts) -> dict[str, str]:
    """Return what each pod was last expected to get, by uid, from schedulers' flight recorders."""
    found: dict[str, str] = {}
    for scheduler in facts.schedulers.values():
        document = scheduler.documents.get("attempts")
        for flight in _listed(document, "items"):
            for attempt in _listed(flight, "attempts"):
                for event in _listed(attempt, "events"):
                    predicted = event.get("predicted")
                    if event.get("event") == "reserved" and isinstance(predicted, dict):
                        found[str(flight.get("uid", ""))] = use_text(predicted)
    return found


def _listed(document: object, field: str) -> Iterator[dict[str, Any]]:
    items = document.get(field) if isinstance(document, dict) else None
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield item
