"""The admission webhook as a process: answers API servers, and tells them whom to trust.

API servers call a webhook only if they trust its certificate. A renewed certificate replaces files
of a mounted Secret; `Registration` carries its authority on to the ``caBundle`` of the
ValidatingWebhookConfiguration, where API servers look. It also converts NodeResourceTopologies
between versions, for a definition that names it for that.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from numakube.api.pod import TEMPLATES
from numakube.apps.host import Access
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.http_serving import READ_SECONDS, Health, Serving, body_of
from numakube.apps.host.process_life import new_registry
from numakube.apps.host.program import Program
from numakube.errors import ApiError, ClusterUnreachable, MalformedObject
from numakube.kube import json_patch
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from numakube.kube.connect import connect
from numakube_placement.webhook.admission_review import (
    judge,
    judge_allotment,
    read_review,
    write_review,
)
from numakube_placement.webhook.conversion_review import (
    convert_all,
    read_conversion,
    write_conversion,
)
from numakube_placement.webhook.settings import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.apps.host.process_life import Surroundings
    from numakube.kube import Client
    from numakube.kube.clock import Clock
    from numakube.kube.resource_types import Document, Resource
    from numakube_placement.webhook.admission_review import AdmissionRequest, AdmissionResponse
    from numakube_placement.webhook.settings import WebhookSettings

PATH: Final = "/validate"
ALLOTMENTS_PATH: Final = "/validate/allotments"
CONVERSION_PATH: Final = "/convert"
MAX_BODY_BYTES: Final = 8 << 20
"""An object has less than 2 MiB in etcd, and an update comes with two of them."""
_KINDS: Final = ("Pod", "Node", *TEMPLATES)
"""Kinds that are counted by name; a caller may send any other."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

NOT_YET: Final = "the authority has not been registered yet"


