"""Applies objects, removes them, and waits until they are ready or gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.ownership_labels import managed, manager_of
from numakube.errors import ApiError, ConfigError, NotFound
from numakube.kube.catalog import CONFIG_MAPS, PODS, ROLES, SECRETS, resource_of
from numakube.manifests.rbac_rules import leases_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document


# How a definition that others installed gets the versions that ours has and it lacks.
#
# Versions are only added. What is stored stays readable: definitions of ours convert nothing, so
# every version is the same object with some fields unknown. The version of storage becomes ours: an
# older one would lose the fields that it does not know. A definition that another program keeps as
# it is, or that has versions which we do not know, is left alone.


_OLM: Final = "olm.managed"


def missing_versions(live: Document, wanted: Document) -> list[str]:
    """Return the versions that *wanted* has and *live* lacks."""
    there = {version["name"] for version in live["spec"]["versions"]}
    return [
        version["name"] for version in wanted["spec"]["versions"] if version["name"] not in there
    ]


def hindrance_to_upgrade(live: Document, wanted: Document) -> str:
    """Return why *live* cannot be given the versions of *wanted*; empty if it can."""
    known = {version["name"] for version in wanted["spec"]["versions"]}
    newer = [
        version["name"] for version in live["spec"]["versions"] if version["name"] not in known
    ]
    keeper = "OLM" if _OLM in live["metadata"].get("labels", {}) else manager_of(live)
    if live["spec"]["scope"] != wanted["spec"]["scope"]:
        return f"its objects are {live['spec']['scope']}, which cannot be changed; delete it first"
    if newer:
        return f"it has {', '.join(newer)}, which this release does not know"
    if any(
        (entry["spec"].get("conversion") or {}).get("strategy", "None") != "None"
        for entry in (live, wanted)
    ):
        return "a webhook has to convert between its versions"
    return f"{keeper} manages it; upgrade it there" if keeper else ""


def upgraded(live: Document, wanted: Document) -> Document:
    """Return *live* with the versions of *wanted* that it lacks; others own the rest of it."""
    added = missing_versions(live, wanted)
    stored = next(version["name"] for version in wanted["spec"]["versions"] if version["storage"])
    entries: list[dict[str, Any]] = [
        *live["spec"]["versions"],
        *(version for version in wanted["spec"]["versions"] if version["name"] in added),
    ]
    versions = [{**entry, "storage": entry["name"] == stored} for entry in entries]
    return {**live, "spec": {**live["spec"], "versions": versions}}


# Whether a workload that was deployed runs, and if not, what keeps its pods from running.


_HARMLESS: Final = ("ContainerCreating", "PodInitializing")


def waits_for(document: Document, live: Document | None) -> str:
    """Return what an object waits for; empty if it is as it should be."""
    kind, name = document["kind"], document["metadata"]["name"]
    if live is None:
        return f"{kind.lower()}/{name} is not there yet"
    match kind:
        case "CustomResourceDefinition":
            return "" if _holds(live, "Established") else f"kind {name} is not served yet"
        case "DaemonSet":
            return _daemon_set(name, live)
        case "Deployment":
            return _deployment(name, live)
        case _:
            return ""


def _daemon_set(name: str, live: Document) -> str:
    status: dict[str, Any] = live.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    if _is_unseen(live, status):
        return f"daemonset/{name} has not been looked at yet"
    if status.get("updatedNumberScheduled", 0) < wanted:
        return f"daemonset/{name}: {status.get('updatedNumberScheduled', 0)} of {wanted} updated"
    if status.get("numberReady", 0) < wanted:
        return f"daemonset/{name}: {status.get('numberReady', 0)} of {wanted} ready"
    return ""


def _deployment(name: str, live: Document) -> str:
    status: dict[str, Any] = live.get("status", {})
    wanted = live["spec"].get("replicas", 1)
    if _is_unseen(live, status):
        return f"deployment/{name} has not been looked at yet"
    for count, word in (("updatedReplicas", "updated"), ("availableReplicas", "available")):
        if status.get(count, 0) < wanted:
            return f"deployment/{name}: {status.get(count, 0)} of {wanted} {word}"
    if status.get("replicas", 0) > wanted:
        return f"deployment/{name}: {status['replicas'] - wanted} old ones still run"
    return ""


def _is_unseen(live: Document, status: dict[str, Any]) -> bool:
    generation: int = live["metadata"].get("generation", 0)
    return bool(status.get("observedGeneration", 0) < generation)


def _holds(live: Document, type_: str) -> bool:
    conditions = live.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == type_ and condition["status"] == "True" for condition in conditions
    )


async def hindrance(client: Client, live: Document) -> str:
    """Return why pods of the workload *live* do not come to run; empty if nothing is known."""
    if "template" not in live.get("spec", {}):
        return ""
    try:
        return await _missing(client, live) or await _told(client, live)
    except ApiError:
        return ""  # who may not look gets no reason


async def _missing(client: Client, live: Document) -> str:
    namespace = live["metadata"]["namespace"]
    for volume in live["spec"]["template"]["spec"].get("volumes") or ():
        for resource, field, key in (
            (SECRETS, "secret", "secretName"),
            (CONFIG_MAPS, "configMap", "name"),
        ):
            source = volume.get(field) or {}
            if not source or source.get("optional"):
                continue
            try:
                await client.get(resource, source[key], namespace=namespace)
            except NotFound:
                return f"the {resource.kind} {source[key]} in {namespace} does not exist"
    return ""


async def _told(client: Client, live: Document) -> str:
    labels = live["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    found = await client.list(PODS.raw, namespace=live["metadata"]["namespace"], labels=selector)
    words = (word for pod in found.items for word in _words(pod))
    return next(words, "")


def _words(pod: dict[str, Any]) -> Iterator[str]:
    """Yield what a pod says about why it does not run."""
    status = pod.get("status") or {}
    for entry in status.get("containerStatuses") or ():
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _HARMLESS:
            message = f" ({waiting['message']})" if waiting.get("message") else ""
            yield f"{pod['metadata']['name']}: {waiting['reason']}{message}"
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            why = condition.get("message") or condition.get("reason")
            yield f"{pod['metadata']['name']}: {why}"


FIELD_MANAGER: Final = "numakube-deployer"
_SHARED: Final = ("Namespace", "CustomResourceDefinition")
"""Kinds whose objects may serve others too; one that was there before is left as it is."""
_WRITTEN_BY_SERVERS: Final = ("managedFields", "resourceVersion")
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
class DeployStep:
    """One object, what became of it, and why if that is not plain."""

    name: str
    deed: Deed
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.deed}{': ' if self.why else ''}{self.why}"


@dataclass(slots=True, kw_only=True)
class DeployEngine:
    """Works on a cluster.

    Attributes:
        tell: is called with every step.
        dry_run: have the server check everything, and change nothing.
        adopt: take over objects of ours that another program created.
    """

    client: Client
    tell: Callable[[DeployStep], None]
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
                self.tell(DeployStep(name_of(document), await self._apply(document, live, missing)))

    async def _keep(self, document: Document, live: Document) -> DeployStep:
        """Leave an object of others as it is, but for versions that a definition lacks."""
        name = name_of(document)
        missing = missing_versions(live, document) if "versions" in document.get("spec", {}) else []
        if not missing:
            return DeployStep(name, Deed.KEPT)
        versions = ", ".join(missing)
        if why := hindrance_to_upgrade(live, document):
            return DeployStep(name, Deed.USED, f"it lacks {versions}, but {why}")
        await self.client.update(
            resource_of(document),
            upgraded(live, document),
            field_manager=FIELD_MANAGER,
            dry_run=self.dry_run,
        )
        return DeployStep(name, Deed.UPGRADED, f"{versions} added")

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
        return Deed.UNCHANGED if _content(applied) == _content(live) else Deed.CONFIGURED

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
                self.tell(DeployStep(name_of(document), Deed.ABSENT))
            elif not is_ours(live):
                self.tell(DeployStep(name_of(document), Deed.FOREIGN))
            elif why := await keeps(document, going):
                self.tell(DeployStep(name_of(document), Deed.USED, why))
            else:
                await self._delete(document, live)
                self.tell(DeployStep(name_of(document), Deed.DELETED))
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
                self.tell(DeployStep(name_of(lease), Deed.DELETED))
                going.append(lease)
        return going

    async def _leases_of_others(self, role: Document) -> set[str]:
        """Return the leases that another role of its namespace names, such as one that it gave."""
        name, namespace = role["metadata"]["name"], role["metadata"]["namespace"]
        listed = await self.client.list(ROLES, namespace=namespace)
        others = [item for item in listed.items if item["metadata"]["name"] != name]
        return {
            lease["metadata"]["name"]
            for other in others
            for lease in leases_of({**other, "kind": role["kind"]})
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


def _content(document: Document) -> Document:
    """Return what an apply may change in an object.

    Its version tells nothing: others write its status at any time, and an API server writes an
    object whose list of writers is in no order of names when the next one applies nothing new.
    """
    metadata = document["metadata"].items()
    kept = {name: value for name, value in metadata if name not in _WRITTEN_BY_SERVERS}
    return {name: value for name, value in document.items() if name != "status"} | {
        "metadata": kept
    }
