"""The claim writer as a process: writes claims into new pods, and keeps the templates they name.

API servers ask it about pods with an annotation, or in namespaces with a label, and about nothing
else. It knows the classes of the cluster, and nothing of its nodes: what a claim asks for, some
node can have, or the pod waits and `explain` says why.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from numakube.api.resource_slices import DeviceClass
from numakube.apps.host import Access
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.http_serving import Health, Serving, body_of
from numakube.apps.host.process_life import new_registry, work_until
from numakube.apps.host.program import Program
from numakube.errors import MalformedObject
from numakube.kube import EventRecorder, Reflector
from numakube.kube.catalog import DEVICE_CLASSES, MUTATING_WEBHOOK_CONFIGURATIONS
from numakube.kube.connect import connect
from numakube_dra_driver.claims.claim_writing import WRITER
from numakube_dra_driver.claims.pod_review import answer
from numakube_dra_driver.claims.served_resources import serving_of
from numakube_dra_driver.claims.settings import SETTINGS
from numakube_dra_driver.claims.template_keeper import TemplateKeeper, TemplateMetrics
from numakube_placement.webhook.admission_review import read_review, write_review
from numakube_placement.webhook.process import MAX_BODY_BYTES, Registration

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from numakube.apps.host.process_life import Surroundings
    from numakube.kube import Client
    from numakube.kube.clock import Clock
    from numakube_dra_driver.claims.served_resources import Serving as Served
    from numakube_dra_driver.claims.settings import ClaimWriterSettings
    from numakube_placement.webhook.admission_review import AdmissionRequest, AdmissionResponse

PATH: Final = "/claims"
_UNKNOWN: Final = "the classes of the cluster are not known yet"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ClaimWriterMetrics(TemplateMetrics):
    """The metrics of a claim writer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.reviews = Counter(
            "numakube_claim_writer_reviews_total",
            "Pods reviewed, by answer: written, left, refused or unreadable.",
            ("answer",),
            registry=registry,
        )
        self.seconds = Histogram(
            "numakube_claim_writer_review_seconds",
            "Time to review one pod.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
            registry=registry,
        )
        self.registered = Gauge(
            "numakube_claim_writer_registered",
            "Whether API servers know the authority of the webhook's certificate.",
            registry=registry,
        )


class ClaimEndpoint:
    """Answers API servers."""

    def __init__(
        self, serving: Callable[[], Served | None], metrics: ClaimWriterMetrics, clock: Clock
    ) -> None:
        self._serving = serving
        self._metrics = metrics
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        """Return the routes: what a namespace says is the end of the path."""
        return [web.post(PATH, self._answer), web.post(f"{PATH}/{{policy}}", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        serving = self._serving()
        if serving is None:
            raise web.HTTPServiceUnavailable(text=f"{_UNKNOWN}\n")
        try:
            review = read_review(body)
        except MalformedObject as error:
            self._metrics.reviews.labels("unreadable").inc()
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        started = self._clock.monotonic()
        response = answer(review, serving, request.match_info.get("policy", ""))
        self._metrics.seconds.observe(self._clock.monotonic() - started)
        self._note(review, response)
        return web.Response(body=write_review(response), content_type="application/json")

    def _note(self, review: AdmissionRequest, response: AdmissionResponse) -> None:
        said = "written" if response.patch else "left" if response.allowed else "refused"
        self._metrics.reviews.labels(said).inc()
        if response.status is not None or response.warnings:
            told = response.status.message if response.status else "; ".join(response.warnings)
            _log.info("not_as_asked", answer=said, namespace=review.namespace, why=told)


async def run(settings: ClaimWriterSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Write claims until *stop* is set; return the exit code."""
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(config, clock=around.clock, env=around.env, user_agent=WRITER) as client:
        return await ClaimWriter(settings, around, client).run(stop)


class ClaimWriter:
    """A running claim writer."""

    def __init__(self, settings: ClaimWriterSettings, around: Surroundings, client: Client) -> None:
        self._settings = settings
        self._around = around
        self._client = client
        self._registry = new_registry("claim-writer")
        self._metrics = ClaimWriterMetrics(self._registry)
        self._serving: Served | None = None
        self._classes = Reflector(client, DEVICE_CLASSES.decoded_as(DeviceClass))
        self._classes.store.subscribe(lambda _: self._forget())
        self._events = EventRecorder(client, component=WRITER, instance=WRITER)
        self._keeper = TemplateKeeper(
            client=client,
            serving=lambda: self._served() or {},
            events=self._events,
            metrics=self._metrics,
            keep_seconds=settings.keep,
        )
        self._registration = (
            Registration(
                client,
                settings.registration.configuration,
                around.locate(settings.registration.ca_file),
                kind=MUTATING_WEBHOOK_CONFIGURATIONS,
            )
            if settings.registration.ca_file
            else None
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Write claims until *stop* is set; return the exit code."""
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            parts = (self._classes, self._keeper.pods, self._keeper.templates, self._events)
            return await work_until(
                stop, self._work(), beside=(*parts, self._keeper), clock=self._around.clock
            )

    async def _work(self) -> int:
        """See to it that API servers know the authority, again and again."""
        while True:
            if self._registration is not None:
                await self._registration.renew()
                self._metrics.registered.set(not self._registration.trouble)
            await self._around.clock.sleep(self._settings.registration.interval)

    def _served(self) -> Served | None:
        """Return which class serves which resource; ``None`` as long as that is not known."""
        if self._serving is None and self._classes.synced.is_set():
            self._serving = serving_of(self._classes.store.values())
        return self._serving

    def _forget(self) -> None:
        self._serving = None
        self._keeper.wake()

    async def _serve(self, stack: AsyncExitStack) -> None:
        health = Health()
        health.ready("classes", lambda: "" if self._classes.synced.is_set() else _UNKNOWN)
        health.ready("templates", lambda: self._keeper.trouble)
        registration = self._registration
        if registration is not None:
            health.ready("registration", lambda: registration.trouble)
        listen = self._around.placed(listen_of(self._settings.serving, locate=self._around.locate))
        routes = ClaimEndpoint(self._served, self._metrics, self._around.clock).routes()
        server = await stack.enter_async_context(
            Serving(
                listen,
                health=health,
                registry=self._registry,
                access=Access(self._client, host=listen.host),
                routes=routes,
                max_body_bytes=MAX_BODY_BYTES,
            )
        )
        _log.info("serving", url=server.url)


_ABOUT: Final = """\
Answers AdmissionReviews at /claims, beside health and metrics: Guaranteed pods that ask for it, or
whose namespace does, get a claim for their CPUs, memory, hugepages and devices. Makes the templates
that these pods name, and deletes them when they have not been used for a while.
"""

PROGRAM: Final = Program(
    name="claim-writer",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
