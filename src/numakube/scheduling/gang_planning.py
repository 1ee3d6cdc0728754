"""One plan for all members of a gang: every member that it needs gets a place, or none does.

Members are placed one after the other, the largest first, each counting on the room that those
before it leave. If one does not fit because another took its only place, those that were left over
go first in another try. Where they are tried, and in which order, `gang_placements` proposes. If
members fit only after evictions, victims are chosen for all of them.

A plan that gives the gang less than it needs leaves nothing behind. It depends on the state of the
cluster alone, neither on chance nor on the order in which members came: a program that asks whether
a gang would fit gets the answer that the scheduler acts on.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from numakube.scheduling.cycle import Chosen, Cycle, Failed, FirstOfEquals, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.gang_placements import Part, search_for
from numakube.scheduling.plugins.gang_scheduling import GANG_NODES
from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.recorder.decision_notes import with_best_scores
from numakube.scheduling.snapshot.pod_equivalence import replica_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.gang_placements import (
        DomainRoom,
        GangRequest,
        Placement,
        PlacementFigures,
        PlacementSearch,
    )
    from numakube.scheduling.plugins.gang_scheduling import Domain, GangNodes
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo

EvictionCost: TypeAlias = tuple[int, int, int]
"""The highest priority among victims, how many gangs lose members, and how many pods go."""
_OTHER_ORDERS: Final = 2
"""How often members that are not alike are tried in another order."""
_MOST_WEIGHED: Final = 8
"""Placements of which the victims are compared."""
_MOST_COSTLY: Final = 8
"""Members that may take all the time of an attempt, a second each: a lease is lost after ten."""
_MOST_KINDS_ASKED: Final = 8
"""Kinds of members that are tried again after each other: nobody else is served meanwhile."""


class Books(Protocol):
    """Where places are taken and given back."""

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Count *pod* on the node that was chosen, unless a plugin refuses to."""
        ...

    def give_back(self, pod: PodInfo, chosen: Chosen) -> None:
        """Count *pod*, which was reserved for, on no node."""
        ...


@dataclass(slots=True)
class GangPlan:
    """Where the members of a gang would go.

    Attributes:
        placements: members that are reserved for.
        nominations: members that fit once others are evicted.
        refused: members that fit nowhere, the first one first.
        refused_by: plugins that refused a member in this try or in one before it.
        placement: where they were tried.
        short: what the gang lacks, if whoever proposed placements has words for it.
        search: what proposed placements; nothing for a gang that was not tried.
        room_before: the node on which room was kept before for each that is nominated.
        costly: how many members took all the time that a pod may take.
    """

    placements: list[tuple[PodInfo, Chosen]] = field(default_factory=list)
    nominations: list[tuple[PodInfo, Nomination]] = field(default_factory=list)
    refused: list[tuple[PodInfo, Refused | Failed]] = field(default_factory=list)
    refused_by: frozenset[str] = frozenset()
    placement: Placement | None = None
    short: str = ""
    search: PlacementSearch | None = None
    room_before: dict[str, str | None] = field(default_factory=dict)
    costly: int = 0

    @property
    def domain(self) -> Domain | None:
        """The topology domain in which all were tried, if it was one."""
        return None if self.placement is None else self.placement.domain

    @property
    def rooms(self) -> Sequence[DomainRoom]:
        """The domains that there were to choose from."""
        return () if self.search is None else self.search.rooms()

    def figures(self, needed: int) -> PlacementFigures | None:
        """Return figures of a placement that is enough, and of what there was to choose from."""
        placed = [chosen.node for _, chosen in self.placements]
        placed += [nomination.node for _, nomination in self.nominations]
        if self.search is None:
            return None
        return self.search.figures(placed if len(placed) >= needed else ())

    @property
    def fitting(self) -> int:
        """How many members have a place."""
        return len(self.placements) + len(self.nominations)

    @property
    def fitting_uids(self) -> frozenset[str]:
        """The uids of the members that have a place."""
        return frozenset(pod.uid for pod, _ in (*self.placements, *self.nominations))

    @property
    def is_costly(self) -> bool:
        """Whether no more members were tried, because of the time that they took."""
        last = self.refused[-1][1] if self.refused else None
        return isinstance(last, Refused) and last.diagnosis.is_costly

    def why_not(self, request: GangRequest) -> str:
        """Say what keeps the gang from fitting."""
        told = request.problem or self.short
        if told and not request.problem and not self.fitting and self.refused:
            # That no domain takes any is no reason: what refuses the first pod is.
            told += f"; {self.refused[0][0].name}: {self.refused[0][1].why}"
        if not told:
            told = f"{self.fitting} of {request.needed} needed pods fit"
            for pod, decision in self.refused[:1]:
                told += f"; {pod.name}: {decision.why}"
        return f"gang {request.gang.name}: {told}"


