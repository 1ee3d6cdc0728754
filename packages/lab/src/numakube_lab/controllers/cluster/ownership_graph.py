"""Who owns whom, over all kinds of objects, and what follows from that.

The rules are those of kube-controller-manager's garbage collector: an object all of whose owners
are gone is deleted; an owner that is deleted in the foreground waits for those dependents that
block it; an owner that is deleted as an orphan-maker first lets go of its dependents.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.meta import ObjectMeta, OwnerReference
    from numakube.kube.resource_types import ObjectKey, Resource

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class Item:
    """An object in the graph."""

    resource: Resource[Any]
    key: ObjectKey
    metadata: ObjectMeta

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is being deleted in the foreground."""
        return self.is_going and FOREGROUND in self.metadata.finalizers

    @property
    def makes_orphans(self) -> bool:
        """Whether it is being deleted and its dependents are to stay."""
        return self.is_going and ORPHAN in self.metadata.finalizers


class OwnerState(Enum):
    """What is known of an owner."""

    THERE = auto()
    WAITING = auto()
    """It is being deleted in the foreground, and waits for its dependents."""
    GONE = auto()


class Graph:
    """All objects by uid, and the dependents of each."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> Item | None:
        """Return the object with this uid."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """Return the objects that name the one with this uid as an owner."""
        return [self._items[each] for each in self._dependents.get(uid, ())]

    def put(self, item: Item) -> None:
        """Take in an object, or its new state."""
        uid = item.metadata.uid
        old = self._items.get(uid)
        if old is not None and old.metadata.owner_references != item.metadata.owner_references:
            self._unlink(old)
            old = None
        self._items[uid] = item
        if old is None:
            for owner in item.metadata.owner_references:
                self._dependents.setdefault(owner.uid, {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget an object."""
        item = self._items.pop(uid, None)
        if item is not None:
            self._unlink(item)

    def _unlink(self, item: Item) -> None:
        for owner in item.metadata.owner_references:
            known = self._dependents.get(owner.uid)
            if known is not None:
                known.pop(item.metadata.uid, None)
                if not known:
                    del self._dependents[owner.uid]


@dataclass(frozen=True, slots=True)
class Collect:
    """Delete the object, passing *propagation* on."""

    propagation: str


@dataclass(frozen=True, slots=True)
class Disown:
    """Remove owners from the object's references."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unblock:
    """Remove a finalizer: what it waited for is done."""

    finalizer: str


@dataclass(frozen=True, slots=True)
class ReleaseDependents:
    """Let go of all dependents, then remove the finalizer that asked for it."""

    dependents: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class CollectDependents:
    """Have the dependents looked at: they are to go before their owner."""

    dependents: tuple[Item, ...]


Step = Collect | Disown | Unblock | ReleaseDependents | CollectDependents


def decide(item: Item, owners: Mapping[str, OwnerState], dependents: Sequence[Item]) -> Step | None:
    """Return what to do about *item*; None if it may stay, or go by itself.

    Args:
        item: the object.
        owners: the state of each of its owners, by uid.
        dependents: the objects that name it as an owner.
    """
    if item.makes_orphans:
        return ReleaseDependents(tuple(dependents))
    if item.waits_for_dependents:
        return _after_dependents(item, dependents)
    references = item.metadata.owner_references
    if item.is_going or not references:
        return None
    return _by_owners(item, references, owners, dependents)


def _after_dependents(item: Item, dependents: Sequence[Item]) -> Step:
    uid = item.metadata.uid
    blocking = [each for each in dependents if _blocks(each, uid)]
    if not blocking:
        return Unblock(FOREGROUND)
    return CollectDependents(tuple(dependents))


def _by_owners(
    item: Item,
    references: Sequence[OwnerReference],
    owners: Mapping[str, OwnerState],
    dependents: Sequence[Item],
) -> Step | None:
    states = {reference.uid: owners[reference.uid] for reference in references}
    lost = frozenset(uid for uid, state in states.items() if state is not OwnerState.THERE)
    if len(lost) < len(states):
        return Disown(lost) if lost else None
    if OwnerState.WAITING in states.values() and dependents:
        return Collect("Foreground")
    finalizers = item.metadata.finalizers
    if ORPHAN in finalizers:
        return Collect("Orphan")
    return Collect("Foreground" if FOREGROUND in finalizers else "Background")


def _blocks(dependent: Item, owner_uid: str) -> bool:
    return any(
        reference.uid == owner_uid and reference.block_owner_deletion
        for reference in dependent.metadata.owner_references
    )
