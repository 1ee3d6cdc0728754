"""One plan for all members of a gang: every member that it needs gets a place, or none does.

Members are placed one after the other, the largest first, each counting on the room that those
before it leave. If one does not fit because another took its only place, those that were left over
go first in another try. A gang that asks for one topology domain is tried in each, those with the
least room that may be enough first, so that racks stay whole for larger gangs; once members run,
theirs is the only one, or the first one if the domain is only preferred. A gang that prefers a
domain and fits in none is tried in those of the next coarser level. If members fit only after
evictions, victims are chosen for all of them.

A plan that gives the gang less than it needs leaves nothing behind. It depends on the state of the
cluster alone, neither on chance nor on the order in which members came: a program that asks whether
a gang would fit gets the answer that the scheduler acts on.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from numakube.scheduling.cycle import Attempt, Chosen, Cycle, Failed, FirstOfEquals, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.gang_scheduling import (
    GANG_DOMAIN,
    GangScheduling,
    GangSchedulingArgs,
    domain_of,
    domains_of,
)
from numakube.scheduling.recorder.decision_notes import with_best_scores
from numakube.scheduling.snapshot.pod_equivalence import replica_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.plugins.gang_scheduling import Domain, Members
    from numakube.scheduling.plugins.pod_gangs import Gang
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo

_OTHER_ORDERS: Final = 2
"""How often members that are not alike are tried in another order."""
_MOST_COSTLY: Final = 8
"""Members that may take all the time of an attempt, a second each: a lease is lost after ten."""
TOO_FEW_TRIED: Final = "needed pods can be tried"
"""In the answer to members of a gang that was not tried, because the others are held back."""
_NEVER: Final = "Never"
_NOT_YET: Final = "~"
"""After any time, for pods that do not exist."""


class Books(Protocol):
    """Where places are taken and given back."""

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Count *pod* on the node that was chosen, unless a plugin refuses to."""
        ...

    def give_back(self, pod: PodInfo, chosen: Chosen) -> None:
        """Count *pod*, which was reserved for, on no node."""
        ...


@dataclass(frozen=True, slots=True)
class GangRequest:
    """What is to be planned.

    Attributes:
        gang: what the members need.
        pods: those without a node.
        needed: how many of them have to fit.
        running_on: the nodes of members that have one.
    """

    gang: Gang
    pods: Sequence[PodInfo]
    needed: int
    running_on: Sequence[str] = ()

    @classmethod
    def of(
        cls, gang: Gang, members: Members, pods: Sequence[PodInfo], cluster: Cluster
    ) -> GangRequest:
        """Return the request for *pods* beside the *members* that run, or are on their way."""
        under_way = [node for uid in members.waiting if (node := cluster.node_of(uid))]
        needed = max(gang.min_count - members.running - len(under_way), 1)
        return cls(gang, pods, needed, [*members.nodes, *under_way])

    @property
    def may_evict(self) -> bool:
        """Whether others may have to go; any member can rule it out, as in kube-scheduler 1.37."""
        policies = {pod.pod.spec.preemption_policy for pod in self.pods}
        return _NEVER not in {self.gang.preemption_policy, *policies}

    @property
    def problem(self) -> str:
        """Why nothing can be tried, if so; kube-scheduler 1.37 refuses other priorities too."""
        priority = self.gang.priority
        for pod in self.pods:
            if priority is not None and pod.priority != priority:
                own = f"{pod.name} has priority {pod.priority}"
                return f"{own}, but its pod group has {priority}: they have to be the same"
        if len(self.pods) < self.needed:
            return f"{len(self.pods)} of {self.needed} {TOO_FEW_TRIED}"
        return ""


@dataclass(slots=True)
class GangPlan:
    """Where the members of a gang would go.

    Attributes:
        placements: members that are reserved for.
        nominations: members that fit once others are evicted.
        refused: members that fit nowhere, the first one first.
        refused_by: plugins that refused a member in this try or in one before it.
        domain: the topology domain in which they were tried, if it was one.
        room_before: the node on which room was kept before for each that is nominated.
        costly: how many members took all the time that a pod may take.
    """

    placements: list[tuple[PodInfo, Chosen]] = field(default_factory=list)
    nominations: list[tuple[PodInfo, Nomination]] = field(default_factory=list)
    refused: list[tuple[PodInfo, Refused | Failed]] = field(default_factory=list)
    refused_by: frozenset[str] = frozenset()
    domain: Domain | None = None
    room_before: dict[str, str | None] = field(default_factory=dict)
    costly: int = 0

    @property
    def fitting(self) -> int:
        """How many members have a place."""
        return len(self.placements) + len(self.nominations)

    @property
    def is_costly(self) -> bool:
        """Whether no more members were tried, because of the time that they took."""
        last = self.refused[-1][1] if self.refused else None
        return isinstance(last, Refused) and last.diagnosis.is_costly

    def why_not(self, request: GangRequest) -> str:
        """Say what keeps the gang from fitting."""
        told = request.problem
        if not told:
            told = f"{self.fitting} of {request.needed} needed pods fit"
            for pod, decision in self.refused[:1]:
                told += f"; {pod.name}: {decision.why}"
        return f"gang {request.gang.name}: {told}"


