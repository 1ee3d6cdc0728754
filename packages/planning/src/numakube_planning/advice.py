"""Advice on requests and reservations: which small change gives a pod more places.

Advice as a document, and in lines of text.

Fields are only ever added; docs/reference/explain.md describes them.

Kinds of nodes as they are when nothing but their daemons runs, and how many pods each holds.

A *slot* is a place for one pod of the kind in question on an idle node: the kubelet model admits
copies of the pod until it refuses one, or the node's allocatable amounts are used up.

Which reservations of kubelets cost a whole slot, and how the same could be reserved for less.

Two things are tried on idle nodes, each with CPUs and with memory: the same amount, all of it in
the zone that has the most reserved already, and less of it. A CPU Manager that gives out CPUs needs
at least one for the system.

Which other requests give a pod more places, each tried on the scheduler and the kubelet model.

Where a kubelet gives out whole cores, slightly more may fit where what is asked for does not.

Sizes that are worth trying are those at which one pod more fits into a zone: what a zone has after
reservations, or has free now, divided by one, two, three and so on.

    advice_on(facts, make, pod, name="deployment/web")
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.errors import ConfigError, InvalidValue
from numakube.insight import model_of
from numakube.insight.explain import judge, with_planned_claims
from numakube.insight.explain.explanation_document import Document
from numakube.insight.how_many_fit import copies, room_for
from numakube.insight.node_groups import stays_with_its_node
from numakube.insight.planned_pods import (
    all_containers,
    asked_by,
    step_of,
    text_of,
    texts_of,
    whole_cores_above,
    with_amounts,
)
from numakube.kubelet import Admitted, KubeletNode
from numakube.kubelet.predicates import check_fit
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import remove_pod, zone_cpus
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.display import amount_text, bytes_text, counted, zones_text
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.kubelet import KubeletSettings
    from numakube.values.resources import Amounts

    Trial = tuple[KubeletSettings, str, int]
    """Other settings, what they reserve in words, and how much less that is, in base units."""
    from collections.abc import Callable

    from numakube.insight.explain import Judgement
    from numakube.scheduling import Engine


class RequestAdvice(Document, frozen=True):
    """Another request, and what it brings.

    Attributes:
        was: what is asked for, as a quantity; so is ``to``.
        nodes: on how many nodes one such pod fits now.
        slots: how many fit on all nodes if they are idle.
        text: the same in a sentence.
    """

    container: str
    resource: str
    was: str
    to: str
    nodes: int
    slots: int
    text: str


class ReservationAdvice(Document, frozen=True):
    """Another reservation of kubelets, and what it brings.

    Attributes:
        like: one of the nodes; ``nodes`` is how many there are.
        setting: the field of the KubeletConfiguration.
        slots: how many pods each of them holds when idle; ``slots_then`` with the change.
    """

    like: str
    nodes: int
    resource: str
    setting: str
    was: str
    to: str
    slots: int
    slots_then: int
    text: str


class Advice(Document, frozen=True, kw_only=True):
    """What there is to say of the requests of a pod, or of the pods of a workload.

    Attributes:
        name: as ``kind/name``.
        requests: of the whole pod, as quantities.
        total: how many nodes there are.
        nodes: on how many of them one such pod fits now; ``places`` is how many fit in all.
        slots: how many fit on all nodes if they are idle; ``None`` if no node has exact data.
        notes: what the answer rests on or leaves open.
    """

    api_version: str = "insight.numakube.dev/v1alpha1"
    kind: str = "RequestAdvice"
    taken_at: str = ""
    namespace: str = ""
    name: str = ""
    requests: dict[str, str] = msgspec.field(default_factory=dict)
    total: int = 0
    nodes: int = 0
    places: int = 0
    slots: int | None = None
    smaller: tuple[RequestAdvice, ...] = ()
    larger: tuple[RequestAdvice, ...] = ()
    reservations: tuple[ReservationAdvice, ...] = ()
    notes: tuple[str, ...] = ()


def advice_lines(advice: Advice) -> Iterator[str]:
    """Yield the advice for people."""
    asked = ", ".join(f"{name} {text}" for name, text in advice.requests.items()) or "nothing"
    yield f"{advice.name} (namespace {advice.namespace}) asks for {asked}."
    idle = "" if advice.slots is None else f" Idle, they would hold {advice.slots}."
    where = f"on {advice.nodes} of {counted(advice.total, 'node')}"
    yield f"It fits {where} now, {counted(advice.places, 'time')} in all.{idle}"
    for title, lines in (
        ("Ask for more:", [other.text for other in advice.larger]),
        ("Ask for less:", [other.text for other in advice.smaller]),
        ("Reserve otherwise:", [reservation.text for reservation in advice.reservations]),
    ):
        if lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)
    if not advice.smaller and not advice.larger and not advice.reservations:
        yield "No request of at least half of that, and no other reservation, gives it more places."
    yield from (f"Note: {note}" for note in advice.notes)


_MOST_SLOTS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleKind:
    """Nodes that are alike when idle.

    Attributes:
        nodes: their names, the first of which stands for all.
        version: of their kubelets, such as ``1.35``.
        zones: what each zone may give out.
        daemons: pods that stay with the node.
    """

    nodes: tuple[str, ...]
    model: KubeletNode
    version: str
    allocatable: Amounts
    zones: tuple[Amounts, ...]
    daemons: tuple[Pod, ...]

    def slots(self, pod: Pod) -> int:
        """Return how many pods like *pod* one such node holds."""
        return self._held(self.model.clone(), pod, self.allocatable)

    def slots_with(self, settings: KubeletSettings, pod: Pod, freed: Amounts) -> int:
        """Return the same for a kubelet with other *settings*, which leave *freed* more to pods.

        A kubelet that would not start with them holds none.
        """
        devices = self.model.devices
        known = {name: devices.devices_of(name) for name in devices.resources()}
        machine = self.model.machine
        try:
            model = KubeletNode(machine, settings, devices=known, kubernetes=self.version)
        except ConfigError:
            return 0
        for daemon in self.daemons:
            model.admit(daemon)
        more = {name: self.allocatable.get(name, 0) + amount for name, amount in freed.items()}
        return self._held(model, pod, {**self.allocatable, **more})

    def _held(self, model: KubeletNode, pod: Pod, allocatable: Amounts) -> int:
        running = list(self.daemons)
        for number, one in enumerate(copies(pod, _MOST_SLOTS)):
            if check_fit(one, running, allocatable) is not None:
                return number
            if not isinstance(model.admit(one), Admitted):
                return number
            running.append(one)
        return _MOST_SLOTS


def idle_kinds(facts: ClusterFacts, nodes: Iterable[str]) -> list[IdleKind]:
    """Return *nodes* by kind, the most frequent first; those without exact data are left out."""
    alike: dict[object, list[str]] = {}
    for name in nodes:
        view = facts.view(name)
        if isinstance(view, NodeTopology) and view.report is not None and name in facts.nodes:
            alike.setdefault(_likeness(facts, view, name), []).append(name)
    kinds = (_idle(facts, names) for names in alike.values())
    found = [kind for kind in kinds if kind is not None]
    return sorted(found, key=lambda kind: -len(kind.nodes))


def _likeness(facts: ClusterFacts, view: NodeTopology, name: str) -> object:
    """Return what nodes have in common that hold the same pods when idle."""
    report = view.report
    daemons = sorted(str(PodInfo(pod).requests) for pod in _daemons(facts, name))
    zones = tuple(tuple(sorted(zone.allocatable.items())) for zone in view.zones)
    allocatable = tuple(sorted(facts.nodes[name].status.allocatable.items()))
    # Nodes that are alike share one machine.
    own = (id(report.machine), repr(report.settings), repr(report.devices)) if report else ()
    return own, zones, allocatable, tuple(daemons)


def _daemons(facts: ClusterFacts, name: str) -> Iterator[Pod]:
    return (pod for pod in facts.pods_on(name) if stays_with_its_node(PodInfo(pod)))


def _idle(facts: ClusterFacts, names: list[str]) -> IdleKind | None:
    name = names[0]
    view, model = facts.view(name), model_of(facts, name)
    if isinstance(model, Unusable) or not isinstance(view, NodeTopology) or view.report is None:
        return None
    daemons = tuple(_daemons(facts, name))
    kept = {pod.metadata.uid for pod in daemons}
    for pod in facts.pods_on(name):
        if pod.metadata.uid not in kept:
            remove_pod(model, pod.metadata.uid)
    model.collect_garbage()
    try:
        allocatable = amounts_of(facts.nodes[name].status.allocatable)
    except InvalidValue:
        return None
    return IdleKind(
        nodes=tuple(names),
        model=model,
        version=view.report.kubernetes,
        allocatable=allocatable,
        zones=tuple(zone.allocatable for zone in view.zones),
        daemons=daemons,
    )


_SHARES: Final = (3, 2, 1, 0)
"""Quarters of the reserved memory that are tried, the largest first."""


def cheaper_reservations(kind: IdleKind, pod: Pod) -> Iterator[ReservationAdvice]:
    """Yield the smallest change of CPUs and of memory reserved that gives a node more slots."""
    held = kind.slots(pod)
    for resource, was, trials in (
        (CPU, str(_reserved(kind)), _cpu_trials(kind)),
        (MEMORY, _memory_words(kind.model.settings), _memory_trials(kind)),
    ):
        for settings, to, freed in trials:
            slots = kind.slots_with(settings, pod, {resource: freed})
            if slots > held:
                yield _advice(kind, resource, (was, to), (held, slots))
                break


def _advice(
    kind: IdleKind, resource: str, words: tuple[str, str], slots: tuple[int, int]
) -> ReservationAdvice:
    was, to = words
    before, after = slots
    name = "reservedSystemCPUs" if resource == CPU else "reservedMemory"
    return ReservationAdvice(
        like=kind.nodes[0],
        nodes=len(kind.nodes),
        resource=resource,
        setting=name,
        was=was,
        to=to,
        slots=before,
        slots_then=after,
        text=(
            f"{name} {was} costs {counted(after - before, 'slot')} of {_nodes(kind)}:"
            f" with {to} it holds {after} instead of {before}."
        ),
    )


def _nodes(kind: IdleKind) -> str:
    first, more = kind.nodes[0], len(kind.nodes) - 1
    return f"each of {len(kind.nodes)} nodes like {first}" if more else first


def _reserved(kind: IdleKind) -> CpuSet:
    return CpuSet(kind.model.cpus.reserved) if kind.model.cpus else CpuSet()


def _cpu_trials(kind: IdleKind) -> Iterator[Trial]:
    """Yield the same number of CPUs in one zone, then one less at a time."""
    reserved, settings = _reserved(kind), kind.model.settings
    if not reserved:
        return
    zones = {zone: CpuSet(bits) for zone, bits in zone_cpus(kind.model.machine).items()}
    by_zone = {zone: len(reserved & cpus) for zone, cpus in zones.items()}
    most = max(by_zone, key=lambda zone: by_zone[zone])
    order = _by_core(kind, most, reserved)
    for count in range(len(reserved), 0, -1):
        chosen = CpuSet.of(order[:count])
        if len(order) >= count and chosen != reserved:
            freed = (len(reserved) - count) * MILLI_PER_CPU
            changed = replace(settings, reserved_cpus=chosen, reserved_cpu_milli=None)
            yield changed, f"{chosen} (zone {most} alone)", freed


def _by_core(kind: IdleKind, zone: int, reserved: CpuSet) -> list[int]:
    """Return the CPUs of a zone core by core, partly reserved cores first."""
    node = next(node for node in kind.model.machine.nodes if node.id == zone)
    cores = sorted(node.cores, key=lambda core: not any(cpu in reserved for cpu in core.threads))
    return [cpu for core in cores for cpu in core.threads]


def _memory_words(settings: KubeletSettings) -> str:
    held = {zone: kinds.get(MEMORY, 0) for zone, kinds in settings.reserved_memory.items()}
    parts = (f"{bytes_text(size)} of {zones_text([zone])}" for zone, size in held.items() if size)
    return " and ".join(parts) or "nothing"


def _memory_trials(kind: IdleKind) -> Iterator[Trial]:
    """Yield the same memory in one zone, then a quarter less of it at a time."""
    settings = kind.model.settings
    by_zone = Counter(
        {zone: kinds.get(MEMORY, 0) for zone, kinds in settings.reserved_memory.items()}
    )
    total = by_zone.total()
    if not total:
        return
    ((most, _),) = by_zone.most_common(1)
    if by_zone[most] < total:
        yield _with_memory(settings, {most: total}, 0)
    for quarters in _SHARES:
        left = {zone: size * quarters // 4 for zone, size in by_zone.items()}
        yield _with_memory(settings, left, total - sum(left.values()))


def _with_memory(settings: KubeletSettings, sizes: dict[int, int], freed: int) -> Trial:
    zones = {*settings.reserved_memory, *sizes}
    reserved = {
        zone: {**settings.reserved_memory.get(zone, {}), MEMORY: sizes.get(zone, 0)}
        for zone in sorted(zones)
    }
    sums = settings.memory_reservation
    if sums is not None:
        sums = {**sums, MEMORY: sum(sizes.values())}
    changed = replace(settings, reserved_memory=reserved, memory_reservation=sums)
    return changed, _memory_words(changed), freed


_ROOM: Final = frozenset({"NodeResourcesFit", "NodeResourceTopologyMatch", "DynamicResources"})
"""Plugins that refuse a node for lack of room; others would refuse a smaller pod as well."""
_LEAST: Final = 2
"""At least one part in so many of what is asked for now is tried."""
_MOST_PODS: Final = 16
_MOST_TRIED: Final = 8
_MOST_TOLD: Final = 3


def advice_on(
    facts: ClusterFacts, make: Callable[[ClusterFacts], Engine], pod: Pod, *, name: str
) -> Advice:
    """Return which changes give pods like *pod* more places.

    Args:
        facts: the cluster.
        make: returns the scheduler's engine for it.
        pod: not bound to any node.
        name: what the pod is of, as ``kind/name``.
    """
    return _Adviser(facts, make, pod, name).advice()


class _Adviser:
    """The work on one piece of advice."""

    def __init__(
        self, facts: ClusterFacts, make: Callable[[ClusterFacts], Engine], pod: Pod, name: str
    ) -> None:
        self._facts = facts
        self._make = make
        self._pod, made = with_planned_claims(_without_claims(pod), facts.claim_templates)
        self._name = name
        self._engine = make(facts)
        self._engine.cluster.objects.resource_claims.update(made)
        self._engine.cluster.objects_changed()
        self._runtime = self._engine.runtime_for(pod.spec.scheduler_name)
        judgement = self._judged(self._pod)
        self._nodes = _fitting(judgement)
        self._total = judgement.total
        self._held = judgement.held
        self._kinds = idle_kinds(facts, _usable(judgement))

    def advice(self) -> Advice:
        reservations = (
            reservation
            for kind in self._kinds
            for reservation in cheaper_reservations(kind, self._pod)
        )
        return Advice(
            taken_at=self._facts.taken_at,
            namespace=self._pod.metadata.namespace,
            name=self._name,
            requests=texts_of(PodInfo(self._pod).requests),
            total=self._total,
            nodes=self._nodes,
            places=self._places(),
            slots=self._slots(self._pod) if self._kinds else None,
            smaller=tuple(self._smaller()),
            larger=tuple(self._larger()),
            reservations=tuple(reservations),
            notes=tuple(self._notes()),
        )

    def _places(self) -> int:
        """Return how many such pods fit beside each other; with claims, one a node is counted."""
        if self._pod.spec.resource_claims:
            return self._nodes
        return sum(room_for(self._make(self._facts), self._pod).values())

    def _judged(self, pod: Pod) -> Judgement:
        return judge(self._engine, self._runtime, PodInfo(pod))

    def _slots(self, pod: Pod) -> int:
        return sum(kind.slots(pod) * len(kind.nodes) for kind in self._kinds)

    def _smaller(self) -> Iterator[RequestAdvice]:
        for container, _ in all_containers(self._pod):
            for resource, wanted in asked_by(container).items():
                yield from self._less_of(container.name, resource, wanted)

    def _larger(self) -> Iterator[RequestAdvice]:
        """Yield whole cores where the CPUs that are asked for make up none."""
        best = self._nodes, self._slots(self._pod)
        for container, _ in all_containers(self._pod):
            wanted = asked_by(container).get(CPU, 0)
            for amount in whole_cores_above(wanted):
                pod = with_amounts(self._pod, container.name, {CPU: amount})
                found = _fitting(self._judged(pod)), self._slots(pod)
                if found[0] > best[0] or found[1] > best[1]:
                    yield self._advice(container.name, CPU, (wanted, amount), found)
                    break

    def _less_of(self, container: str, resource: str, wanted: int) -> Iterator[RequestAdvice]:
        """Yield sizes from large to small that each fit more often than all larger ones."""
        best = self._nodes, self._slots(self._pod)
        told = 0
        for amount in self._sizes(resource, wanted):
            pod = with_amounts(self._pod, container, {resource: amount})
            found = _fitting(self._judged(pod)), self._slots(pod)
            if found[0] <= best[0] and found[1] <= best[1]:
                continue
            yield self._advice(container, resource, (wanted, amount), found)
            best = max(best[0], found[0]), max(best[1], found[1])
            told += 1
            if told == _MOST_TOLD:
                return

    def _advice(
        self, container: str, resource: str, amounts: tuple[int, int], found: tuple[int, int]
    ) -> RequestAdvice:
        wanted, amount = amounts
        nodes, slots = found
        then, now = amount_text(resource, amount), amount_text(resource, wanted)
        idle = ""
        if self._kinds:
            idle = f", {slots} times on idle nodes instead of {self._slots(self._pod)}"
        return RequestAdvice(
            container=container,
            resource=resource,
            was=text_of(resource, wanted),
            to=text_of(resource, amount),
            nodes=nodes,
            slots=slots,
            text=(
                f"{resource} {then} instead of {now} in container {container}:"
                f" fits on {counted(nodes, 'node')} now instead of {self._nodes}{idle}"
                f"{self._zones(resource)}."
            ),
        )

    def _zones(self, resource: str) -> str:
        """Say what zones may give out, which is less than they have."""
        sizes = sorted({zone.get(resource, 0) for kind in self._kinds for zone in kind.zones})
        if not any(sizes):
            return ""
        few = [amount_text(resource, size) for size in sizes]
        listed = few[0] if len(few) == 1 else f"{few[0]} to {few[-1]}"
        return f"; a zone has {listed} after reservations"

    def _sizes(self, resource: str, wanted: int) -> list[int]:
        """Return amounts to try, the largest first."""
        step = step_of(resource)
        pools = {zone.get(resource, 0) for kind in self._kinds for zone in kind.zones}
        pools |= {kind.allocatable.get(resource, 0) for kind in self._kinds}
        for node in self._engine.cluster.nodes():
            zones = node.numa.available if node.numa is not None else ()
            pools |= {zone.get(resource, 0) for zone in zones}
        rest = PodInfo(self._pod).requests.get(resource, 0) - wanted
        sizes = {
            (pool - rest * beside) // count // step * step
            for pool in pools
            for count in range(1, _MOST_PODS + 1)
            for beside in (0, count)
        }
        least = -(-wanted // _LEAST)
        return sorted((size for size in sizes if least <= size < wanted), reverse=True)[
            :_MOST_TRIED
        ]

    def _notes(self) -> Iterator[str]:
        if self._held is not None:
            yield f"it is not even tried: {self._held.message}"
        elif not self._kinds:
            yield "no node that could take it has exact data: idle nodes are not counted"
        if self._held is None and self._pod.spec.resource_claims:
            yield "for its claims, each node is counted once now, and idle nodes as if they had all"


def _without_claims(pod: Pod) -> Pod:
    """Return *pod* as one that is yet to be created: its templates are still to be used."""
    if pod.status is None or not pod.status.resource_claim_statuses:
        return pod
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=())
    return msgspec.structs.replace(pod, status=status)


def _fitting(judgement: Judgement) -> int:
    return len(judgement.fitting) + judgement.unchecked


def _usable(judgement: Judgement) -> Iterable[str]:
    """Return the nodes that would take the pod if they had room."""
    yield from judgement.fitting
    for group in judgement.refusals:
        if group.status.plugin in _ROOM:
            yield from group.nodes
