"""Gangs in virtual time: planned whole, as `numakube.apps.scheduler.gang_step` has it.

A member's turn is that of all members that wait. All that the gang needs are bound, or none is. If
members fit only after evictions, places are kept until the last victim is gone. A gang of which too
few run for longer than its group allows is evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.gang_placements import GangRequest, gang_arguments
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.gang_scheduling import GangMembers, GangScheduling, gang_to_plan
from numakube.scheduling.plugins.pod_gangs import gang_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.scheduling import Chosen, Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.plugins.gang_scheduling import Key as GangKey
    from numakube.scheduling.plugins.pod_gangs import Gang
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class GangVerdict:
    """What comes of a try.

    Attributes:
        bound: members that are reserved for, and go to their node now.
        kept: members that have a place once all victims are gone, and where.
        victims: by the uid of a member, for whom others go, where.
        message: why those members wait that are not bound.
        refused_by: plugins that keep them waiting.
    """

    bound: Sequence[tuple[PodInfo, Chosen]] = ()
    kept: Sequence[tuple[PodInfo, str]] = ()
    victims: Sequence[tuple[PodInfo, Nomination]] = ()
    message: str = ""
    refused_by: frozenset[str] = frozenset()


class VirtualGangs:
    """The gangs of one scheduler."""

    def __init__(self, members: GangMembers) -> None:
        self.members = members

    def see(self, pod: PodInfo) -> None:
        """Note a pod as it is."""
        if pod.has_ended:
            self.members.gone(pod, deleted=False)
        elif pod.node_name:
            self.members.placed(pod)
        elif pod.is_being_deleted:
            self.members.withdrawn(pod)
        else:
            self.members.waits(pod)

    def try_out(self, engine: Engine, pods: Sequence[PodInfo], *, may_evict: bool) -> GangVerdict:
        """Plan the gang of *pods*, those members that may be tried; who is bound is reserved for.

        Args:
            engine: decides.
            pods: the members.
            may_evict: whether others may have to go; not while they are on their way out already.
        """
        gang = gang_to_plan(pods[0], engine.cluster.objects)
        if gang is None:
            raise LookupError(f"{pods[0].key} is of no gang")
        request = GangRequest.of(gang, self.members.of(pods[0]), pods, engine.cluster)
        planner = GangPlanner(engine, EngineBooks(engine))
        plan = planner.plan(request, may_evict=may_evict)
        refused_by = plan.refused_by | {GangScheduling.name}
        if plan.fitting < request.needed:
            return GangVerdict(message=plan.why_not(request), refused_by=refused_by)
        if plan.nominations:
            planner.undo(plan)
            return GangVerdict(
                kept=[(pod, chosen.node) for pod, chosen in plan.placements],
                victims=plan.nominations,
                message=f"gang {gang.name}: waiting for evicted pods to leave",
                refused_by=refused_by,
            )
        told = plan.refused[0][1].why if plan.refused else ""
        return GangVerdict(bound=plan.placements, message=told, refused_by=refused_by)

    def waiting_in(self, key: GangKey) -> list[str]:
        """Return the uids of the members of a gang that wait."""
        return list(self.members.at(key).waiting)

    def companions(self, engine: Engine, victims: Sequence[PodInfo]) -> list[PodInfo]:
        """Return *victims*, and the members of their gangs that are evicted with them."""
        going = {victim.uid: victim for victim in victims}
        for victim in victims:
            gang = gang_to_plan(victim, engine.cluster.objects)
            if gang is not None and gang.evicted_together:
                going |= self.members.of(victim).placed
        return list(going.values())

    def overdue(
        self, engine: Engine, now: float, is_under_way: Callable[[str], bool]
    ) -> Iterator[PodInfo]:
        """Yield the members of gangs of which too few have run for too long."""
        limit = gang_arguments(engine).incomplete_seconds
        objects = engine.cluster.objects
        for _, members in self.members.incomplete(objects, now, limit, is_under_way):
            members.incomplete_since = None
            yield from list(members.placed.values())

    def seconds_allowed(self, engine: Engine, gang: Gang) -> float:
        """Return how long *gang* may run with too few; 0 for ever."""
        own = gang.timeout_seconds
        return float(gang_arguments(engine).incomplete_seconds) if own is None else own


def party_of(pod: PodInfo, engine: Engine) -> GangKey | str:
    """Return who waits for victims together: a gang, or a single pod."""
    key = gang_key(pod) if gang_to_plan(pod, engine.cluster.objects) is not None else None
    return key or pod.uid
