"""The templates that pods name: made when a pod does, and deleted long after the last one.

A pod names a template that may not be there yet; until it is, Kubernetes makes no claim, and the
pod waits. Templates are named after their content, so nothing has to be remembered, two keepers
never disagree, and one that is deleted too early is made again for the next pod. Only templates
with the keeper's own label are ever deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from numakube.api.meta import Named
from numakube.api.pod import Pod, has_ended
from numakube.errors import AlreadyExists, ApiError, Conflict, InvalidValue, NotFound, NumakubeError
from numakube.kube import Reflector, reference_to
from numakube.kube.catalog import PODS, RESOURCE_CLAIM_TEMPLATES
from numakube.kube.resource_types import ObjectKey, key_of
from numakube_dra_driver.claims.claim_writing import (
    CLAIM,
    MANAGED_BY,
    RECORD,
    TEMPLATE,
    WRITER,
    read_record,
    template_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.kube import Client, EventRecorder
    from numakube_dra_driver.claims.served_resources import Serving

NOT_MADE: Final = "ClaimTemplateNotMade"
_RETRY_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 60.0
_NAMED: Final = RESOURCE_CLAIM_TEMPLATES.decoded_as(Named)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class TemplateMetrics:
    """The metrics of what keeps templates."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.templates = Gauge(
            "numakube_claim_writer_templates",
            "Templates that were made for pods, by whether a pod uses them.",
            ("state",),
            registry=registry,
        )
        self.changes = Counter(
            "numakube_claim_writer_template_changes_total",
            "Templates that were created or deleted, or could not be.",
            ("change",),
            registry=registry,
        )


# ------------------------------------------------------------------------------------------------
# What to do: a function of pods, templates and classes.


@dataclass(frozen=True, slots=True)
class Missing:
    """A template that a pod waits for."""

    pod: Pod
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Impossible:
    """A template that is not made for a pod, and why."""

    pod: Pod
    why: str


def used_by(pod: Pod) -> ObjectKey | None:
    """Return the template that our claim of *pod* is made from, as long as the pod may need it."""
    if has_ended(pod) or pod.metadata.deletion_timestamp is not None:
        return None
    names = (
        claim.resource_claim_template_name
        for claim in pod.spec.resource_claims
        if claim.name == CLAIM
    )
    name = next(names, None)
    return None if name is None else ObjectKey(pod.metadata.namespace, name)


def has_claim(pod: Pod) -> bool:
    """Tell whether Kubernetes has made our claim of *pod* already."""
    statuses = pod.status.resource_claim_statuses if pod.status is not None else ()
    return any(status.name == CLAIM for status in statuses)


def wanted_template(pod: Pod, name: str, serving: Serving) -> Missing | Impossible:
    """Return the template *name* for *pod*, made of what the pod says that was written into it.

    Anybody may write into a pod what he likes. What comes of it asks for devices of classes that
    serve what the pod could have asked for without a claim, and its name says that it is the one.
    """
    try:
        record = read_record(pod.metadata.annotations.get(RECORD, ""))
    except InvalidValue as error:
        return Impossible(pod, str(error))
    for asked in record.requests:
        served = serving.get(asked.resource)
        if served is None or served.name != asked.served_by:
            return Impossible(
                pod,
                f"class {asked.served_by} does not serve {asked.resource} any more: create the pod"
                " again",
            )
    document = template_of(record, pod.metadata.namespace)
    if document["metadata"]["name"] != name:
        return Impossible(pod, f"{RECORD} does not describe template {name}: create the pod again")
    document["metadata"]["labels"] = {MANAGED_BY: WRITER}
    return Missing(pod, document)


# ------------------------------------------------------------------------------------------------
# Doing it.


@dataclass(slots=True, kw_only=True)
class TemplateKeeper:
    """Keeps the templates of a cluster.

    Attributes:
        serving: tells which class serves which resource now.
        keep_seconds: how long a template stays that no pod uses.
        trouble: why something could not be done; empty if everything was.
    """

    client: Client
    serving: Callable[[], Serving]
    events: EventRecorder
    metrics: TemplateMetrics
    keep_seconds: float
    trouble: str = "pods and templates have not been listed yet"
    pods: Reflector[Pod] = field(init=False)
    templates: Reflector[Named] = field(init=False)
    _unused: dict[str, float] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.pods = Reflector(self.client, PODS, labels=TEMPLATE)
        self.templates = Reflector(self.client, _NAMED)
        self.pods.store.subscribe(lambda _: self._news.set())
        self.templates.store.subscribe(lambda _: self._news.set())

    def wake(self) -> None:
        """Look again: a class has changed."""
        self._news.set()

    async def run(self) -> None:
        """Keep templates until cancelled."""
        await self.pods.synced.wait()
        await self.templates.synced.wait()
        while True:
            self._news.clear()
            pause = _LOOK_SECONDS
            try:
                await self.look()
                self.trouble = ""
            except NumakubeError as error:
                if str(error) != self.trouble:
                    _log.warning("templates_not_kept", error=str(error))
                self.trouble, pause = str(error), _RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with self.client.clock.timeout(pause):
                    await self._news.wait()

    async def look(self) -> None:
        """Make the templates that are missing, and delete those that nobody has used for long.

        Raises:
            NumakubeError: the API server does not answer, or not as it should.
        """
        used: dict[ObjectKey, list[Pod]] = {}
        for pod in self.pods.store:
            if (key := used_by(pod)) is not None:
                used.setdefault(key, []).append(pod)
        for key, pods in used.items():
            if key not in self.templates.store:
                await self._make(key, [pod for pod in pods if not has_claim(pod)])
        ours = [
            one for one in self.templates.store if one.metadata.labels.get(MANAGED_BY) == WRITER
        ]
        unused = [one for one in ours if key_of(one) not in used]
        self.metrics.templates.labels("used").set(len(ours) - len(unused))
        self.metrics.templates.labels("unused").set(len(unused))
        now = self.client.clock.monotonic()
        self._unused = {one.metadata.uid: self._unused.get(one.metadata.uid, now) for one in unused}
        for one in unused:
            if now - self._unused[one.metadata.uid] >= self.keep_seconds:
                await self._delete(one)

    async def _make(self, key: ObjectKey, waiting: Iterable[Pod]) -> None:
        """Make a template that pods wait for; one that says nonsense does not harm the others."""
        for pod in waiting:
            found = wanted_template(pod, key.name, self.serving())
            if isinstance(found, Missing):
                await self._create(found)
                return
            self._refuse(pod, found.why)

    def _refuse(self, pod: Pod, why: str) -> None:
        self.events.warning(reference_to(PODS, pod), NOT_MADE, why)
        self.metrics.changes.labels("refused").inc()

    async def _create(self, found: Missing) -> None:
        metadata = found.document["metadata"]
        try:
            await self.client.create(RESOURCE_CLAIM_TEMPLATES, found.document)
        except AlreadyExists:
            return
        except ApiError as error:
            # Its namespace is going, or has a quota: other pods need not wait for that.
            self._refuse(found.pod, str(error))
            return
        self.metrics.changes.labels("created").inc()
        _log.info("template_made", template=metadata["name"], namespace=metadata["namespace"])

    async def _delete(self, template: Named) -> None:
        metadata = template.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self.client.delete(
                RESOURCE_CLAIM_TEMPLATES,
                metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
            )
            self.metrics.changes.labels("deleted").inc()
            _log.info("template_deleted", template=metadata.key)
