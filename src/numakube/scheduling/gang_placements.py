"""Where the members of a gang may go together, proposed one placement after the other.

`GangPlanner` really places the members of each proposal, until one holds. The heart proposes
single domains of one node label (`OneLabelSearch`). A plugin that is a `PlacesGangs` proposes in
its stead, wherever a profile has it; its proposals may have parts, each on nodes of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from numakube.scheduling.cycle import Attempt
from numakube.scheduling.framework.plugins import Plugin
from numakube.scheduling.plugins.gang_scheduling import (
    GangNodes,
    GangScheduling,
    GangSchedulingArgs,
    domain_of,
    domains_of,
)
from numakube.scheduling.snapshot.pod_equivalence import replica_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.plugins.gang_scheduling import Domain, Members
    from numakube.scheduling.plugins.pod_gangs import Gang
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo

TOO_FEW_TRIED: Final = "needed pods can be tried"
"""In the answer to members of a gang that was not tried, because the others are held back."""
_NEVER: Final = "Never"
_NOT_YET: Final = "~"
"""After any time, for pods that do not exist."""


@dataclass(frozen=True, slots=True)
class GangRequest:
    """What is to be planned.

    Attributes:
        gang: what the members need.
        pods: those without a node.
        needed: how many of them have to fit.
        running_on: the nodes of members that have one.
        placed: those members, as far as they are known.
    """

    gang: Gang
    pods: Sequence[PodInfo]
    needed: int
    running_on: Sequence[str] = ()
    placed: Sequence[PodInfo] = ()

    @classmethod
    def of(
        cls, gang: Gang, members: Members, pods: Sequence[PodInfo], cluster: Cluster
    ) -> GangRequest:
        """Return the request for *pods* beside the *members* that run, or are on their way."""
        under_way = [node for uid in members.waiting if (node := cluster.node_of(uid))]
        needed = max(gang.min_count - members.running - len(under_way), 1)
        placed = [*members.placed.values(), *filter(None, map(cluster.pod, members.waiting))]
        return cls(gang, pods, needed, [*members.nodes, *under_way], placed)

    @property
    def may_evict(self) -> bool:
        """Whether others may have to go; any member can rule it out, as in kube-scheduler 1.37."""
        policies = {pod.pod.spec.preemption_policy for pod in self.pods}
        return _NEVER not in {self.gang.preemption_policy, *policies}

    @property
    def contradiction(self) -> str:
        """What of its members is at odds with the group; kube-scheduler 1.37 refuses that too."""
        priority = self.gang.priority
        for pod in self.pods:
            if priority is not None and pod.priority != priority:
                own = f"{pod.name} has priority {pod.priority}"
                return f"{own}, but its pod group has {priority}: they have to be the same"
        return ""

    @property
    def problem(self) -> str:
        """Why nothing can be tried, if so."""
        if self.contradiction:
            return self.contradiction
        if len(self.pods) < self.needed:
            return f"{len(self.pods)} of {self.needed} {TOO_FEW_TRIED}"
        return ""


@dataclass(frozen=True, slots=True)
class Part:
    """Members that are placed on the same nodes.

    Attributes:
        least: how many of them have to fit.
        nodes: the only ones for them; ``None`` for all.
    """

    pods: Sequence[PodInfo]
    least: int
    nodes: GangNodes | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A proposal for a gang.

    Where it has several parts, each of those with a least number has no more pods than that; what
    the gang can do without comes last, in parts of which none has to fit.

    Attributes:
        more: yields further parts, each once those before it are placed: they may depend on that.
    """

    parts: tuple[Part, ...]
    more: Callable[[], Iterator[Part]] | None = None

    def each(self) -> Iterator[Part]:
        """Yield all parts."""
        yield from self.parts
        if self.more is not None:
            yield from self.more()

    @property
    def domain(self) -> Domain | None:
        """The domain in which all of it is, if that is one of labels."""
        found = {None if part.nodes is None else part.nodes.domain for part in self.parts}
        return found.pop() if len(found) == 1 and self.more is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRoom:
    """A domain as a gang sees it, for people.

    Attributes:
        depth: how many domains are around it.
        takes: pods of the gang that it takes.
        why: why not more.
    """

    level: str
    name: str
    depth: int
    nodes: int
    takes: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFigures:
    """What tools are told of a placement, and of what there was to choose from.

    Attributes:
        domains: for each level by name, how many pods each domain gets.
        largest: for each level, the most pods of the gang that one domain took before; nothing
            where pods are of several kinds.
        cost: what the placement costs besides the number of domains, by name; less is better.
    """

    domains: Mapping[str, Mapping[str, int]]
    largest: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)


class PlacementSearch(Protocol):
    """Looks for the placements of one gang, the best first.

    Attributes:
        refused_by: plugins that keep the gang from fitting, as far as is known besides trials.
    """

    refused_by: frozenset[str]

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield what to try next, without evictions or with them; each is undone if it fails.

        If none can hold, one that comes close is yielded all the same: what refuses its members
        decides what the gang waits for.
        """
        ...

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Learn which pods had a place, by uid, when *placement* was tried in vain."""
        ...

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return where members may go that the gang can do without, besides *placement*."""
        ...

    def why_not(self) -> str:
        """Say what is short, in the place of how many members fit; empty for that."""
        ...

    def rooms(self) -> Sequence[DomainRoom]:
        """Return the domains that there were to choose from, each before those in it."""
        ...

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return figures of the placement that holds, with a pod on each of *nodes*."""
        ...


