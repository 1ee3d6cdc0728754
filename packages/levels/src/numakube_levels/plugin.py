"""TopologyLevels: gangs over several levels of topology, all domains costed.

The plugin proposes where the members of gangs go (`PlacesGangs`). Gangs that ask for nothing are
left to `GangScheduling`, as are gangs of a scheduler whose profile disables this plugin. A pod
whose annotations cannot be read is kept back, with the annotation named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.codec import Wire
from numakube.errors import ConfigError, InvalidValue
from numakube.scheduling.framework import EventKind
from numakube.scheduling.framework.plugins import PreEnqueue
from numakube.scheduling.framework.status import SUCCESS, unresolvable
from numakube.scheduling.gang_placements import PlacesGangs
from numakube.scheduling.plugins.gang_scheduling import GangScheduling
from numakube.scheduling.plugins.plugin_arguments import read_args
from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of
from numakube_levels.aligned_counts import AlignedCounts
from numakube_levels.gang_wishes import GangWish, wish_of
from numakube_levels.held_places import HeldFirst, held_placement
from numakube_levels.level_search import LevelsOfCluster, search_for_wish
from numakube_levels.level_sources import (
    LevelArgs,
    LevelTree,
    configured,
    of_labels,
    of_objects,
    tree_for,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numakube.scheduling import Engine
    from numakube.scheduling.framework import ClusterEvent
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.gang_placements import GangRequest, PlacementSearch
    from numakube.scheduling.snapshot.pods import PodInfo

_MOST_VERIFIED: Final = 64


class TopologyLevelsArgs(Wire, frozen=True):
    """Arguments of the plugin.

    Attributes:
        levels: coarse to fine; below them is always the node.
        preset: levels by labels that a cloud or a tool writes, instead of *levels*.
        placements_to_verify: how many placements are really tried for a gang of which the count is
            only a bound, before it is told that others were not tried.
    """

    levels: tuple[LevelArgs, ...] = ()
    preset: str = ""
    placements_to_verify: int = 8


class TopologyLevels(PreEnqueue, PlacesGangs):
    """See the module."""

    name = "TopologyLevels"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.NODE_REMOVED

    def __init__(self, args: TopologyLevelsArgs, handle: Handle) -> None:
        self.args = args
        self._handle = handle
        self._tree = configured(args.levels, args.preset)
        self.counting = AlignedCounts()
        if not 1 <= args.placements_to_verify <= _MOST_VERIFIED:
            told = f"{args.placements_to_verify} is not between 1 and {_MOST_VERIFIED}"
            raise ConfigError(f"placementsToVerify: {told}")

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> TopologyLevels:
        """Make the plugin."""
        return cls(read_args(TopologyLevelsArgs, args), handle)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keep a pod back of whose gang the wishes cannot be read."""
        try:
            self.wish_of(pod)
        except InvalidValue as error:
            return unresolvable(str(error))
        return SUCCESS

    def opened_by(self, pod: PodInfo) -> Iterable[Hashable]:
        """A change of the group."""
        key = gang_key(pod)
        return () if key is None else (key,)

    def likeness(self, pod: PodInfo) -> Hashable:
        """Nothing of the pod: whatever becomes of nodes may help."""
        return None

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A change of nodes is one of domains."""
        return True

    def search(self, request: GangRequest, engine: Engine) -> PlacementSearch | None:
        """Return what looks for placements, if the gang asks for any level."""
        try:
            wish = self.wish_of(request.pods[0])
        except InvalidValue:
            return None
        if wish is None or not wish:
            return None
        most = self.args.placements_to_verify
        known = LevelsOfCluster(engine, self.tree_for(wish), self.counting, most)
        search = search_for_wish(request, known, wish)
        held = held_placement(request, known, wish)
        return search if held is None else HeldFirst(search, held)

    def wish_of(self, pod: PodInfo) -> GangWish | None:
        """Return what the gang of *pod* asks for; nothing for a pod of no gang.

        Raises:
            InvalidValue: an annotation cannot be read.
        """
        objects = self._handle.cluster.objects
        gang = gang_of(pod, objects)
        return wish_of(gang, pod, objects) if isinstance(gang, Gang) else None

    def tree_for(self, wish: GangWish) -> LevelTree:
        """Return the tree in which *wish* is meant."""
        return tree_for(wish.levels, self.trees())

    def tree_named(self, names: Sequence[str]) -> LevelTree:
        """Return the tree that knows levels called *names*."""
        return tree_for(names, self.trees())

    def least_of(self, pod: PodInfo) -> int:
        """Return how many pods the gang of *pod* needs; 0 for a pod of no gang."""
        gang = gang_of(pod, self._handle.cluster.objects)
        return gang.min_count if isinstance(gang, Gang) else 0

    def trees(self) -> Iterator[LevelTree]:
        """Yield what is known of levels, what counts most first."""
        if self._tree is not None:
            yield self._tree
        runtime = self._handle.runtime
        gangs = runtime.profile.plugins().get(GangScheduling.name) if runtime else None
        if isinstance(gangs, GangScheduling) and gangs.args.levels:
            yield of_labels("levels of GangScheduling", gangs.args.levels)
        yield from of_objects(self._handle.cluster.objects)
