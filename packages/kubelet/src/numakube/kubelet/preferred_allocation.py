"""How our own device plugin chooses: devices of one NUMA node, then by physical function.

The kubelet asks this (GetPreferredAllocation) when it has more devices to choose from than it
needs. It has usually narrowed them to the NUMA nodes that it aligns the container to; if it has not
(policy ``none``), they are kept together all the same. The answer depends on nothing but the
question and on what surrounds the devices, so the model gives the same one: a `Chooser` is a
plugin's preference for it.

The kubelet does not say for whom it asks. A plugin that can find out takes the physical function
closest to the devices that the container has already (`OtherDevices`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from numakube.kubelet.machine import Closeness, DeviceTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Preference(StrEnum):
    """Which devices of a resource go together; all stay within a NUMA node if they can."""

    MOST_FREE = "most-free"
    PACKED = "packed"
    SPREAD = "spread"
    NONE = "none"


class Member(Protocol):
    """A device to choose."""

    @property
    def id(self) -> str:
        """Its name for the kubelet."""
        ...

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Where it is; empty if that is not known."""
        ...

    @property
    def parent(self) -> str:
        """The physical function that it belongs to; empty if none is known."""
        ...

    @property
    def rank(self) -> tuple[str, int, str]:
        """Its place among those of the same parent."""
        ...


_M = TypeVar("_M", bound=Member)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A device of which only the place in its group is known, not the names of both."""

    id: str
    numa_nodes: tuple[int, ...]
    parent: str
    position: int

    @property
    def rank(self) -> tuple[str, int, str]:
        """Its place among those of the same parent."""
        return self.parent, self.position, self.id


@dataclass(frozen=True, slots=True)
class OtherDevices:
    """What is known of other devices when some are to be chosen.

    Attributes:
        tree: how devices are connected.
        functions: the PCI functions of the devices to choose from, by id.
        held: the functions of other devices of the same pod; empty also if the pod is not known.
        free: the functions of free devices of other resources.
    """

    tree: DeviceTree
    functions: Mapping[str, str]
    held: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()

    def rank(self, member: Member, unpaired: Sequence[str]) -> int:
        """Return how near a device is to the pod's, *unpaired* ones first, or to free ones."""
        own = self.functions.get(member.id, "")
        if self.held:
            return min(self._closeness(own, other) for other in unpaired or self.held)
        near = any(self._closeness(own, other) <= Closeness.PXB for other in self.free)
        return 0 if near else _FAR

    def without_partner(self, member: Member, unpaired: Sequence[str]) -> list[str]:
        """Return *unpaired* without the device that *member* is nearest to."""
        own = self.functions.get(member.id, "")
        if not unpaired:
            return []
        partner = min(unpaired, key=lambda other: (self._closeness(own, other), other))
        rest = list(unpaired)
        rest.remove(partner)
        return rest

    def _closeness(self, one: str, other: str) -> int:
        found = self.tree.between(one, other)
        return _FAR if found is None else found.closeness


_FAR: Final = max(Closeness) + 1
_NOWHERE: Final = OtherDevices(DeviceTree(), {})


