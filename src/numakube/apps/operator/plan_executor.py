"""Does what a plan says, against the API server.

Objects are applied on the server under our own name as field manager, by force: a field that we set
is ours, and one that a user changed is set back. Fields that we do not mention are left alone,
but for what others add to configuration and pods (see `foreign_edits`). An object that no one has
touched since we wrote the same is not written again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog

from numakube.apps.operator.foreign_edits import removal_of_additions
from numakube.apps.operator.planned_actions import Action, Apply, Delete
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

FIELD_MANAGER: Final = "numakube-operator"

Kind: TypeAlias = str

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was done; *written* are the objects that changed, as the server has them."""

    written: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Failed:
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

    async def perform(self, actions: Iterable[Action]) -> Done | Failed:
        """Do *actions* in order, up to the first that the server refuses."""
        written = []
        for action in actions:
            try:
                if isinstance(action, Delete):
                    await self._delete(action)
                elif not self._is_up_to_date(action):
                    written.append(await self._apply(action))
            except ApiError as error:
                return Failed(f"{_verb(action)} ({_kind(action)}) {_name(action)}: {error}")
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

    async def _delete(self, action: Delete) -> None:
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
