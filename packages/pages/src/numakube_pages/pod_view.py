"""One pod: where it is or why it is nowhere, what was done about it, and what it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended, is_rejected
from numakube.dra.pod_claims import claim_name
from numakube.errors import InvalidValue
from numakube.insight.observations import ObservedNode, observers
from numakube.insight.pod_timeline import step_of
from numakube.scheduling.plugins.pod_gangs import group_named_by
from numakube.topology import NodeTopology
from numakube.values.display import quantity_text, zones_text
from numakube_pages.node_view import placed_pod
from numakube_pages.page_source import condition_of
from numakube_pages.scheduler_view import TimelineMoment, moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.pod import Container, Pod
    from numakube.insight.dra_devices import DraDevice
    from numakube_pages.node_view import PlacedPod
    from numakube_pages.page_source import Source
    from numakube_pages.scheduler_view import Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLine:
    """A container and what it asks for."""

    name: str
    kind: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLine:
    """A claim of a pod: its name in the pod, and what came of it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """What the page of a pod tells.

    Attributes:
        placed: the pod with what its node's report says of it.
        zones: NUMA nodes that it holds something on.
        verdict: the scheduler's last word while the pod waits, else the kubelet's if it refused.
        refusals: the same by reason.
        moments: the pod's way so far, oldest first.
        recorded: whether the process that serves the page has recorded attempts of the pod.
        claims: its resource claims, and the devices that they have.
        gang: the pod group that it names.
        seen: what annexes saw of it, beside what it was given, in sentences.
    """

    pod: Pod
    placed: PlacedPod
    zones: tuple[int, ...]
    containers: Sequence[ContainerLine]
    verdict: str
    refusals: Sequence[RefusalCount]
    moments: Sequence[TimelineMoment]
    recorded: bool
    claims: Sequence[ClaimLine] = ()
    gang: str = ""
    seen: Sequence[str] = ()


def pod_view(source: Source, namespace: str, name: str) -> PodView | None:
    """Return what is known of a pod; ``None`` if there is none of that name."""
    pod = source.pod(namespace, name)
    if pod is None:
        return None
    view = source.view(pod.spec.node_name) if pod.spec.node_name else None
    node = source.node(pod.spec.node_name) if pod.spec.node_name else None
    devices = source.device_book.on(node) if node is not None else ()
    placed = placed_pod(pod, view.report if isinstance(view, NodeTopology) else None, devices)
    recorded = list(source.inside.moments(namespace, name)) if source.inside else []
    verdict = verdict_of(pod)
    return PodView(
        pod=pod,
        placed=placed,
        zones=tuple(sorted({zone for zones in placed.use or () for zone in zones})),
        containers=[*_containers(pod)],
        verdict=verdict,
        refusals=refusals_in(verdict) if not pod.spec.node_name else (),
        moments=_in_order([*recorded, *_observed(pod, recorded=bool(recorded))]),
        recorded=bool(recorded),
        claims=[*_claims(pod, devices)],
        gang=(group_named_by(pod) or ("",))[-1],
        seen=[*_seen(source, pod)],
    )


def _seen(source: Source, pod: Pod) -> Iterator[str]:
    name = pod.spec.node_name
    if not name or has_ended(pod):
        return
    node = ObservedNode(
        name, source.report(name), source.view(name), tuple(source.pod_book.running_on(name))
    )
    for observer in observers().values():
        yield from observer.of_pod(node, pod).words


def _claims(pod: Pod, devices: Sequence[DraDevice]) -> Iterator[ClaimLine]:
    for entry in pod.spec.resource_claims:
        try:
            name = claim_name(pod, entry)
        except InvalidValue:
            yield ClaimLine(name=entry.name, text="not created yet")
            continue
        key = f"{pod.metadata.namespace}/{name}"
        held = [_device_text(device) for device in devices if key in device.claims]
        yield ClaimLine(name=entry.name, text=f"{name}: {', '.join(held) or 'no device known'}")


