"""The way in for API servers' questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from numakube.allotment.checking import TEMPLATES
from numakube.apps.host.serving import READ_SECONDS, body_of
from numakube.apps.webhook.judging import judge
from numakube.apps.webhook.protocol import read_review, write_review
from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from numakube.apps.webhook.metrics import WebhookMetrics
    from numakube.apps.webhook.protocol import AdmissionRequest, AdmissionResponse
    from numakube.kube.clock import Clock

PATH: Final = "/validate"
MAX_BODY_BYTES: Final = 8 << 20
"""An object has less than 2 MiB in etcd, and an update comes with two of them."""
_KINDS: Final = ("Pod", "Node", *TEMPLATES)
"""Kinds that are counted by name; whoever can call may send any other."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


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
        return [web.post(PATH, self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        body = await body_of(request, seconds=self._read_seconds)
        try:
            review = read_review(body)
        except MalformedObject as error:
            self._metrics.reviews.labels("other", "unreadable").inc()
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        started = self._clock.monotonic()
        response = judge(review)
        self._metrics.seconds.observe(self._clock.monotonic() - started)
        self._note(review, response)
        return web.Response(body=write_review(response), content_type="application/json")

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