class WebhookMetrics:
    """The metrics of an admission webhook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reviews = Counter(
            "numakube_webhook_reviews_total",
            "Objects reviewed, by kind and answer: allowed, warned, denied or unreadable.",
            ("kind", "answer"),
            registry=registry,
        )
        self.seconds = Histogram(
            "numakube_webhook_review_seconds",
            "Time to review one object.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
            registry=registry,
        )
        self.conversions = Counter(
            "numakube_webhook_conversions_total",
            "Objects converted to another version, by result: converted, failed or unreadable.",
            ("result",),
            registry=registry,
        )
        self.registered = Gauge(
            "numakube_webhook_registered",
            "Whether API servers know the authority of the webhook's certificate.",
            registry=registry,
        )


class Endpoint:
    """Answers questions."""

    def __init__(
        self, metrics: WebhookMetrics, clock: Clock, *, read_seconds: float = READ_SECONDS
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._read_seconds = read_seconds

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post(PATH, self._answer),
            web.post(ALLOTMENTS_PATH, self._answer),
            web.post(CONVERSION_PATH, self._convert),
        ]

    async def _answer(self, request: web.Request) -> web.Response:
        body = await body_of(request, seconds=self._read_seconds)
        try:
            review = read_review(body)
        except MalformedObject as error:
            self._metrics.reviews.labels("other", "unreadable").inc()
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        started = self._clock.monotonic()
        response = (judge_allotment if request.path == ALLOTMENTS_PATH else judge)(review)
        self._metrics.seconds.observe(self._clock.monotonic() - started)
        self._note(review, response)
        return web.Response(body=write_review(response), content_type="application/json")

    async def _convert(self, request: web.Request) -> web.Response:
        body = await body_of(request, seconds=self._read_seconds)
        try:
            wanted = read_conversion(body)
        except MalformedObject as error:
            self._metrics.conversions.labels("unreadable").inc()
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        response = convert_all(wanted)
        if response.result.message:
            _log.warning("not_converted", error=response.result.message)
        result = "failed" if response.result.message else "converted"
        self._metrics.conversions.labels(result).inc(len(wanted.objects))
        return web.Response(body=write_conversion(response), content_type="application/json")

    def _note(self, review: AdmissionRequest, response: AdmissionResponse) -> None:
        tree = review.object or {}
        kind = tree.get("kind", "")
        kind = kind if kind in _KINDS else "other"
        answer = "denied" if not response.allowed else "warned" if response.warnings else "allowed"
        self._metrics.reviews.labels(kind, answer).inc()
        if answer != "allowed":
            meta = tree.get("metadata") or {}
            _log.info(
                "found_wrong",
                answer=answer,
                kind=kind,
                namespace=meta.get("namespace", ""),
                name=meta.get("name") or meta.get("generateName", ""),
                findings=response.status.message if response.status else response.warnings,
            )


class Registration:
    """The authority of our certificate in the configuration *name*, and in a *definition* if given.

    Attributes:
        trouble: why API servers do not know it; empty if they do.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        authority: Path,
        *,
        definition: str = "",
        kind: Resource[Document] = VALIDATING_WEBHOOK_CONFIGURATIONS,
    ) -> None:
        self._kind = kind
        self._client = client
        self._name = name
        self._definition = definition
        self._authority = authority
        self.trouble = NOT_YET

    async def renew(self) -> None:
        """Look at the configuration, and change it if its authority is another one."""
        try:
            bundle = base64.b64encode(self._authority.read_bytes()).decode()
            await self._write(bundle)
            if self._definition:
                await self._write_definition(bundle)
        except (ApiError, ClusterUnreachable, OSError) as error:
            if str(error) != self.trouble:
                _log.warning("authority_not_registered", error=str(error))
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def _write(self, bundle: str) -> None:
        resource = self._kind
        configuration = await self._client.get(resource, self._name)
        operations: list[dict[str, Any]] = []
        for index, hook in enumerate(configuration.get("webhooks") or ()):
            if hook["clientConfig"].get("caBundle") != bundle:
                path = f"/webhooks/{index}"
                operations += [
                    {"op": "test", "path": f"{path}/name", "value": hook["name"]},
                    {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": bundle},
                ]
        if operations:
            await self._client.patch(resource, self._name, json_patch(operations))
            _log.info("authority_registered", configuration=self._name)

    async def _write_definition(self, bundle: str) -> None:
        """Have API servers trust us for conversions; a definition that has none is left alone."""
        resource = CUSTOM_RESOURCE_DEFINITIONS
        definition = await self._client.get(resource, self._definition)
        webhook = (definition["spec"].get("conversion") or {}).get("webhook")
        if webhook is None or webhook["clientConfig"].get("caBundle") == bundle:
            return
        path = "/spec/conversion/webhook/clientConfig/caBundle"
        operation = {"op": "add", "path": path, "value": bundle}
        await self._client.patch(resource, self._definition, json_patch([operation]))
        _log.info("authority_registered", definition=self._definition)


async def run(settings: WebhookSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Answer until *stop* is set; return the exit code.

    Args:
        settings: what it was told.
        around: clock, environment and file system.
        stop: set when the process is to end.
    """
    registry = new_registry("webhook")
    metrics, health = WebhookMetrics(registry), Health()
    async with AsyncExitStack() as stack:
        client = await _client(settings, around, stack)
        registration = _registration(settings, around, client)
        if registration is not None:
            health.ready("registration", lambda: registration.trouble)
        listen = around.placed(listen_of(settings.serving, locate=around.locate))
        server = await stack.enter_async_context(
            Serving(
                listen,
                health=health,
                registry=registry,
                access=None if client is None else Access(client, host=listen.host),
                routes=Endpoint(metrics, around.clock).routes(),
                max_body_bytes=MAX_BODY_BYTES,
            )
        )
        _log.info("serving", url=server.url)
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(
                _keep(registration, metrics, around, settings.registration.interval)
            )
            await stop.wait()
            keeping.cancel()
    return 0


async def _keep(
    registration: Registration | None,
    metrics: WebhookMetrics,
    around: Surroundings,
    seconds: float,
) -> None:
    """See to it that API servers know the authority, again and again."""
    while registration is not None:
        await registration.renew()
        metrics.registered.set(not registration.trouble)
        await around.clock.sleep(seconds)


async def _client(
    settings: WebhookSettings, around: Surroundings, stack: AsyncExitStack
) -> Client | None:
    """Return a client of the cluster, if there is anything to do there."""
    if not settings.registration.ca_file:
        return None
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    return await stack.enter_async_context(
        connect(config, clock=around.clock, env=around.env, user_agent="numakube-webhook")
    )


def _registration(
    settings: WebhookSettings, around: Surroundings, client: Client | None
) -> Registration | None:
    if client is None:
        return None
    authority = around.locate(settings.registration.ca_file)
    return Registration(
        client, settings.registration.configuration, authority, definition=settings.definition
    )


_ABOUT: Final = """\
Answers AdmissionReviews at /validate, beside health and metrics. Pods with mistakes are refused;
for pod templates and node labels the user gets a warning. Without --ca-file no cluster is needed.
At /convert it converts NodeResourceTopologies between versions, the proposed v1beta1 included.
"""

PROGRAM: Final = Program(
    name="webhook",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