def _device_text(device: DraDevice) -> str:
    where = zones_text(device.zones) if device.zones else "no NUMA node told"
    return f"{device.called} {device.id.device} ({where})"


def verdict_of(pod: Pod) -> str:
    """Return the last word about a pod that is not where it should be; empty if all is well."""
    if is_rejected(pod) and pod.status is not None:
        return pod.status.message or pod.status.reason
    scheduled = condition_of(pod, "PodScheduled")
    waits = scheduled is not None and scheduled.status == "False"
    return scheduled.message or scheduled.reason if waits and scheduled else ""


def _containers(pod: Pod) -> list[ContainerLine]:
    init = [_line(container, _init_kind(container)) for container in pod.spec.init_containers]
    return [*init, *(_line(container, "container") for container in pod.spec.containers)]


def _init_kind(container: Container) -> str:
    return "sidecar" if container.restart_policy == "Always" else "init container"


def _line(container: Container, kind: str) -> ContainerLine:
    resources = container.resources
    return ContainerLine(
        name=container.name,
        kind=kind,
        requests=_texts(resources.requests if resources else {}),
        limits=_texts(resources.limits if resources else {}),
    )


def _texts(quantities: Mapping[str, object]) -> dict[str, str]:
    return {name: quantity_text(name, quantity) for name, quantity in quantities.items()}


def _observed(pod: Pod, *, recorded: bool) -> list[TimelineMoment]:
    """Return what the pod itself tells of its way, and not what a recorder tells better."""
    moments = []
    if pod.metadata.creation_timestamp:
        moments.append(TimelineMoment(at=pod.metadata.creation_timestamp, what="created"))
    moments.extend(
        TimelineMoment(
            at=condition.last_transition_time,
            what=f"{condition.type} is {condition.status}",
            detail=": ".join(filter(None, (condition.reason, condition.message))),
            good=condition.status == "True",
        )
        for condition in (pod.status.conditions if pod.status else ())
        if condition.last_transition_time and not (recorded and condition.type != "Ready")
    )
    if pod.status and pod.status.start_time and not recorded:
        step = step_of(
            {
                "event": "rejected" if is_rejected(pod) else "admitted",
                "time": pod.status.start_time,
                "node": pod.spec.node_name,
                "message": pod.status.message,
            }
        )
        moments.append(moment_of(step))
    if pod.metadata.deletion_timestamp:
        moments.append(
            TimelineMoment(at=pod.metadata.deletion_timestamp, what="is to be gone", good=False)
        )
    return moments


def _in_order(moments: list[TimelineMoment]) -> list[TimelineMoment]:
    """Sort by time; what is known to the second, but creation, comes at the end of its second."""

    def time_of(moment: TimelineMoment) -> str:
        seconds, dot, part = moment.at.rstrip("Z").partition(".")
        return f"{seconds}.{part if dot else '0' if moment.what == 'created' else '999999'}"

    return sorted(moments, key=time_of)


# Waiting pods by what stands in their way.
#
# The reason is what a scheduler wrote into the pod's condition ``PodScheduled``: ``0/5 nodes are
# available: 3 cannot align container (cpu: best zone has 6 of 8), 2 Insufficient memory.`` Pods are
# told together whose most frequent refusal differs in numbers only.


NO_VERDICT: Final = "No scheduler has taken it up yet"
GATED: Final = "Scheduling gates are closed"

_HEAD: Final = re.compile(r"^(?:gang [^:]+: [^;]+; \S+: )?\d+/(\d+) nodes are available:\s*")
"""Of a pod, or of the first member that does not fit of a gang."""
_ELSEWHERE: Final = "node(s) outside the topology domain"
"""Said of nodes that were not tried for a gang: never the main reason."""
_TAIL: Final = re.compile(r"\.?\s*preemption: .*$", re.DOTALL)
_NEXT: Final = re.compile(r",\s+(?=\d+\s)")
_COUNTED: Final = re.compile(r"^(\d+)\s+(.*)$", re.DOTALL)
_NUMBER: Final = re.compile(r"\d[\d.]*(?:[KMGTPE]i?|m)?\b")


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """How many nodes refused a pod with the same words."""

    nodes: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """Pods that wait for the same reason.

    Attributes:
        reason: in the words of the first of them.
        nodes: how many nodes said so, of the pod with most.
    """

    reason: str
    nodes: int
    pods: tuple[Pod, ...]


