"""From facts and a pod to an explanation."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.resource_claims import EXTENDED_RESOURCE_CLAIM
from numakube.dra.pod_claims import used_claims, without_user
from numakube.insight.explain.changes.alignable_requests import alignable, unaligned
from numakube.insight.explain.changes.lifted_rules import next_obstacle, ungated
from numakube.insight.explain.changes.suggested_changes import suggested
from numakube.insight.explain.claim_details import PLUGIN, claims_of, free_places
from numakube.insight.explain.explained_pod import exchanged, with_planned_claims
from numakube.insight.explain.explanation_document import Explanation, NodeVerdict, ReasonGroup
from numakube.insight.explain.explanation_summary import gang_note, meaning_of, notes_of, summary_of
from numakube.insight.explain.node_details import candidate
from numakube.insight.explain.node_verdicts import judge, numa_engine
from numakube.insight.explain.plugin_explainer import asks_plugin
from numakube.insight.explain.running_pod import placement_of, with_better
from numakube.insight.explain.what_if import Bench
from numakube.insight.known_schedulers import unserved
from numakube.insight.unknown_zones import why_unknown, zones_known
from numakube.insight.waiting_gangs import untried_gang_of
from numakube.scheduling.matching import taint_text, untolerated
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import (
    ANNOTATION,
    HELD_FAR,
    NOT_NEAR,
    NOT_TOGETHER,
    REQUIRED,
)
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.explain.explained_pod import Subject
    from numakube.insight.explain.explanation_document import (
        Candidate,
        Change,
        ClaimAsk,
        PodPlacement,
        PodSummary,
    )
    from numakube.insight.explain.node_verdicts import Judgement, Refusals
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine

CANDIDATES: Final = 3
_MOST_COMPARED: Final = 64
_MOST_NAMED: Final = 16
"""Nodes that are tried for a pod that could be placed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """How much is to be said.

    Attributes:
        node: the one node to look at in detail; empty for the best candidates.
        changes: whether to look for changes, which takes the most time.
    """

    node: str = ""
    candidates: int = CANDIDATES
    changes: bool = True


def explain(
    facts: ClusterFacts, engine: Engine, subject: Subject, options: ExplainOptions | None = None
) -> Explanation:
    """Return why the pod is where it is, or nowhere, and what would help."""
    return _Work(facts, engine, subject, options or ExplainOptions()).explanation()


def placement_now(facts: ClusterFacts, engine: Engine, subject: Subject) -> PodPlacement | None:
    """Return where a pod is that has its node, with the nodes that would align it better now."""
    return _Work(facts, engine, subject, ExplainOptions(changes=False)).placement()


def nodes_again(facts: ClusterFacts, engine: Engine, subject: Subject) -> tuple[str, ...]:
    """Return nodes that would take a pod that has its node, if it were placed again."""
    return _Work(facts, engine, subject, ExplainOptions(changes=False)).fitting()


