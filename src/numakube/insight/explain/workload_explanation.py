"""Why the pods of a workload run or wait, told of all at once, and which pods those are.

    explanation = explain_workload(facts, engine_of, workload)
    print(render_workload(explanation))

The scheduler's own cycle places the pods one after the other (`numakube.insight.how_many_fit`); the
first that fits nowhere is then explained as any pod is, beside those that were placed before. A
gang is placed by the scheduler's own plan, in one topology domain if it asks for that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import OwnerReference
from numakube.api.pod import has_ended
from numakube.insight.explain.explained_pod import Subject, manifest_subject, pod_subject
from numakube.insight.explain.explanation_document import (
    Change,
    GangDomain,
    WorkloadExplanation,
    WorkloadSummary,
)
from numakube.insight.explain.explanation_summary import gang_note
from numakube.insight.explain.explanation_text import (
    EMPTY,
    Line,
    LineRole,
    change_lines,
    joined,
    lines_of,
)
from numakube.insight.explain.pod_explanation import ExplainOptions, explain
from numakube.insight.how_many_fit import MOST, EngineBooks, Placed, copies, place, room_for
from numakube.insight.node_groups import with_nodes_like
from numakube.insight.planned_pods import step_of, text_of, with_amounts
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.unknown_zones import why_unknown
from numakube.insight.waiting_gangs import untried_gang_of
from numakube.scheduling.gang_placements import DomainRoom, GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import CPU, amount_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine


_MOST_NODES: Final = 64
"""Hypothetical nodes."""
_NAMES: Final = 5
_MOST_TRIED: Final = 64
_SIZES: Final = ("fewer-cpus", "less-memory", "fewer-hugepages", "fewer-devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWorkload:
    """Pods that belong together.

    Attributes:
        kind: of the object that makes them, such as ``Deployment``.
        placed: how many have a node.
        waiting: those that have none, and exist.
        sample: what those are like that do not exist yet; ``missing`` is their number.
        planned: whether the workload itself does not exist yet.
        gang: what they need to run together, if they are a gang.
        running_on: the nodes of those that have one, if they are a gang.
        apart: whether enough pods have places one by one, and the gang as a whole has none.
        short: what the gang lacks, if the scheduler's plan has words for it.
        rooms: the domains from which it chooses.
    """

    kind: str
    namespace: str
    name: str
    sample: Pod
    placed: int = 0
    waiting: tuple[Pod, ...] = ()
    missing: int = 0
    planned: bool = False
    gang: Gang | None = None
    running_on: tuple[str, ...] = ()
    apart: bool = False
    short: str = ""
    rooms: tuple[DomainRoom, ...] = ()

    def pods(self) -> Iterator[Pod]:
        """Yield the pods that need a node, those that exist first."""
        yield from (Subject(one).unbound() for one in self.waiting)
        yield from copies(Subject(self.sample).unbound(), self.missing, of="missing")

    def subject_of(self, pod: Pod) -> Subject:
        """Return one of `pods` as the subject to explain."""
        known = (Subject(other) for other in self.waiting if other.metadata.uid == pod.metadata.uid)
        return next(known, Subject(pod, planned=True))


def explain_workload(
    facts: ClusterFacts,
    make: Callable[[ClusterFacts], Engine],
    workload: ExplainedWorkload,
    options: ExplainOptions | None = None,
) -> WorkloadExplanation:
    """Return how many of the pods fit, and why the first of the others does not."""
    chosen = options or ExplainOptions()
    engine = make(facts)
    placed, workload = _placed(engine, workload)
    refused = placed.first_refused
    first = None
    if refused is not None:
        first = explain(facts, engine, workload.subject_of(refused.pod), chosen)
        if workload.gang is not None:
            others = tuple(note for note in first.notes if note not in gang_note(refused.pod))
            first = msgspec.structs.replace(first, notes=others)
    changes: tuple[Change, ...] = ()
    if first is not None and chosen.changes:
        changes = tuple(_Trials(facts, make, workload).found(first))
    needed = len(workload.waiting) + workload.missing
    unknown = why_unknown(facts, workload.sample, dict.fromkeys(placed.nodes))
    return WorkloadExplanation(
        taken_at=facts.taken_at,
        workload=WorkloadSummary(
            kind=workload.kind,
            namespace=workload.namespace,
            name=workload.name,
            replicas=workload.placed + needed,
            placed=workload.placed,
            planned=workload.planned,
        ),
        verdict="refused" if workload.apart else _verdict(first, unknown),
        summary=_summary(facts, workload, placed, unknown),
        fit=0 if workload.apart else len(placed.nodes),
        nodes={} if workload.apart else dict(Counter(placed.nodes).most_common()),
        domains=tuple(map(_domain, workload.rooms)),
        changes=changes,
        first_refused=first,
    )


def _domain(room: DomainRoom) -> GangDomain:
    return GangDomain(
        level=room.level,
        name=room.name,
        depth=room.depth,
        nodes=room.nodes,
        takes=room.takes,
        why=room.why,
    )


def _verdict(first: Explanation | None, unknown: str) -> str:
    if first is None:
        return "unknown" if unknown else "fits"
    return "held" if first.verdict == "held" else "refused"


def _placed(engine: Engine, workload: ExplainedWorkload) -> tuple[Placed, ExplainedWorkload]:
    """Place the pods, a gang by the scheduler's own plan; return them as they were tried.

    The pods of a gang that has to be in one domain select the nodes of the one that it gets, or
    that came closest.
    """
    gang = workload.gang
    pods = [PodInfo(one) for one in islice(workload.pods(), MOST)]
    if gang is None or not all(_may_be_tried(engine, one) for one in pods):
        return place(engine, (one.pod for one in pods)), workload
    needed = max(gang.min_count - workload.placed, 1)
    planner = GangPlanner(engine, EngineBooks(engine))
    plan = planner.plan(GangRequest(gang, pods, needed, workload.running_on), may_evict=False)
    fits = plan.fitting >= needed
    inside = plan.domain.selector if plan.domain is not None else {}
    if gang.required_topology or not fits:
        workload = _selecting_all(workload, inside)
    workload = replace(workload, short="" if fits else plan.short, rooms=tuple(plan.rooms))
    if not fits:
        placed = place(engine, islice(workload.pods(), MOST))
        return placed, replace(workload, apart=len(placed.nodes) >= needed)
    nodes = tuple(chosen.node for _, chosen in plan.placements)
    refused, why = plan.refused[0] if plan.refused else (None, None)
    return Placed(nodes, refused, why), workload


def _may_be_tried(engine: Engine, pod: PodInfo) -> bool:
    return engine.runtime_for(pod.scheduler_name).pre_enqueue(pod).ok


def _selecting_all(workload: ExplainedWorkload, labels: Mapping[str, str]) -> ExplainedWorkload:
    return replace(
        workload,
        sample=_selecting(workload.sample, labels),
        waiting=tuple(_selecting(one, labels) for one in workload.waiting),
    )


def _selecting(pod: Pod, labels: Mapping[str, str]) -> Pod:
    selector = {**pod.spec.node_selector, **labels}
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, node_selector=selector)
    )


def _summary(facts: ClusterFacts, workload: ExplainedWorkload, placed: Placed, unknown: str) -> str:
    gang, needed = workload.gang, len(workload.waiting) + workload.missing
    short = f": {workload.short}" if workload.short else ""
    if workload.apart:
        # Nodes of which too little is known were judged kindly: that it is refused is certain.
        alone = f"{len(placed.nodes)} of {needed} would have a place: {_where(placed.nodes)}"
        return f"One by one {alone}. As a gang they do not fit, so none is bound{short}."
    text = _how_many(workload, placed, needed)
    if unknown:
        alone = f"{text[0].lower()}{text[1:]}"
        return f"Whether they fit is not known: {unknown}. By amounts of whole nodes alone, {alone}"
    if gang is None or not needed:
        return text
    fitting = workload.placed + len(placed.nodes)
    untried = untried_gang_of(facts, PodInfo(workload.sample))
    if fitting >= gang.min_count and untried is not None:
        return f"{text} But {untried.words} (kubectl numa doctor)."
    if fitting >= gang.min_count:
        return f"{text} The gang needs {gang.min_count}, so those that fit are bound."
    return f"{text} The gang needs {gang.min_count} at a time, so none is bound{short}."


def _how_many(workload: ExplainedWorkload, placed: Placed, needed: int) -> str:
    count = len(placed.nodes)
    have = f"{workload.placed} of {workload.placed + needed} have a node. "
    before = have if workload.placed else ""
    if not needed:
        return f"All {workload.placed} have a node."
    others = "others" if workload.placed else "pods"
    if placed.first_refused is None:
        fit = f"All {needed} {others} fit" if needed > 1 else "The only one that waits fits"
        return f"{before}{fit}: {_where(placed.nodes)}."
    if not count:
        return f"{before}None of the {needed} {others} fits."
    verb = "fits" if count == 1 else "fit"
    return (
        f"{before}{count} of the {needed} {others} {verb}: {_where(placed.nodes)}."
        f" Number {workload.placed + count + 1} does not."
    )


def _where(nodes: tuple[str, ...]) -> str:
    counts = Counter(nodes).most_common()
    parts = [f"{count} on {name}" for name, count in counts[:_NAMES]]
    rest = sum(count for _, count in counts[_NAMES:])
    return ", ".join([*parts, *([f"{rest} on {len(counts) - _NAMES} more nodes"] if rest else ())])


class _Trials:
    """Tries changes for all pods that need a node at once."""

    def __init__(
        self,
        facts: ClusterFacts,
        make: Callable[[ClusterFacts], Engine],
        workload: ExplainedWorkload,
    ) -> None:
        self._facts = facts
        self._make = make
        self._pods = list(workload.pods())

    def found(self, first: Explanation) -> Iterator[Change]:
        """Yield which of the changes that help the *first* refused pod help all of them."""
        for change in first.changes:
            if change.kind == "add-node":
                yield from self._more_nodes(change.node)
            elif change.kind in _SIZES:
                yield from self._resized(change)

    def _more_nodes(self, like: str) -> Iterator[Change]:
        """Yield how many more nodes it takes."""

        def enough(count: int) -> bool:
            return self._all_fit(with_nodes_like(self._facts, like, count), self._pods)

        count = _least(min(_MOST_NODES, len(self._pods)), enough)
        if count is not None:
            nodes = "a node" if count == 1 else f"{count} nodes"
            text = f"Add {nodes} like {like}: all of them then fit."
            yield Change(kind="add-node", text=text, node=like, to=str(count))

    def _resized(self, change: Change) -> Iterator[Change]:
        """Yield the largest request that lets all of them fit."""
        resource, container = change.resource, change.container
        was, least = amount_of(resource, change.was), amount_of(resource, change.to)
        step = step_of(resource)
        few = resource == CPU and least < was <= least + _MOST_TRIED * step
        for amount in [*(range((was - 1) // step * step, least, -step) if few else ()), least]:
            pods = [with_amounts(one, container, {resource: amount}) for one in self._pods]
            if self._all_fit(self._facts, pods):
                now = text_of(resource, amount)
                what = "CPUs" if resource == CPU else resource
                text = f"Ask for {now} {what} instead of {change.was} in container {container}"
                if not amount:
                    text = f"Do without {what} in container {container}"
                yield msgspec.structs.replace(
                    change, text=f"{text}: all of them then fit.", node="", to=now
                )
                return

    def _all_fit(self, facts: ClusterFacts, pods: Iterable[Pod]) -> bool:
        return place(self._make(facts), pods).first_refused is None


def _least(most: int, enough: Callable[[int], bool]) -> int | None:
    """Return the least number from 1 to *most* that is enough."""
    if not enough(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def room_in(
    facts: ClusterFacts,
    pod: Pod,
    config: KubeSchedulerConfiguration | None = None,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Mapping[str, int]:
    """Return by node how many pods like *pod*, as a manifest has it, the scheduler would place."""
    subject = manifest_subject(pod, classes=facts.priority_classes)
    return room_for(engine_of(facts, config), subject.unbound(), may_go_on=may_go_on)


def render_workload(explanation: WorkloadExplanation, *, wide: bool = False) -> str:
    """Return the explanation for people; the pod that does not fit follows in full."""
    return joined(workload_lines(explanation, wide=wide))


def workload_lines(explanation: WorkloadExplanation, *, wide: bool = False) -> Iterator[Line]:
    """Yield the lines of `render_workload`."""
    one, first = explanation.workload, explanation.first_refused
    state = "planned, " if one.planned else ""
    pods = "1 pod" if one.replicas == 1 else f"{one.replicas} pods"
    yield Line(f"{one.kind} {one.namespace}/{one.name} ({state}{pods})", LineRole.TITLE)
    yield Line(explanation.summary)
    if explanation.domains:
        yield Line("Domains, and how many of these pods each takes:")
        yield from map(_domain_line, explanation.domains)
    if explanation.changes:
        heading = "What would help all of them (tried on the scheduler and the kubelet model):"
        yield from change_lines(heading, explanation.changes)
    if first is not None:
        beside = ", beside those that do" if explanation.fit else ""
        yield EMPTY
        yield Line(f"The first that does not fit{beside}:")
        yield from lines_of(first, wide=wide)


def _domain_line(domain: GangDomain) -> Line:
    nodes = "1 node" if domain.nodes == 1 else f"{domain.nodes} nodes"
    why = f"; {domain.why}" if domain.why else ""
    indent = "  " * (domain.depth + 1)
    return Line(f"{indent}{domain.level} {domain.name}: {domain.takes} ({nodes}{why})")


# Which pods make up a workload, of a cluster or of a manifest.


def workload_in(
    facts: ClusterFacts, kind: str, namespace: str, name: str
) -> ExplainedWorkload | None:
    """Return the workload called *name*; ``None`` if it has no pods."""
    owners = _owners(facts, kind, namespace, name)
    members = [
        pod
        for pod in facts.pods
        if pod.metadata.namespace == namespace and not has_ended(pod) and _owner(pod) in owners
    ]
    if not members:
        return None
    waiting = tuple(pod for pod in members if not pod.spec.node_name)
    missing = max(0, _wanted(facts, owners, namespace) - len(members))
    gang = _gang_of_all(facts, members)
    if gang is not None and not all(_owner(one) in owners for one in gang.waiting):
        return gang  # others run together with them
    if gang is not None:
        return replace(gang, kind=kind, name=name, missing=max(missing, gang.missing))
    return ExplainedWorkload(
        kind=kind,
        namespace=namespace,
        name=name,
        sample=_new(waiting[0] if waiting else members[0], name),
        placed=len(members) - len(waiting),
        waiting=waiting,
        missing=missing,
    )


def _gang_of_all(facts: ClusterFacts, members: Sequence[Pod]) -> ExplainedWorkload | None:
    """Return the gang that all *members* belong to: they are placed with it, not one by one."""
    keys = {gang_key(PodInfo(member)) for member in members}
    key = keys.pop()
    found = gang_in(facts, *key[1:]) if key is not None and not keys else None
    return found if found is not None and found.gang is not None else None


def gang_in(facts: ClusterFacts, namespace: str, name: str) -> ExplainedWorkload | None:
    """Return the pods of the gang called *name*, whatever API they name it by, if there are any."""
    members = [PodInfo(pod) for pod in facts.pods if pod.metadata.namespace == namespace]
    members = [member for member in members if (gang_key(member) or ("",))[1:] == (namespace, name)]
    there = [member for member in members if not member.has_ended and not member.is_being_deleted]
    if not members:
        return None
    found = gang_of((*there, *members)[0], facts.objects)
    gang = found if isinstance(found, Gang) else None
    waiting = tuple(one.pod for one in there if not one.node_name)
    done = [
        member for member in members if member.pod.status and member.pod.status.phase == "Succeeded"
    ]
    placed = len(there) - len(waiting) + len(done)
    return ExplainedWorkload(
        kind="PodGroup",
        namespace=namespace,
        name=name,
        sample=_new(waiting[0] if waiting else members[0].pod, name),
        placed=placed,
        waiting=waiting,
        missing=max(0, gang.min_count - placed - len(waiting)) if gang else 0,
        gang=gang,
        running_on=tuple(one.node_name for one in there if one.node_name),
    )


def explained(
    facts: ClusterFacts,
    config: KubeSchedulerConfiguration | None,
    pod: Pod,
    *,
    changes: bool = True,
) -> Explanation:
    """Return why *pod* is where it is, or nowhere; *changes* are what would help."""

    def make(known: ClusterFacts) -> Engine:
        return engine_of(known, config)

    subject = pod_subject(pod)
    found = explain(facts, make(facts), subject, ExplainOptions(changes=changes))
    return in_its_gang(found, facts, make, subject)


def in_its_gang(
    found: Explanation,
    facts: ClusterFacts,
    make: Callable[[ClusterFacts], Engine],
    subject: Subject,
) -> Explanation:
    """Return *found*, what there is to say of a pod alone, as it is for a pod of a gang.

    A pod that waits for the others of its gang fits only if so many of them fit as it needs.
    """
    key = gang_key(PodInfo(subject.pod))
    if found.verdict != "fits" or subject.state != "waiting" or key is None:
        return found
    workload = gang_in(facts, *key[1:])
    if workload is None or workload.gang is None or workload.placed >= workload.gang.min_count:
        return found
    told = explain_workload(facts, make, workload, ExplainOptions(changes=False))
    if told.verdict == "fits":
        return found
    _, namespace, name = key
    alone = found.summary.partition(". ")[0].removesuffix(".")
    summary = f"{alone}, but it waits for its gang {namespace}/{name}. {told.summary}"
    return msgspec.structs.replace(found, verdict=told.verdict, summary=summary)


def planned_workload(
    facts: ClusterFacts, pod: Pod, replicas: int, *, kind: str, name: str, namespace: str
) -> ExplainedWorkload:
    """Return a workload that does not exist yet; *pod* is what its manifest makes copies of."""
    subject = manifest_subject(pod, namespace=namespace, classes=facts.priority_classes)
    owner = OwnerReference(api_version="", kind=kind, name=name, uid=name, controller=True)
    metadata = msgspec.structs.replace(
        subject.pod.metadata, name=name, uid=f"planned:{name}", owner_references=(owner,)
    )
    gang = gang_of(PodInfo(subject.pod), facts.objects)
    return ExplainedWorkload(
        kind=kind,
        namespace=metadata.namespace,
        name=name,
        sample=msgspec.structs.replace(subject.pod, metadata=metadata),
        missing=replicas,
        planned=True,
        gang=gang if isinstance(gang, Gang) else None,
    )


def _owners(facts: ClusterFacts, kind: str, namespace: str, name: str) -> set[tuple[str, str]]:
    """Return kind and name of what makes the pods: a Deployment has replica sets for it."""
    if kind != "Deployment":
        return {(kind, name)}
    return {
        ("ReplicaSet", fact.metadata.name)
        for fact in facts.objects.replica_sets.values()
        if fact.metadata.namespace == namespace
        and fact.metadata.controller is not None
        and (fact.metadata.controller.kind, fact.metadata.controller.name) == (kind, name)
    }


def _owner(pod: Pod) -> tuple[str, str] | None:
    owner = pod.metadata.controller
    return None if owner is None else (owner.kind, owner.name)


def _wanted(facts: ClusterFacts, owners: set[tuple[str, str]], namespace: str) -> int:
    """Return how many pods there should be, as far as that is known."""
    objects, count = facts.objects, 0
    for kind, name in owners:
        known = objects.replica_sets if kind == "ReplicaSet" else objects.stateful_sets
        found = known.get(f"{namespace}/{name}") if kind in ("ReplicaSet", "StatefulSet") else None
        count += (found.spec.replicas or 0) if found is not None else 0
    return count


def _new(pod: Pod, name: str) -> Pod:
    """Return a pod like *pod* that does not exist yet, nor do the volumes it will claim."""
    fresh = Subject(pod).unbound()
    volumes = tuple(
        volume for volume in fresh.spec.volumes if volume.persistent_volume_claim is None
    )
    metadata = msgspec.structs.replace(fresh.metadata, name=f"{name}-new", uid=f"new:{name}")
    spec = msgspec.structs.replace(fresh.spec, volumes=volumes)
    return msgspec.structs.replace(fresh, metadata=metadata, spec=spec)
