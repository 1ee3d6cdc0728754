"""Which other requests give a pod more places, each tried on the scheduler and the kubelet model.

Where a kubelet gives out whole cores, slightly more may fit where what is asked for does not.

Sizes that are worth trying are those at which one pod more fits into a zone: what a zone has after
reservations, or has free now, divided by one, two, three and so on.

    advice_on(facts, make, pod, name="deployment/web")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.insight.advice.advice_document import Advice, RequestAdvice
from numakube.insight.advice.idle_nodes import idle_kinds
from numakube.insight.advice.reservation_advice import cheaper_reservations
from numakube.insight.explain.container_amounts import (
    all_containers,
    asked_by,
    step_of,
    text_of,
    texts_of,
    whole_cores_above,
    with_amounts,
)
from numakube.insight.explain.explained_pod import with_planned_claims
from numakube.insight.explain.node_verdicts import judge
from numakube.insight.how_many_fit import room_for
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.display import amount_text, counted
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine

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
            one for kind in self._kinds for one in cheaper_reservations(kind, self._pod)
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
        return sorted((one for one in sizes if least <= one < wanted), reverse=True)[:_MOST_TRIED]

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
    return replace(pod, status=replace(pod.status, resource_claim_statuses=()))


def _fitting(judgement: Judgement) -> int:
    return len(judgement.fitting) + judgement.unchecked


def _usable(judgement: Judgement) -> Iterable[str]:
    """Return the nodes that would take the pod if they had room."""
    yield from judgement.fitting
    for group in judgement.refusals:
        if group.status.plugin in _ROOM:
            yield from group.nodes
