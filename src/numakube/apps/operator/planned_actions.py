"""What a pass over the present state decides: what to apply and delete, and what to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.meta import ObjectMeta
    from numakube.apps.operator.status_conditions import Verdict
    from numakube.kube.resource_types import Document


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object be as described; the fields that it does not mention are others'."""

    document: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove an object, if it is still the one that was seen."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


Action: TypeAlias = Apply | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An object on the server that an operator has made."""

    api_version: str
    kind: str
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do about one object of the user.

    Attributes:
        actions: in order; the first that fails ends the pass.
        verdict: what to say if all of them succeed.
        status: fields of the status besides the conditions.
    """

    actions: tuple[Action, ...] = ()
    verdict: Verdict
    status: dict[str, Any]


def leftovers(made: Iterable[Made], owner_uid: str, wanted: Iterable[Apply]) -> list[Delete]:
    """Return what to remove: objects of this owner that are not wanted any more."""
    names = {_name(one.document) for one in wanted}
    return [
        Delete(
            api_version=one.api_version,
            kind=one.kind,
            namespace=one.metadata.namespace,
            name=one.metadata.name,
            uid=one.metadata.uid,
        )
        for one in made
        if one.metadata.is_owned_by(owner_uid)
        and one.metadata.deletion_timestamp is None
        and (one.kind, one.metadata.namespace, one.metadata.name) not in names
    ]


def _name(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def owned(document: Document, owner: Document) -> Document:
    """Return *document* with *owner* as its controller, so that it vanishes with it."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}