@dataclass(frozen=True, slots=True)
class _GangTrial:
    """Under which conditions members are placed."""

    domain: Domain | None
    evicting: bool


class GangPlanner:
    """Plans gangs with the cycles of a scheduler."""

    def __init__(self, engine: Engine, books: Books) -> None:
        self._engine = engine
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
        self._books = books

    def plan(self, request: GangRequest, *, may_evict: bool = True) -> GangPlan:
        """Return the first plan that places as many as needed, or else what came closest to it.

        Places without evictions go first, and domains before the whole cluster. Only a plan that
        is enough has its members reserved for. Others have to go only if it *may_evict* them.
        """
        best = GangPlan()
        if request.problem:
            return best
        refused_by: set[str] = set()
        pods, needed = _largest_first(request.pods), request.needed
        for evicting in (False, True) if may_evict and request.may_evict else (False,):
            domains = self._domains(request, pods[0])
            for domain in domains:
                plan = self._try_orders(pods, needed, _GangTrial(domain, evicting))
                refused_by |= plan.refused_by
                if plan.fitting >= needed:
                    others = () if request.gang.required_topology else domains
                    return self._place_beyond(plan, others)
                best = plan if plan.fitting >= best.fitting or plan.is_costly else best
                if plan.is_costly:
                    break
            evictable = (isinstance(one, Refused) and one.nomination for _, one in best.refused)
            if best.is_costly or not any(evictable):
                break
        best.refused_by = frozenset(refused_by)
        return best

    def undo(self, plan: GangPlan) -> None:
        """Give back everything that *plan* has taken."""
        for pod, chosen in reversed(plan.placements):
            self._books.give_back(pod, chosen)
        nominations = self._engine.nominations
        for pod, _ in plan.nominations:
            before = plan.room_before[pod.uid]
            if before is None:
                nominations.drop(pod.uid)
            else:
                nominations.nominate(pod, before)

    def _domains(self, request: GangRequest, largest: PodInfo) -> Iterator[Domain | None]:
        gang, args = request.gang, gang_arguments(self._engine)
        level = gang.required_topology or gang.preferred_topology
        labels = args.labels_of(level) if level else ()
        while labels:
            yield from self._domains_at(labels, request, largest)
            if gang.required_topology:
                return
            labels = labels[:-1]
        yield None

    def _domains_at(
        self, labels: tuple[str, ...], request: GangRequest, largest: PodInfo
    ) -> list[Domain]:
        """Return the domains of one level in the order in which they are tried."""
        cluster = self._engine.cluster
        rows = domains_of(cluster.snapshot(), labels)
        own = Counter(domains_of_nodes(cluster, labels, request.running_on))
        room = self._room(rows, largest)

        def order(one: Domain) -> tuple[int, bool, int, int, tuple[str, ...]]:
            return -own[one], room[one] < request.needed, room[one], len(rows[one]), one.values

        stays = own and request.gang.required_topology
        return sorted((row for row in rows if own[row] or not stays), key=order)

    def _room(self, domains: Mapping[Domain, Rows], pod: PodInfo) -> dict[Domain, int]:
        """Return how many pods like *pod* each domain may take, by the amounts of its nodes."""
        snapshot = self._engine.cluster.snapshot()
        runtime = self._engine.runtime_for(pod.scheduler_name)
        attempt = Attempt(runtime, pod, snapshot, self._engine.nominations)
        feasible = set(attempt.feasible_rows().tolist())
        return {
            domain: sum(
                _how_many(pod, snapshot.at(row)) for row in rows.tolist() if row in feasible
            )
            for domain, rows in domains.items()
        }

    def _try_orders(self, pods: Sequence[PodInfo], needed: int, trial: _GangTrial) -> GangPlan:
        plan = self._try(pods, needed, trial)
        for _ in range(_OTHER_ORDERS):
            if plan.fitting >= needed:
                return plan
            self.undo(plan)
            left = {pod.uid for pod, _ in plan.refused}
            again = sorted(pods, key=lambda pod: pod.uid not in left)
            if plan.is_costly or again == list(pods) or len(set(map(replica_key, pods))) == 1:
                return plan
            pods, before = again, plan
            plan = self._try(pods, needed, trial)
            plan.refused_by |= before.refused_by
        if plan.fitting < needed:
            self.undo(plan)
        return plan

    def _place_beyond(self, plan: GangPlan, domains: Iterable[Domain | None]) -> GangPlan:
        """Place members that the gang can do without in other domains, if one is preferred only."""
        with self._undone_if_it_breaks(plan):
            for domain in domains:
                if plan.is_costly:
                    break
                left, plan.refused = plan.refused, []
                self._place_all(plan, [pod for pod, _ in left], _GangTrial(domain, evicting=False))
        return plan

    @contextmanager
    def _undone_if_it_breaks(self, plan: GangPlan) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.undo(plan)
            raise

    def _try(self, pods: Sequence[PodInfo], needed: int, trial: _GangTrial) -> GangPlan:
        plan = GangPlan(domain=trial.domain)
        with self._undone_if_it_breaks(plan):
            self._place_all(plan, pods, trial, needed)
        plan.refused_by |= frozenset(
            name
            for _, why in plan.refused
            if isinstance(why, Refused)
            for name in why.diagnosis.plugins()
        )
        return plan

    def _place_all(
        self, plan: GangPlan, pods: Sequence[PodInfo], trial: _GangTrial, needed: int = 0
    ) -> None:
        """Place *pods*, as long as enough of them may fit.

        Nobody else is served meanwhile: after one that took all its time in vain, or some that did
        not, the others are not tried.
        """
        for left, pod in zip(range(len(pods) - 1, -1, -1), pods, strict=True):
            decision = self._place(plan, pod, trial)
            told = None if isinstance(decision, Failed) else decision.diagnosis
            if told is not None and told.is_costly:
                plan.costly += 1
                if plan.is_costly or plan.costly >= _MOST_COSTLY:
                    plan.refused += [(one, Refused(told)) for one in pods[len(pods) - left :]]
                    break
            if plan.fitting + left < needed:
                break

    def _place(self, plan: GangPlan, pod: PodInfo, trial: _GangTrial) -> Chosen | Refused | Failed:
        state = None
        if trial.domain is not None:
            state = CycleState()
            state.write(GANG_DOMAIN, trial.domain)
        runtime = self._engine.runtime_for(pod.scheduler_name)
        decision = self._cycle.decide(pod, runtime, state)
        if isinstance(decision, Chosen):
            status = self._books.reserve(pod, decision)
            if status.ok:
                # The scores of all nodes for a thousand members would take half a gigabyte.
                short = with_best_scores(decision, self._engine.cluster)
                plan.placements.append((pod, short))
            else:
                plan.refused.append((pod, Failed(status)))
        elif trial.evicting and isinstance(decision, Refused) and decision.nomination is not None:
            # Those that come next must not count on the same room.
            nominations = self._engine.nominations
            plan.room_before[pod.uid] = nominations.node_of(pod.uid)
            nominations.nominate(pod, decision.nomination.node)
            plan.nominations.append((pod, decision.nomination))
            plan.refused_by |= decision.diagnosis.plugins()
        else:
            plan.refused.append((pod, decision))
        return decision


