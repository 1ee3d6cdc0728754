"""Applies objects, removes them, and waits until they are ready or gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.deployer.definition_upgrade import (
    hindrance_to_upgrade,
    missing_versions,
    upgraded,
)
from numakube.apps.deployer.workload_readiness import hindrance, waits_for
from numakube.apps.ownership_labels import managed, manager_of
from numakube.errors import ConfigError, NotFound
from numakube.kube.catalog import ROLES, resource_of
from numakube.manifests.rbac_rules import leases_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document

FIELD_MANAGER: Final = "numakube-deployer"
_SHARED: Final = ("Namespace", "CustomResourceDefinition")
"""Kinds whose objects may serve others too; one that was there before is left as it is."""
_POLL_SECONDS: Final = 1.0


class Deed(StrEnum):
    """What became of an object."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    KEPT = "kept: it was there before"
    UPGRADED = "upgraded"
    DELETED = "deleted"
    ABSENT = "not found"
    FOREIGN = "kept: numakube did not deploy it"
    USED = "kept"


@dataclass(frozen=True, slots=True)
class Step:
    """One object, what became of it, and why if that is not plain."""

    name: str
    deed: Deed
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.deed}{': ' if self.why else ''}{self.why}"


@dataclass(slots=True, kw_only=True)
class Engine:
    """Works on a cluster.

    Attributes:
        tell: is called with every step.
        dry_run: have the server check everything, and change nothing.
        adopt: take over objects of ours that another program created.
    """

    client: Client
    tell: Callable[[Step], None]
    dry_run: bool = False
    adopt: bool = False

    async def deploy(self, documents: Sequence[Document]) -> None:
        """Apply *documents* in order.

        Raises:
            ConfigError: an object of that name exists that we did not make.
        """
        before = [await self._live(document) for document in documents]
        if not self.adopt:
            for document, live in zip(documents, before, strict=True):
                if live is not None and not is_ours(live) and document["kind"] not in _SHARED:
                    raise ConfigError(
                        f"{name_of(document)} exists and was not deployed by numakube;"
                        " --adopt takes it over"
                    )
        missing = {
            document["metadata"]["name"]
            for document, live in zip(documents, before, strict=True)
            if document["kind"] == "Namespace" and live is None
        }
        for document, live in zip(documents, before, strict=True):
            if live is not None and not is_ours(live) and document["kind"] in _SHARED:
                self.tell(await self._keep(document, live))
            else:
                self.tell(Step(name_of(document), await self._apply(document, live, missing)))

    async def _keep(self, document: Document, live: Document) -> Step:
        """Leave an object of others as it is, but for versions that a definition lacks."""
        name = name_of(document)
        missing = missing_versions(live, document) if "versions" in document.get("spec", {}) else []
        if not missing:
            return Step(name, Deed.KEPT)
        versions = ", ".join(missing)
        if why := hindrance_to_upgrade(live, document):
            return Step(name, Deed.USED, f"it lacks {versions}, but {why}")
        await self.client.update(
            resource_of(document),
            upgraded(live, document),
            field_manager=FIELD_MANAGER,
            dry_run=self.dry_run,
        )
        return Step(name, Deed.UPGRADED, f"{versions} added")

    async def _apply(self, document: Document, live: Document | None, missing: set[str]) -> Deed:
        namespace = document["metadata"].get("namespace", "")
        if self.dry_run and namespace in missing:
            # The server refuses objects in a namespace that is not there yet.
            return Deed.CREATED
        applied = await self.client.apply(
            resource_of(document),
            managed(document, FIELD_MANAGER),
            namespace=namespace,
            field_manager=FIELD_MANAGER,
            force=True,
            dry_run=self.dry_run,
        )
        if live is None:
            return Deed.CREATED
        same = applied["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
        return Deed.UNCHANGED if same else Deed.CONFIGURED

    async def remove(
        self,
        documents: Sequence[Document],
        keeps: Callable[[Document, Sequence[Document]], Awaitable[str]],
    ) -> list[Document]:
        """Delete *documents* in reverse order, as far as we made them; return what has to go.

        Args:
            documents: what was asked for.
            keeps: why one of them is needed still, given what has gone before it; empty if it is
                not.
        """
        going: list[Document] = []
        for document in reversed(documents):
            live = await self._live(document)
            if live is None:
                self.tell(Step(name_of(document), Deed.ABSENT))
            elif not is_ours(live):
                self.tell(Step(name_of(document), Deed.FOREIGN))
            elif why := await keeps(document, going):
                self.tell(Step(name_of(document), Deed.USED, why))
            else:
                await self._delete(document, live)
                self.tell(Step(name_of(document), Deed.DELETED))
                going += [document, *await self._remove_leases(live)]
        return going

    async def _remove_leases(self, role: Document) -> list[Document]:
        """Delete the leases that only the holder of *role*, which is gone, could write."""
        going = []
        leases = leases_of(role)
        shared = await self._leases_of_others(role) if leases else set()
        for lease in leases:
            live = await self._live(lease)
            if live is not None and lease["metadata"]["name"] not in shared:
                await self._delete(lease, live)
                self.tell(Step(name_of(lease), Deed.DELETED))
                going.append(lease)
        return going

    async def _leases_of_others(self, role: Document) -> set[str]:
        """Return the leases that another role of its namespace names, such as one that it gave."""
        name, namespace = role["metadata"]["name"], role["metadata"]["namespace"]
        listed = await self.client.list(ROLES, namespace=namespace)
        others = [one for one in listed.items if one["metadata"]["name"] != name]
        return {
            lease["metadata"]["name"]
            for one in others
            for lease in leases_of({**one, "kind": role["kind"]})
        }

    async def _delete(self, document: Document, live: Document) -> None:
        metadata = live["metadata"]
        try:
            await self.client.delete(
                resource_of(document),
                metadata["name"],
                namespace=metadata.get("namespace", ""),
                uid=metadata["uid"],
                dry_run=self.dry_run,
            )
        except NotFound:
            return

    async def wait_ready(
        self, documents: Sequence[Document], seconds: float, progress: Callable[[str], None]
    ) -> str:
        """Wait until everything runs; return what is still missing when the time is over."""
        return await self._poll(documents, seconds, progress, waits_for)

    async def wait_gone(
        self, documents: Sequence[Document], seconds: float, progress: Callable[[str], None]
    ) -> str:
        """Wait until *documents* are gone; return what is still there at the end."""

        def still_there(document: Document, live: Document | None) -> str:
            return "" if live is None else f"{name_of(document)} is still there"

        return await self._poll(documents, seconds, progress, still_there)

    async def _poll(
        self,
        documents: Sequence[Document],
        seconds: float,
        progress: Callable[[str], None],
        judge: Callable[[Document, Document | None], str],
    ) -> str:
        deadline = self.client.clock.monotonic() + seconds
        while True:
            waiting = ""
            for document in documents:
                live = await self._live(document)
                waiting = judge(document, live)
                if waiting:
                    why = await hindrance(self.client, live) if live and judge is waits_for else ""
                    waiting = f"{waiting}: {why}" if why else waiting
                    break
            if not waiting or self.client.clock.monotonic() >= deadline:
                return waiting
            progress(waiting)
            await self.client.clock.sleep(_POLL_SECONDS)

    async def _live(self, document: Document) -> Document | None:
        metadata = document["metadata"]
        try:
            return await self.client.get(
                resource_of(document),
                metadata["name"],
                namespace=metadata.get("namespace", ""),
            )
        except NotFound:
            return None


def name_of(document: Document) -> str:
    """Return how kubectl calls an object, with its namespace."""
    metadata: dict[str, Any] = document["metadata"]
    name = f"{document['kind'].lower()}/{metadata['name']}"
    namespace = metadata.get("namespace")
    return f"{name} in {namespace}" if namespace else name


def is_ours(live: Document) -> bool:
    """Tell whether `numakube deploy` has made an object."""
    return manager_of(live) == FIELD_MANAGER