@dataclass(frozen=True, slots=True)
class _GangTrial:
    """Under which conditions members are placed."""

    placement: Placement
    evicting: bool
    leftover_first: frozenset[str] = frozenset()
    """Uids of those that were left over before."""

    def in_order(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return *pods* in the order in which they are tried."""
        if not self.leftover_first:
            return pods
        return sorted(pods, key=lambda pod: pod.uid not in self.leftover_first)


def _is_doubtful(decision: Chosen | Refused | Failed) -> bool:
    """Tell whether there may be a better place, or one at all, after other members.

    One that took all its time is not asked again.
    """
    if _is_costly(decision):
        return False
    return bool(decision.doubts) if isinstance(decision, Chosen) else isinstance(decision, Refused)


def _is_costly(decision: Chosen | Refused | Failed) -> bool:
    """Tell whether a member took all the time that a pod may take."""
    diagnosis = None if isinstance(decision, Failed) else decision.diagnosis
    return diagnosis is not None and diagnosis.is_costly


def _end_by(plan: GangPlan, decision: Chosen | Refused | Failed) -> Refused | None:
    """Count a member that took all its time; return why no other is tried, if that is enough."""
    if isinstance(decision, Failed) or decision.diagnosis is None or not _is_costly(decision):
        return None
    plan.costly += 1
    is_enough = plan.is_costly or plan.costly >= _MOST_COSTLY
    return Refused(decision.diagnosis) if is_enough else None


class _PutOff:
    """Members that are tried again after others, in the order in which they came."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(tuple(self._pods.values()))

    def add(self, pod: PodInfo) -> None:
        """Put *pod* off."""
        self._pods[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        """Put *pod* off no longer."""
        del self._pods[pod.uid]

    def first_of_each_kind(self) -> list[PodInfo]:
        """Return the first of those that are alike, of some kinds."""
        firsts: dict[bytes, PodInfo] = {}
        for pod in self._pods.values():
            firsts.setdefault(replica_key(pod), pod)
            if len(firsts) == _MOST_KINDS_ASKED:
                break
        return list(firsts.values())


def eviction_cost(plan: GangPlan, cluster: Cluster) -> EvictionCost:
    """Return what is lost by the evictions of *plan*; less is better.

    A gang that is evicted as a whole counts with its members on other nodes. Gangs that lose any
    count before pods: one that cannot go on has lost the work of all of its members.
    """
    victims = {one.uid: one for _, chosen in plan.nominations for one in chosen.victims}
    gangs = {key: one for one in victims.values() if (key := gang_key(one)) is not None}
    whole = set[tuple[str, str, str]]()
    for key, one in gangs.items():
        gang = gang_of(one, cluster.objects)
        if isinstance(gang, Gang) and gang.evicted_together:
            whole.add(key)
    companions = {
        other.uid
        for node in (cluster.nodes() if whole else ())
        for other in node.pods.values()
        if gang_key(other) in whole
    }
    highest = max((one.priority for one in victims.values()), default=0)
    return highest, len(gangs), len(victims.keys() | companions)


class GangPlanner:
    """Plans gangs with the cycles of a scheduler."""

    def __init__(self, engine: Engine, books: Books) -> None:
        self._engine = engine
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
        self._books = books
        self._first: frozenset[str] = frozenset()
        """Members that depend on the order; looked for once, since there may be many domains."""

    def plan(self, request: GangRequest, *, may_evict: bool = True) -> GangPlan:
        """Return the first plan that places as many as needed, or else what came closest to it.

        Places without evictions go first, and domains before the whole cluster. Of places that
        take evictions some are weighed, and those taken that cost least. Only a plan that is enough
        has its members reserved for. Others have to go only if it *may_evict* them.
        """
        best = GangPlan()
        if request.problem:
            return best
        self._first = frozenset(pod.uid for pod in request.pods if self._depends_on_order(pod))
        refused_by: set[str] = set()
        needed, search = request.needed, search_for(request, self._engine)
        for evicting in (False, True) if may_evict and request.may_evict else (False,):
            weighed: list[tuple[EvictionCost, Placement]] = []
            for placement in search.placements(evicting=evicting):
                plan = self._try_orders(needed, _GangTrial(placement, evicting))
                refused_by |= plan.refused_by
                if plan.fitting >= needed and not plan.nominations:
                    return self._with_the_rest(plan, search)
                if plan.fitting >= needed:
                    weighed.append((eviction_cost(plan, self._engine.cluster), placement))
                    self.undo(plan)
                search.failed(placement, plan.fitting_uids)
                best = plan if plan.fitting >= best.fitting or plan.is_costly else best
                if plan.is_costly or plan.costly or len(weighed) == _MOST_WEIGHED:
                    break
            if weighed:
                _, placement = min(weighed, key=lambda one: one[0])
                plan = self._try_orders(needed, _GangTrial(placement, evicting=True))
                if plan.fitting >= needed:
                    return self._with_the_rest(plan, search)
                # What takes time, or asks others, may refuse what it has just allowed.
                best = plan
                break
            evictable = (isinstance(one, Refused) and one.nomination for _, one in best.refused)
            if best.is_costly or not any(evictable):
                break
        best.refused_by = frozenset(refused_by) | search.refused_by
        best.short, best.search = search.why_not(), search
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

    def _try_orders(self, needed: int, trial: _GangTrial) -> GangPlan:
        plan = self._try(needed, trial)
        pods = [pod for part in trial.placement.parts for pod in part.pods]
        for _ in range(_OTHER_ORDERS):
            if plan.fitting >= needed:
                return plan
            self.undo(plan)
            left = frozenset(pod.uid for pod, _ in plan.refused)
            again = replace(trial, leftover_first=left)
            moves = any(again.in_order(part.pods) != part.pods for part in trial.placement.parts)
            if plan.is_costly or not moves or len(set(map(replica_key, pods))) == 1:
                return plan
            trial, before = again, plan
            plan = self._try(needed, trial)
            plan.refused_by |= before.refused_by
        if plan.fitting < needed:
            self.undo(plan)
        return plan

    def _with_the_rest(self, plan: GangPlan, search: PlacementSearch) -> GangPlan:
        """Return a plan that is enough, with members beyond the minimum where they may go."""
        plan.search = search
        beyond = () if plan.placement is None else search.beyond(plan.placement)
        return self._place_beyond(plan, beyond)

    def _place_beyond(self, plan: GangPlan, places: Iterable[GangNodes | None]) -> GangPlan:
        """Place members that the gang can do without elsewhere, where that is allowed."""
        with self._undone_if_it_breaks(plan):
            for nodes in places:
                if plan.is_costly or not plan.refused:
                    break
                left, plan.refused = [pod for pod, _ in plan.refused], []
                self._place_all(plan, Part(left, 0, nodes), left, evicting=False)
        return plan

    @contextmanager
    def _undone_if_it_breaks(self, plan: GangPlan) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.undo(plan)
            raise

    def _try(self, needed: int, trial: _GangTrial) -> GangPlan:
        plan = GangPlan(placement=trial.placement)
        with self._undone_if_it_breaks(plan):
            for part in trial.placement.each():
                enough = plan.fitting + part.least
                pods = trial.in_order(part.pods)
                self._place_all(plan, part, pods, evicting=trial.evicting)
                if plan.fitting < enough or plan.is_costly:
                    break
        plan.refused_by |= frozenset(
            name
            for _, why in plan.refused
            if isinstance(why, Refused)
            for name in why.diagnosis.plugins()
        )
        return plan

    def _place_all(
        self, plan: GangPlan, part: Part, pods: Sequence[PodInfo], *, evicting: bool
    ) -> None:
        """Place the *pods* of *part*, as long as enough of them may fit.

        Nobody else is served meanwhile: after one that took all its time in vain, or some that did
        not, the others are not tried.
        """
        enough = plan.fitting + part.least
        first = self._first
        pods = sorted(pods, key=lambda pod: pod.uid not in first)
        put_off = _PutOff()
        for left, pod in zip(range(len(pods) - 1, -1, -1), pods, strict=True):
            decision = self._decide(pod, part.nodes)
            if pod.uid in first and _is_doubtful(decision):
                put_off.add(pod)
                continue
            self._take(plan, pod, decision, evicting=evicting)
            over = _end_by(plan, decision) or self._place_put_off(plan, put_off, part.nodes)
            if over is not None:
                plan.refused += [(one, over) for one in (*put_off, *pods[len(pods) - left :])]
                return
            if plan.fitting + left + len(put_off) < enough:
                break
        for pod in put_off:
            decision = self._decide(pod, part.nodes)
            put_off.remove(pod)
            self._take(plan, pod, decision, evicting=evicting)
            over = _end_by(plan, decision)
            if over is not None:
                plan.refused += [(one, over) for one in put_off]
                return

    def _place_put_off(
        self, plan: GangPlan, put_off: _PutOff, nodes: GangNodes | None
    ) -> Refused | None:
        """Place those that were put off as soon as nothing is against it; one of a kind is asked.

        Those that come next would take their places. Returns why nobody else may be tried, if so.
        """
        for pod in put_off.first_of_each_kind():
            decision = self._decide(pod, nodes)
            if not _is_doubtful(decision):
                put_off.remove(pod)
                self._take(plan, pod, decision, evicting=False)
                over = _end_by(plan, decision)
                if over is not None:
                    return over
        return None

    def _depends_on_order(self, pod: PodInfo) -> bool:
        plugins = self._engine.runtime_for(pod.scheduler_name).profile.plugins()
        return any(plugin.depends_on_order(pod) for plugin in plugins.values())

    def _decide(self, pod: PodInfo, nodes: GangNodes | None) -> Chosen | Refused | Failed:
        state = None
        if nodes is not None:
            state = CycleState()
            state.write(GANG_NODES, nodes)
        runtime = self._engine.runtime_for(pod.scheduler_name)
        return self._cycle.decide(pod, runtime, state)

    def _take(
        self, plan: GangPlan, pod: PodInfo, decision: Chosen | Refused | Failed, *, evicting: bool
    ) -> None:
        """Reserve for *pod* as it was decided, or note why not."""
        if isinstance(decision, Chosen):
            status = self._books.reserve(pod, decision)
            if status.ok:
                # The scores of all nodes for a thousand members would take half a gigabyte.
                short = with_best_scores(decision, self._engine.cluster)
                plan.placements.append((pod, short))
            else:
                plan.refused.append((pod, Failed(status)))
        elif evicting and isinstance(decision, Refused) and decision.nomination is not None:
            # Those that come next must not count on the same room.
            nominations = self._engine.nominations
            plan.room_before[pod.uid] = nominations.node_of(pod.uid)
            nominations.nominate(pod, decision.nomination.node)
            plan.nominations.append((pod, decision.nomination))
            plan.refused_by |= decision.diagnosis.plugins()
        else:
            plan.refused.append((pod, decision))
