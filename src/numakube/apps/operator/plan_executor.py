"""Does what a plan says, against the API server, and takes back what others have added.

Objects are applied on the server under our own name as field manager, by force: a field that we set
is ours, and one that a user changed is set back. Fields that we do not mention are left alone,
but for what others add to configuration and pods (see `foreign_edits`). An object that no one has
touched since we wrote the same is not written again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog

from numakube.apps.operator.planned_actions import Action, Apply, Remove
from numakube.apps.ownership_labels import managed
from numakube.errors import ApiError, Conflict, NotFound
from numakube.kube.catalog import resource_of
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.meta import ObjectMeta
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document


# What others have added to objects that are the operator's alone.
#
# Applying sets back what we mention and leaves what we do not. For configuration and for pods that
# is too little: another key, container or host name is not ours and has an effect. The object's own
# record of who has set what (``metadata.managedFields``) tells them from defaults, which no manager
# has set. Labels and annotations are anybody's, and subresources have their own users.


_OURS: Final = {
    "ConfigMap": ("data", "binaryData"),
    "Deployment": ("spec",),
    "DaemonSet": ("spec",),
}
"""The kinds whose content is ours alone, and where it is."""


def removal_of_additions(document: Document, manager: str) -> Document | None:
    """Return the merge patch that takes back what others than *manager* have added.

    Args:
        document: the object as the server has it.
        manager: our name as field manager.

    Returns:
        The patch, which fails if the object has changed since; ``None`` if there is nothing.
    """
    ours: Document = {}
    theirs: Document = {}
    for entry in document["metadata"].get("managedFields", ()):
        if not entry.get("subresource"):
            side = ours if entry.get("manager") == manager else theirs
            _merge(side, entry.get("fieldsV1") or {})
    patch: Document = {}
    for root in _OURS.get(document["kind"], ()):
        named = theirs.get(f"f:{root}")
        if named is not None and root in document:
            old = document[root]
            _note(patch, root, old, _without(old, named, ours.get(f"f:{root}", {})))
    if not patch:
        return None
    return {"metadata": {"resourceVersion": document["metadata"]["resourceVersion"]}, **patch}


def _merge(into: Document, fields: Document) -> None:
    for key, inner in fields.items():
        _merge(into.setdefault(key, {}), inner)


def _without(value: object, theirs: Document, ours: Document) -> object:
    """Return *value* without what *theirs* names and *ours* does not."""
    if isinstance(value, dict):
        return _fields_without(value, theirs, ours)
    if isinstance(value, list):
        kept = (_item_without(item, theirs, ours) for item in value)
        return [item for item in kept if item is not None]
    return value


def _fields_without(value: Document, theirs: Document, ours: Document) -> Document:
    kept: Document = {}
    for name, inner in value.items():
        key = f"f:{name}"
        if key not in theirs or name == "metadata":
            kept[name] = inner
        elif key in ours:
            kept[name] = _without(inner, theirs[key], ours[key])
    return kept


def _item_without(item: object, theirs: Document, ours: Document) -> object:
    """Return an item of a list, ``None`` if it is not ours at all."""
    for key, inner in theirs.items():
        if _is_named(item, key):
            return _without(item, inner, ours[key]) if key in ours else None
    return item


def _is_named(item: object, key: str) -> bool:
    """Tell whether *key* of a field set, ``k:{"name":"a"}`` or ``v:"a"``, is about *item*."""
    kind, _, text = key.partition(":")
    if kind == "k" and isinstance(item, dict):
        return all(item.get(name) == part for name, part in json.loads(text).items())
    return kind == "v" and bool(item == json.loads(text))


def _note(patch: Document, name: str, old: object, new: object) -> None:
    """Write into *patch* how *old* becomes *new*, which lacks some of it."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            patch[name] = new
        return
    inner: Document = {key: None for key in old if key not in new}
    for key, kept in new.items():
        _note(inner, key, old[key], kept)
    if inner:
        patch[name] = inner


