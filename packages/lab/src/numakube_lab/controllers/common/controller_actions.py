"""What controllers decide to do, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.api.meta import ObjectReference
    from numakube.kube.resource_types import Document, ObjectKey, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object.

    Attributes:
        told: whose events tell of it: ``SuccessfulCreate``, ``FailedCreate``.
    """

    resource: Resource[Any]
    document: Document
    told: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change fields of an object by a merge patch; None removes a field.

    Attributes:
        chained: change it only if it is still as the plan's last change of such an object left it.
    """

    resource: Resource[Any]
    key: ObjectKey
    patch: Document
    subresource: str = ""
    chained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object, if it is still the one with this uid.

    Attributes:
        told: whose events tell of it: ``SuccessfulDelete``.
    """

    resource: Resource[Any]
    key: ObjectKey
    uid: str
    propagation: str = ""
    grace_seconds: int | None = None
    told: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Record an event."""

    about: ObjectReference
    reason: str
    message: str
    warning: bool = False


Action: TypeAlias = Create | Change | Delete | Note


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about an object, in order.

    Attributes:
        again_after: seconds after which to look again, although nothing may have changed.
        then: says what to do after that, given the objects that were created.
    """

    actions: tuple[Action, ...] = ()
    again_after: float | None = None
    then: Callable[[Sequence[Any]], Iterable[Action]] | None = None


NOTHING = Plan()


def differences(old: msgspec.Struct, new: msgspec.Struct) -> Document:
    """Return the merge patch that makes *old* equal to *new*; empty if they are."""
    if old == new:
        return {}
    return _merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _merge_patch(before: Document, after: Document) -> Document:
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if known == value and name in before:
            continue
        nested = isinstance(known, dict) and isinstance(value, dict)
        patch[name] = _merge_patch(known or {}, value) if nested else value
    return patch


def status_change(
    resource: Resource[Any], key: ObjectKey, version: str, old: msgspec.Struct, new: msgspec.Struct
) -> tuple[Change, ...]:
    """Return the change that makes the status *new*: none if it is.

    Only the state that the decision was made from, *version*, is changed: should the object be
    newer, the server refuses, and the decision is made again. An empty version means any; the plan
    changes the object before.
    """
    patch = differences(old, new)
    if not patch:
        return ()
    document: Document = {"status": patch}
    if version:
        document["metadata"] = {"resourceVersion": version}
    return (Change(resource=resource, key=key, patch=document, subresource="status"),)


def soonest(waits: Iterable[float | None]) -> float | None:
    """Return the shortest of some waits; None if there is none."""
    return min((wait for wait in waits if wait is not None), default=None)