@dataclass(frozen=True, slots=True)
class Chooser:
    """A plugin's preference as the model asks for it.

    Attributes:
        near: whether the plugin looks at what surrounds the devices.
    """

    policy: Preference
    members: Mapping[str, Member]
    near: bool = False

    def __call__(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        """Return the devices to give out."""
        return self.among(AllocationWish(available, must_include, size), _NOWHERE)

    def among(self, wish: AllocationWish, around: OtherDevices) -> list[str]:
        """Return the devices to give out, given what is around them."""
        return prefer(wish, self.members, self.policy, around=around if self.near else _NOWHERE)

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Return the devices by parent: all that the choice depends on besides NUMA nodes."""
        return tuple(
            tuple(member.id for member in members)
            for _, members in sorted(_by_parent(self.members.values()).items())
        )


def chooser_of(
    policy: Preference,
    groups: Iterable[Iterable[str]],
    numa_nodes: Mapping[str, tuple[int, ...]],
    *,
    near: bool = False,
) -> Chooser:
    """Return what chooses like a plugin that told these *groups*."""
    return Chooser(
        policy,
        {
            id_: Ranked(id_, numa_nodes[id_], f"{number:05d}", position)
            for number, members in enumerate(groups)
            for position, id_ in enumerate(members)
        },
        near,
    )


def _by_parent(members: Iterable[_M]) -> dict[str, list[_M]]:
    """Return *members* by their parents; those without one stand for themselves."""
    groups: dict[str, list[_M]] = {}
    for member in sorted(members, key=lambda one: one.rank):
        groups.setdefault(member.parent or member.id, []).append(member)
    return groups


@dataclass(frozen=True, slots=True)
class AllocationWish:
    """What the kubelet asks: *size* of the *available*, with all of *must_include*."""

    available: Sequence[str]
    must_include: Sequence[str]
    size: int


def prefer(
    wish: AllocationWish,
    members: Mapping[str, Member],
    preference: Preference,
    *,
    around: OtherDevices = _NOWHERE,
) -> list[str]:
    """Return the devices to give out; fewer than asked for if there are not enough."""
    chosen = list(dict.fromkeys(wish.must_include))
    known = [members[id_] for id_ in dict.fromkeys(wish.available) if id_ in members]
    free = [member for member in known if member.id not in chosen]
    held = [members[id_] for id_ in chosen if id_ in members]
    missing = wish.size - len(chosen)
    pairing = _Pairing(around)
    pairing.take(held)
    while missing > 0 and free:
        node = _best_node(free, held, missing)
        here = [member for member in free if _is_on(member, node)]
        taken = _of_node(here, held, min(missing, len(here)), preference, pairing)
        chosen += [member.id for member in taken]
        held += taken
        missing -= len(taken)
        free = [member for member in free if member not in taken]
    unknown = [id_ for id_ in dict.fromkeys(wish.available) if id_ not in members]
    rest = [id_ for id_ in sorted(unknown) if id_ not in chosen]
    return [*chosen, *rest[: max(0, missing)]]


class _Pairing:
    """Which of the pod's other devices have no partner yet."""

    def __init__(self, around: OtherDevices) -> None:
        self._around = around
        self._unpaired: Sequence[str] = around.held

    @property
    def is_open(self) -> bool:
        """Whether there are any."""
        return bool(self._unpaired)

    def rank(self, member: Member) -> int:
        """Return how near a device is to what it could be paired with."""
        return self._around.rank(member, self._unpaired)

    def take(self, members: Iterable[Member]) -> None:
        """Pair *members*."""
        for member in members:
            self._unpaired = self._around.without_partner(member, self._unpaired)


def _is_on(member: Member, node: int | None) -> bool:
    return not member.numa_nodes if node is None else node in member.numa_nodes


def _best_node(free: Iterable[Member], held: Iterable[Member], missing: int) -> int | None:
    """Return the NUMA node to go on with; ``None`` stands for devices that are on none.

    First one where the container already has devices, then one that has enough, then the one with
    most free; of equals the lowest.
    """
    counts: Counter[int | None] = Counter()
    for member in free:
        counts.update(member.numa_nodes or (None,))
    begun = {node for member in held for node in member.numa_nodes}

    def worth(node: int | None) -> tuple[bool, bool, bool, int, int]:
        count = counts[node]
        return (
            node in begun,
            node is not None,
            count >= missing,
            count,
            0 if node is None else -node,
        )

    return max(counts, key=worth)


def _of_node(
    here: Sequence[Member],
    held: Iterable[Member],
    size: int,
    preference: Preference,
    pairing: _Pairing,
) -> list[Member]:
    """Return *size* of the devices of one NUMA node."""
    groups = _by_parent(here)
    if preference is Preference.SPREAD:
        return _spread(
            groups, Counter(member.parent or member.id for member in held), size, pairing
        )
    taken: list[Member] = []
    while len(taken) < size:
        missing = size - len(taken)
        name = _best_group(groups, missing, pairing, packed=preference is Preference.PACKED)
        # One at a time while each has a partner of its own to be near to.
        some = groups[name][: 1 if pairing.is_open else missing]
        pairing.take(some)
        taken += some
        groups[name] = groups[name][len(some) :]
        if not groups[name]:
            del groups[name]
    return taken


def _best_group(
    groups: Mapping[str, list[Member]], missing: int, pairing: _Pairing, *, packed: bool
) -> str:
    """Return the nearest physical function; of equals that with most free devices.

    Packed, it is the one with as few as will do.
    """

    def cost(name: str) -> tuple[int, bool, int, str]:
        count = len(groups[name])
        enough = count >= missing
        near = pairing.rank(groups[name][0])
        return near, not enough, count if packed and enough else -count, name

    return min(groups, key=cost)


def _spread(
    groups: Mapping[str, list[Member]], begun: Counter[str], size: int, pairing: _Pairing
) -> list[Member]:
    """Return devices of as many physical functions as possible, the freest first."""
    left = {name: list(members) for name, members in groups.items()}
    taken: list[Member] = []
    while len(taken) < size:
        name = min(
            (name for name, members in left.items() if members),
            key=lambda one: (pairing.rank(left[one][0]), begun[one], -len(left[one]), one),
        )
        one = left[name].pop(0)
        pairing.take([one])
        taken.append(one)
        begun[name] += 1
    return taken