class PlacesGangs(Plugin):
    """Proposes where the members of gangs go; a point of our own, which no profile has to name."""

    @abstractmethod
    def search(self, request: GangRequest, engine: Engine) -> PlacementSearch | None:
        """Return what looks for placements; nothing for a gang that is of no interest."""


def search_for(request: GangRequest, engine: Engine) -> PlacementSearch:
    """Return what proposes placements for the gang of *request*."""
    runtime = engine.runtime_for(request.pods[0].scheduler_name)
    for plugin in runtime.profile.plugins().values():
        if isinstance(plugin, PlacesGangs):
            search = plugin.search(request, engine)
            if search is not None:
                return search
    return OneLabelSearch(request, engine)


# ------------------------------------------------------------------------------------------------
# One label: the domains of one level, those with the least room that may be enough first.


class OneLabelSearch:
    """Proposes single domains, so that racks stay whole for larger gangs.

    Once members run, theirs is the only one, or the first one if the domain is only preferred. A
    gang that prefers a domain and fits in none is tried in those of the next coarser level.
    """

    def __init__(self, request: GangRequest, engine: Engine) -> None:
        self._request = request
        self._engine = engine
        self._pods = largest_first(request.pods)
        self.refused_by: frozenset[str] = frozenset()

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield the domains, and the whole cluster where none is required."""
        del evicting
        for nodes in self._each():
            yield Placement((Part(self._pods, self._request.needed, nodes),))

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Go on with the next."""

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return all other domains, if they are only preferred."""
        del placement
        return () if self._request.gang.required_topology else self._each()

    def why_not(self) -> str:
        """Leave it to the plan."""
        return ""

    def rooms(self) -> Sequence[DomainRoom]:
        """Return none: domains are tried until one has room."""
        return ()

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return the domains of the one level that the gang asks for."""
        gang, args = self._request.gang, gang_arguments(self._engine)
        level = gang.required_topology or gang.preferred_topology
        if not level:
            return PlacementFigures(domains={})
        found = domains_of_nodes(self._engine.cluster, args.labels_of(level), nodes)
        counts = dict(Counter(map(str, found)))
        return PlacementFigures(domains={level: counts} if counts else {})

    def _each(self) -> Iterator[GangNodes | None]:
        gang, args = self._request.gang, gang_arguments(self._engine)
        level = gang.required_topology or gang.preferred_topology
        labels = args.labels_of(level) if level else ()
        while labels:
            yield from self._at(labels)
            if gang.required_topology:
                return
            labels = labels[:-1]
        yield None

    def _at(self, labels: tuple[str, ...]) -> list[GangNodes]:
        """Return the domains of one level in the order in which they are tried."""
        request, cluster = self._request, self._engine.cluster
        rows = domains_of(cluster.snapshot(), labels)
        own = Counter(domains_of_nodes(cluster, labels, request.running_on))
        room = self._room(rows)

        def order(one: Domain) -> tuple[int, bool, int, int, tuple[str, ...]]:
            return -own[one], room[one] < request.needed, room[one], len(rows[one]), one.values

        stays = own and request.gang.required_topology
        found = sorted((one for one in rows if own[one] or not stays), key=order)
        return [GangNodes(rows[one], one) for one in found]

    def _room(self, domains: Mapping[Domain, Rows]) -> dict[Domain, int]:
        """Return how many of the largest pods each domain may take, by amounts of its nodes."""
        snapshot, pod = self._engine.cluster.snapshot(), self._pods[0]
        runtime = self._engine.runtime_for(pod.scheduler_name)
        attempt = Attempt(runtime, pod, snapshot, self._engine.nominations)
        feasible = set(attempt.feasible_rows().tolist())
        return {
            domain: sum(
                most_by_amounts(pod, snapshot.at(row)) for row in rows.tolist() if row in feasible
            )
            for domain, rows in domains.items()
        }


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


def most_by_amounts(pod: PodInfo, node: NodeInfo) -> int:
    """Return how many pods like *pod* the amounts of *node*, which takes one, are enough for."""
    counts = (
        (node.allocatable.get(name, 0) - node.requested.get(name, 0)) // amount
        for name, amount in pod.requests.items()
        if amount > 0
    )
    return max(1, min(counts, default=1))


def largest_first(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return *pods* in an order that is theirs: by size, devices before CPUs; of equals by age."""
    names = sorted({name for pod in pods for name in pod.requests}, key=_by_scarcity)

    def size(pod: PodInfo) -> tuple[list[int], PodKey, str]:
        amounts = [-pod.requests.get(name, 0) for name in names]
        return amounts, replica_key(pod), pod.pod.metadata.creation_timestamp or _NOT_YET

    return sorted(pods, key=size)


def _by_scarcity(name: str) -> tuple[bool, str]:
    return "/" not in name, name