FIELD_MANAGER: Final = "numakube-operator"

Kind: TypeAlias = str

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was done; *written* are the objects that changed, as the server has them."""

    written: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """The server refused something; the message names it."""

    message: str


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What we wrote, and how to see whether a user has changed the object since."""

    digest: str
    uid: str
    mark: str


class Executor:
    """Performs actions.

    Args:
        client: the API server.
        live: tells the metadata of an object that is watched; ``None`` if there is none.
    """

    def __init__(
        self, client: Client, live: Callable[[Kind, ObjectKey], ObjectMeta | None]
    ) -> None:
        self._client = client
        self._live = live
        self._memory: dict[tuple[Kind, ObjectKey], _Remembered] = {}

    def forget(self) -> None:
        """Write everything again the next time."""
        self._memory.clear()

    async def perform(self, actions: Iterable[Action]) -> Done | ActionFailed:
        """Do *actions* in order, up to the first that the server refuses."""
        written = []
        for action in actions:
            try:
                if isinstance(action, Remove):
                    await self._delete(action)
                elif not self._is_up_to_date(action):
                    written.append(await self._apply(action))
            except ApiError as error:
                return ActionFailed(f"{_verb(action)} ({_kind(action)}) {_name(action)}: {error}")
        return Done(tuple(written))

    def _is_up_to_date(self, action: Apply) -> bool:
        remembered = self._memory.get((action.document["kind"], _key(action.document)))
        if remembered is None or remembered.digest != _digest(action.document):
            return False
        metadata = self._live(action.document["kind"], _key(action.document))
        if metadata is None or metadata.uid != remembered.uid:
            return False
        return remembered.mark == _mark(metadata.generation, metadata.resource_version)

    async def _apply(self, action: Apply) -> Document:
        document = managed(action.document, FIELD_MANAGER)
        result = await self._client.apply(
            resource_of(document),
            document,
            namespace=document["metadata"].get("namespace", ""),
            field_manager=FIELD_MANAGER,
            force=True,
        )
        result = await self._tidied(result)
        metadata: dict[str, Any] = result["metadata"]
        self._memory[document["kind"], _key(document)] = _Remembered(
            _digest(action.document),
            metadata["uid"],
            _mark(metadata.get("generation", 0), metadata["resourceVersion"]),
        )
        return result

    async def _tidied(self, document: Document) -> Document:
        """Take back what others have added to an object, and return it as it is then."""
        patch = removal_of_additions(document, FIELD_MANAGER)
        if patch is None:
            return document
        kind, key = document["kind"], _key(document)
        _log.info("additions_removed", kind=kind, name=str(key))
        return await self._client.patch(
            resource_of(document),
            key.name,
            merge_patch(patch),
            namespace=key.namespace,
            field_manager=FIELD_MANAGER,
        )

    async def _delete(self, action: Remove) -> None:
        resource = resource_of({"apiVersion": action.api_version, "kind": action.kind})
        try:
            await self._client.delete(
                resource, action.name, namespace=action.namespace, uid=action.uid
            )
        except (NotFound, Conflict):
            return  # It is gone, or another one of that name.
        _log.info("object_removed", kind=action.kind, name=action.name)


def _mark(generation: int, version: str) -> str:
    """Return what changes with the object; where the spec has a generation, with that alone."""
    return f"generation {generation}" if generation else version


def _digest(document: Document) -> str:
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()


def _key(document: Document) -> ObjectKey:
    metadata = document["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def _verb(action: Action) -> str:
    return "failed to apply" if isinstance(action, Apply) else "could not delete object"


def _kind(action: Action) -> str:
    return str(action.document["kind"]) if isinstance(action, Apply) else action.kind


def _name(action: Action) -> str:
    if isinstance(action, Apply):
        return str(_key(action.document))
    return str(ObjectKey(action.namespace, action.name))