def gang_arguments(engine: Engine) -> GangSchedulingArgs:
    """Return what the profiles of *engine* say about gangs; the first that has the plugin does."""
    for runtime in engine.runtimes.values():
        plugin = runtime.profile.plugins().get(GangScheduling.name)
        if isinstance(plugin, GangScheduling):
            return plugin.args
    return GangSchedulingArgs(incomplete_seconds=0)


def domains_of_nodes(
    cluster: Cluster, labels: tuple[str, ...], names: Iterable[str]
) -> Iterator[Domain]:
    """Yield the domain at the level of the last of *labels* of each node that is in one."""
    for node in filter(None, map(cluster.node, names)):
        domain = domain_of(node.node, labels)
        if domain is not None:
            yield domain


def _how_many(pod: PodInfo, node: NodeInfo) -> int:
    """Return how many pods like *pod* the amounts of *node*, which takes one, are enough for."""
    counts = (
        (node.allocatable.get(name, 0) - node.requested.get(name, 0)) // amount
        for name, amount in pod.requests.items()
        if amount > 0
    )
    return max(1, min(counts, default=1))


def _largest_first(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return *pods* in an order that is theirs: by size, devices before CPUs; of equals by age."""
    names = sorted({name for pod in pods for name in pod.requests}, key=_by_scarcity)

    def size(pod: PodInfo) -> tuple[list[int], PodKey, str]:
        amounts = [-pod.requests.get(name, 0) for name in names]
        return amounts, replica_key(pod), pod.pod.metadata.creation_timestamp or _NOT_YET

    return sorted(pods, key=size)


def _by_scarcity(name: str) -> tuple[bool, str]:
    return "/" not in name, name