@lru_cache(maxsize=16384)
def refusals_in(message: str) -> tuple[RefusalCount, ...]:
    """Return the parts of a scheduler's message, the most frequent first."""
    head = _HEAD.match(message)
    if head is None:
        return (RefusalCount(0, message),) if message else ()
    rest = _TAIL.sub("", message[head.end() :]).rstrip(".")
    found = [_counted(part) for part in _NEXT.split(rest) if part]
    return tuple(sorted(found, key=lambda one: (one.text.startswith(_ELSEWHERE), -one.nodes)))


def verdict_on(pod: Pod) -> RefusalCount:
    """Return what mainly keeps a pod waiting."""
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return RefusalCount(0, f"{GATED}: {gates}")
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None or not (scheduled.message or scheduled.reason):
        return RefusalCount(0, NO_VERDICT)
    refusals = refusals_in(scheduled.message)
    return refusals[0] if refusals else RefusalCount(0, scheduled.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGang:
    """A gang with members that wait.

    Attributes:
        needed: how many have to run; *running* and *waiting* are there.
        domain: the topology domain that it asks for, or has.
        since: when the member was created that has waited longest.
        why: what the scheduler says of that member.
    """

    name: str
    needed: int
    running: int
    waiting: int
    domain: str
    since: str
    why: str


def waiting_gangs(queue: Iterable[Waiting], pods: Mapping[str, Pod]) -> tuple[WaitingGang, ...]:
    """Return the gangs in the *queue*, those that have waited longest first."""
    found: dict[str, list[Waiting]] = {}
    for entry in queue:
        if entry.gang is not None and entry.pod in pods:
            found.setdefault(str(entry.gang["name"]), []).append(entry)
    gangs = [_waiting_gang(name, entries, pods) for name, entries in found.items()]
    return tuple(sorted(gangs, key=lambda gang: gang.since))


def _waiting_gang(name: str, entries: list[Waiting], pods: Mapping[str, Pod]) -> WaitingGang:
    first = min(entries, key=lambda entry: pods[entry.pod].metadata.creation_timestamp or "")
    pod, told = pods[first.pod], first.gang or {}
    scheduled = condition_of(pod, "PodScheduled")
    why = scheduled.message.removeprefix(f"gang {name}: ") if scheduled is not None else ""
    return WaitingGang(
        name=name,
        needed=told.get("needed", 0),
        running=told.get("running", 0),
        waiting=told.get("waiting", len(entries)),
        domain=": ".join(filter(None, (told.get("topology"), ", ".join(told.get("domains", ()))))),
        since=pod.metadata.creation_timestamp or "",
        # What holds the one back that came last counts those before it.
        why=entries[-1].gate or why or NO_VERDICT,
    )


def group_by_reason(pods: Iterable[Pod]) -> tuple[WaitingGroup, ...]:
    """Return waiting pods by reason, the largest group first."""
    found: dict[str, list[tuple[RefusalCount, Pod]]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.key):
        verdict = verdict_on(pod)
        found.setdefault(_without_numbers(verdict.text), []).append((verdict, pod))
    groups = [
        WaitingGroup(
            reason=members[0][0].text,
            nodes=max(verdict.nodes for verdict, _ in members),
            pods=tuple(pod for _, pod in members),
        )
        for members in found.values()
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.pods)))


def _counted(part: str) -> RefusalCount:
    match = _COUNTED.match(part)
    return RefusalCount(0, part) if match is None else RefusalCount(int(match[1]), match[2])


@lru_cache(maxsize=16384)
def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)