class _Work:
    """The work on one explanation."""

    def __init__(
        self, facts: ClusterFacts, engine: Engine, subject: Subject, options: ExplainOptions
    ) -> None:
        self.facts = facts
        self.engine = engine
        self.subject = subject
        self.options = options
        templates = facts.claim_templates if subject.planned else {}
        self.pod, self._made = with_planned_claims(subject.unbound(), templates)
        self.info = PodInfo(self.pod)
        self.runtime = engine.runtime_for(self.info.scheduler_name)
        self.bench = Bench(engine, self.runtime, self.pod)

    def explanation(self) -> Explanation:
        if self.subject.state in ("running", "bound"):
            return self._of_placed()
        with exchanged(self.engine.cluster, {}, self._made):
            judgement = judge(self.engine, self.runtime, self.info)
            candidates = self._candidates(judgement)
            self.bench.liked = tuple(one.node for one in candidates)
            changes = self._changes(judgement)
            return self._document(judgement, candidates, changes, None)

    def _of_placed(self) -> Explanation:
        """Explain a pod that has its node: where it is, and as if it were to be placed again."""
        name = self.subject.pod.spec.node_name
        node = self.engine.cluster.node(name)
        placement = None if node is None else placement_of(self.facts, node, self.subject.pod)
        with self._absent(name):
            judgement = judge(self.engine, self.runtime, self.info)
            if placement is not None:
                near = self._near() if self.pod.spec.resource_claims else judgement
                placement = with_better(placement, self._better(near, placement))
            candidates = self._candidates(judgement, prefer=name)
            changes = tuple(alignable(self.bench)) if self.options.changes else ()
            return self._document(judgement, candidates, changes, placement)

    def placement(self) -> PodPlacement | None:
        """Return where the pod is, and the nodes that would align it better now."""
        name = self.subject.pod.spec.node_name
        node = self.engine.cluster.node(name)
        if node is None:
            return None
        placement = placement_of(self.facts, node, self.subject.pod)
        with self._absent(name):
            return with_better(placement, self._better(self._near(), placement))

    def fitting(self) -> tuple[str, ...]:
        """Return nodes that would take the pod if it were placed again, the best first."""
        with self._absent(self.subject.pod.spec.node_name):
            return self._near().fitting

    def _near(self) -> Judgement:
        """Return what nodes say that have to keep devices of claims near the pod's CPUs."""
        pod = _with_claims_near(self.pod) if self.pod.spec.resource_claims else self.pod
        return judge(self.engine, self.runtime, PodInfo(pod), most=_MOST_NAMED)

    def _better(self, judgement: Judgement, placement: PodPlacement) -> tuple[str, ...]:
        """Return the nodes on which the pod would be in fewer zones than it is now."""
        engine = numa_engine(self.runtime)
        if engine is None or len(placement.zones) < 2:
            return ()
        found = []
        for name in judgement.fitting[:_MOST_COMPARED]:
            node = self.engine.cluster.node(name)
            parts = engine.explain_score(self.info, node) if node is not None else None
            if parts is not None and parts.alignment > 1 / len(placement.zones):
                found.append(name)
        return tuple(found)

    @contextmanager
    def _absent(self, name: str) -> Iterator[None]:
        """Have the pod off its node for a while, so that it can be tried again."""
        cluster, uid = self.engine.cluster, self.subject.pod.metadata.uid
        claims = cluster.objects.resource_claims
        space = self.subject.pod.metadata.namespace
        held = {
            key: claims[key]
            for name in used_claims(self.subject.pod)
            if (key := f"{space}/{name}") in claims
        }
        # The claim for extended resources is made again; the others stay with the pod.
        left = {
            key: without_user(one, uid)
            for key, one in held.items()
            if EXTENDED_RESOURCE_CLAIM not in one.metadata.annotations
        }
        node = cluster.node(name)
        belief = node.numa if node is not None else None
        before = cluster.remove_pod(uid)
        if belief is not None:
            cluster.suppose(name, belief.without([uid]))
        try:
            with exchanged(cluster, held, left):
                yield
        finally:
            if before is not None:
                cluster.place(before, name)
            if belief is not None:
                cluster.suppose(name, belief)

    def _document(
        self,
        judgement: Judgement,
        candidates: tuple[Candidate, ...],
        changes: tuple[Change, ...],
        placement: PodPlacement | None,
    ) -> Explanation:
        pod = replace(
            self.subject.summary(self.engine.runtimes),
            unserved=unserved(self.facts, self.subject.pod),
            untried=self._untried(),
        )
        unknown = why_unknown(self.facts, self.pod, judgement.fitting)
        summary = summary_of(pod, judgement, placement, gates=self.subject.gates, unknown=unknown)
        return Explanation(
            taken_at=self.facts.taken_at,
            pod=pod,
            verdict=self._verdict(pod, judgement, unknown),
            summary=summary,
            nodes=judgement.total,
            zones_known=zones_known(self.facts, self.facts.nodes),
            chosen=judgement.fitting[0] if judgement.fitting else "",
            fitting=judgement.fitting,
            unchecked=judgement.unchecked,
            groups=tuple(chain.from_iterable(map(self._groups, judgement.refusals))),
            verdicts=tuple(_verdicts(judgement)),
            placement=placement,
            candidates=candidates,
            claims=self._claims(judgement),
            changes=changes,
            notes=(
                *gang_note(self.subject.pod),
                *notes_of(self.facts, pod, summary, self.engine.runtimes, self._unaligned()),
            ),
        )

    def _verdict(self, pod: PodSummary, judgement: Judgement, unknown: str) -> str:
        if judgement.held or self.subject.gates or pod.unserved:
            return "held"
        if not judgement.fits:
            return "refused"
        return "unknown" if unknown else "fits"

    def _untried(self) -> str:
        """Return that nobody tries the pod's gang, if that is so."""
        untried = untried_gang_of(self.facts, PodInfo(self.subject.pod))
        return "" if untried is None else untried.words

    def _groups(self, refusals: Refusals) -> Iterator[ReasonGroup]:
        status = refusals.status
        by_detail: dict[str, list[str]] = {}
        for name in refusals.nodes:
            by_detail.setdefault(self._detail(refusals, name), []).append(name)
        for detail, nodes in sorted(by_detail.items(), key=lambda item: -len(item[1])):
            yield ReasonGroup(
                plugin=status.plugin,
                reason=f"{status.message}: {detail}" if detail else status.message,
                meaning=self._meaning(refusals, nodes[0]),
                eviction_helps=refusals.eviction_helps,
                then=next_obstacle(self.bench, status.plugin, nodes[0]),
                nodes=tuple(nodes),
            )

    def _meaning(self, refusals: Refusals, name: str) -> str:
        node = self.engine.cluster.node(name)
        message = refusals.status.message
        if node is not None and message.startswith((NOT_NEAR, NOT_TOGETHER)):
            return f"{name} has {free_places(self.bench, node)}."
        if refusals.status.plugin == PLUGIN and HELD_FAR in message:
            return "The claim keeps its devices; the kubelet does not know where they are."
        offered = {one for node in self.engine.cluster.nodes() for one in node.allocatable}
        return meaning_of(refusals.status, refusals.refusal, self.bench.unoffered, offered)

    def _detail(self, refusals: Refusals, name: str) -> str:
        """Return what the scheduler's words leave out: which taint."""
        node = self.engine.cluster.node(name)
        if refusals.status.plugin != "TaintToleration" or node is None:
            return ""
        return ", ".join(taint_text(taint) for taint in untolerated(self.pod, node.node))

    def _claims(self, judgement: Judgement) -> tuple[ClaimAsk, ...]:
        refusing = {refusal.status.plugin for refusal in judgement.refusals}
        return claims_of(self.bench) if PLUGIN in refusing and not judgement.fits else ()

    @property
    def _is_special(self) -> bool:
        """Whether the pod asks the scheduler, rather than a kubelet, to align it."""
        return asks_plugin(self.runtime, self.info)

    def _unaligned(self) -> tuple[str, ...]:
        return () if self._is_special else unaligned(self.pod)

    def _candidates(self, judgement: Judgement, *, prefer: str = "") -> tuple[Candidate, ...]:
        focus = self.options.node or self._named
        if focus:
            names = [focus] if focus in self.engine.cluster.row_of else []
        else:
            names = self._best(judgement, prefer)
        found = []
        for name in names:
            node = self.engine.cluster.node(name)
            if node is not None:
                refusal = judgement.held or judgement.refusal_of(name)
                found.append(candidate(self.bench, self.facts, self.info, node, refusal))
        return tuple(found)

    @property
    def _named(self) -> str:
        """The node that a pod which is yet to be created names itself."""
        return self.subject.pod.spec.node_name if self.subject.planned else ""

    def _best(self, judgement: Judgement, prefer: str) -> list[str]:
        """Return the nodes to look at: those that fit best, or came closest to it."""
        if judgement.held:
            return []
        rejected = self.subject.pod.spec.node_name if self.subject.state == "rejected" else ""
        wanted = [name for name in (prefer, rejected) if name in self.engine.cluster.row_of]
        near = sorted(judgement.refusals, key=self._remoteness)
        closest = [one.nodes[0] for one in near if one.nodes]
        first = [*wanted, *judgement.fitting[:1], *closest]
        limit = 1 if judgement.fits and not wanted else self.options.candidates
        return list(dict.fromkeys(first))[:limit]

    def _remoteness(self, refusals: Refusals) -> tuple[bool, int]:
        """Sort key: where eviction helps first, then those refused late in the cycle."""
        order = list(self.runtime.profile.plugins())
        plugin = refusals.status.plugin
        stage = order.index(plugin) if plugin in order else -1
        return not refusals.eviction_helps, -stage

    def _changes(self, judgement: Judgement) -> tuple[Change, ...]:
        if not self.options.changes:
            return ()
        if judgement.held:
            return ()
        if judgement.fits and not zones_known(self.facts, judgement.fitting):
            return ()
        if judgement.fits and self.subject.gates:
            return (ungated(self.subject.gates, judgement.fitting[0]),)
        if judgement.fits:
            return () if self._is_special else tuple(alignable(self.bench))
        return suggested(self.bench, judgement, self.facts)


def _with_claims_near(pod: Pod) -> Pod:
    """Return *pod* as one that insists on devices of claims near its CPUs."""
    annotations = {**pod.metadata.annotations, ANNOTATION: REQUIRED}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def _verdicts(judgement: Judgement) -> Iterator[NodeVerdict]:
    for name in judgement.fitting:
        yield NodeVerdict(node=name, fits=True, score=judgement.scores.get(name, 0))
    for group in judgement.refusals:
        status = group.status
        for name in group.nodes:
            reason = group.own.get(name, status.message)
            yield NodeVerdict(node=name, plugin=status.plugin, reason=reason)
