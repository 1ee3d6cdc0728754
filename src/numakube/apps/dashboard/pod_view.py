"""One pod: where it is or why it is nowhere, what was done about it, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.api.kubelet_rejections import is_rejected
from numakube.apps.dashboard.dashboard_pods import condition_of
from numakube.apps.dashboard.node_view import placed_pod
from numakube.apps.dashboard.pending_view import refusals_in
from numakube.apps.dashboard.scheduler_view import Moment
from numakube.dra.pod_claims import claim_name
from numakube.errors import InvalidValue
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import group_named_by
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import quantity_text, zones_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.pod import Container, Pod
    from numakube.apps.dashboard.node_view import PlacedPod
    from numakube.apps.dashboard.page_source import Source
    from numakube.apps.dashboard.pending_view import Refusal
    from numakube.insight.dra_devices import DraDevice


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
    """

    pod: Pod
    placed: PlacedPod
    zones: tuple[int, ...]
    containers: Sequence[ContainerLine]
    verdict: str
    refusals: Sequence[Refusal]
    moments: Sequence[Moment]
    recorded: bool
    claims: Sequence[ClaimLine] = ()
    gang: str = ""


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
    )


def _claims(pod: Pod, devices: Sequence[DraDevice]) -> Iterator[ClaimLine]:
    for entry in pod.spec.resource_claims:
        try:
            name = claim_name(pod, entry)
        except InvalidValue:
            yield ClaimLine(name=entry.name, text="not created yet")
            continue
        key = f"{pod.metadata.namespace}/{name}"
        held = [_device_text(one) for one in devices if key in one.claims]
        yield ClaimLine(name=entry.name, text=f"{name}: {', '.join(held) or 'no device known'}")


def _device_text(device: DraDevice) -> str:
    where = zones_text(device.zones) if device.zones else "no NUMA node told"
    return f"{device.id.driver} {device.id.device} ({where})"


def verdict_of(pod: Pod) -> str:
    """Return the last word about a pod that is not where it should be; empty if all is well."""
    if is_rejected(pod) and pod.status is not None:
        return pod.status.message or pod.status.reason
    scheduled = condition_of(pod, "PodScheduled")
    waits = scheduled is not None and scheduled.status == "False"
    return scheduled.message or scheduled.reason if waits and scheduled else ""


def _containers(pod: Pod) -> list[ContainerLine]:
    init = [_line(one, _init_kind(one)) for one in pod.spec.init_containers]
    return [*init, *(_line(one, "container") for one in pod.spec.containers)]


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


def _observed(pod: Pod, *, recorded: bool) -> list[Moment]:
    """Return what the pod itself tells of its way, and not what a recorder tells better."""
    moments = []
    if pod.metadata.creation_timestamp:
        moments.append(Moment(at=pod.metadata.creation_timestamp, what="created"))
    moments.extend(
        Moment(
            at=condition.last_transition_time,
            what=f"{condition.type} is {condition.status}",
            detail=": ".join(filter(None, (condition.reason, condition.message))),
            good=condition.status == "True",
        )
        for condition in (pod.status.conditions if pod.status else ())
        if condition.last_transition_time and not (recorded and condition.type != "Ready")
    )
    if pod.status and pod.status.start_time and not recorded:
        detail = pod.status.message if is_rejected(pod) else ""
        what = "kubelet refused it" if is_rejected(pod) else "kubelet took it up"
        moments.append(
            Moment(at=pod.status.start_time, what=what, detail=detail, good=not is_rejected(pod))
        )
    if pod.metadata.deletion_timestamp:
        moments.append(Moment(at=pod.metadata.deletion_timestamp, what="is to be gone", good=False))
    return moments


def _in_order(moments: list[Moment]) -> list[Moment]:
    """Sort by time; what is known to the second, but creation, comes at the end of its second."""

    def time_of(moment: Moment) -> str:
        seconds, dot, part = moment.at.rstrip("Z").partition(".")
        return f"{seconds}.{part if dot else '0' if moment.what == 'created' else '999999'}"

    return sorted(moments, key=time_of)
