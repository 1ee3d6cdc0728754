"""Who manages what: the reference to a controller, and how it takes on and lets go of objects.

A controller manages the objects that name it as their controller. It takes on those without a
controller that its selector selects, and lets go of those that its selector no longer selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from numakube.api.meta import LabelSelector, OwnerReference
from numakube.api.selectors import selects
from numakube.kube.resource_types import ObjectKey, key_of
from numakube_lab.controllers.common.controller_actions import Change
from numakube_lab.controllers.common.resource_mirrors import Owned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kube.resource_types import Document, Resource

T = TypeVar("T", bound=Owned)


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """The objects that are a controller's, and the changes that it takes to make it so."""

    objects: tuple[T, ...]
    changes: tuple[Change, ...] = ()


def owner_reference(resource: Resource[Any], owner: Owned) -> OwnerReference:
    """Return the reference with which objects name *owner* as their controller."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owner_document(resource: Resource[Any], owner: Owned) -> Document:
    """Return the same as plain JSON."""
    document: Document = msgspec.to_builtins(owner_reference(resource, owner))
    return document


def owner_key(obj: Owned, kind: str) -> tuple[ObjectKey, ...]:
    """Return the key of the controller of *obj*, if that is a *kind*; none otherwise."""
    controller = obj.metadata.controller
    if controller is None or controller.kind != kind:
        return ()
    return (ObjectKey(obj.metadata.namespace, controller.name),)


def claim(
    owned_resource: Resource[T],
    *,
    owner: OwnerReference,
    selector: LabelSelector,
    managed: Iterable[T],
    orphans: Iterable[T],
    owner_is_going: bool = False,
) -> Claim[T]:
    """Decide which objects belong to a controller.

    Args:
        owned_resource: what they are.
        owner: the controller.
        selector: which objects it wants.
        managed: those that name it as their controller.
        orphans: those that could be taken on.
        owner_is_going: the controller is being deleted, so it takes on nothing and lets go of
            nothing.
    """
    kept: list[T] = []
    changes: list[Change] = []
    for obj in managed:
        if _wants(selector, obj) or owner_is_going:
            kept.append(obj)
        elif obj.metadata.deletion_timestamp is None:
            changes.append(_released(owned_resource, obj, owner))
    for obj in () if owner_is_going else orphans:
        if _wants(selector, obj) and obj.metadata.deletion_timestamp is None:
            kept.append(obj)
            changes.append(_adopted(owned_resource, obj, owner))
    return Claim(tuple(kept), tuple(changes))


def _wants(selector: LabelSelector, obj: Owned) -> bool:
    return selector != LabelSelector() and selects(selector, obj.metadata.labels)


def _adopted(resource: Resource[Any], obj: Owned, owner: OwnerReference) -> Change:
    return _with_owners(resource, obj, (*obj.metadata.owner_references, owner))


def _released(resource: Resource[Any], obj: Owned, owner: OwnerReference) -> Change:
    others = tuple(one for one in obj.metadata.owner_references if one.uid != owner.uid)
    return _with_owners(resource, obj, others)


def _with_owners(resource: Resource[Any], obj: Owned, owners: tuple[OwnerReference, ...]) -> Change:
    # A merge patch replaces lists, so it must be based on the list as it is now.
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": msgspec.to_builtins(owners) or None,
    }
    return Change(resource=resource, key=key_of(obj), patch={"metadata": metadata})
