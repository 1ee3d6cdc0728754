"""The way in for kube-scheduler's calls: limits, times, tokens, and the form of errors.

kube-scheduler takes any status but 200 for a failed call and does not look at the body. So what it
sent in good form is answered by 200, with an ``Error`` that it shows on the pod where the protocol
has one; everything else gets a 4xx with a sentence for people who try by hand.

It cannot send a bearer token. It does send user and password of its ``urlPrefix``, so a token may
stand there as the password: ``https://numakube:TOKEN@numakube-extender...``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import structlog
from aiohttp import web

from numakube.apps.extender.extender_messages import (
    BindingArgs,
    BindingResult,
    FilterResult,
    PreemptionArgs,
    Requests,
    read,
    write,
)
from numakube.apps.host.http_serving import READ_SECONDS, body_of
from numakube.errors import MalformedObject, NumakubeError
from numakube.http import response_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube.apps.extender.metrics import ExtenderMetrics
    from numakube.apps.extender.verbs import Verbs
    from numakube.apps.host.http_serving import Handler
    from numakube.http import Answer, Answered, Head
    from numakube.kube.clock import Clock

MAX_BODY_BYTES: Final = 32 << 20
"""Five thousand nodes as whole objects; with names a request has some hundred kilobytes."""
KEEP_ALIVE_SECONDS: Final = 300.0
"""kube-scheduler drops idle connections after 90 seconds; it must be the one who closes."""

_JSON: Final = "application/json"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_Answer: TypeAlias = "Callable[[bytes], bytes | Awaitable[bytes]]"


class VerbEndpoints:
    """The routes of the verbs."""

    def __init__(
        self,
        verbs: Verbs,
        metrics: ExtenderMetrics,
        clock: Clock,
        *,
        not_ready: Callable[[], str],
        token: Callable[[], str] | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._verbs = verbs
        self._metrics = metrics
        self._clock = clock
        self._not_ready = not_ready
        self._token = token
        self._read_seconds = read_seconds
        self._requests = Requests()
        self._handlers: dict[str, _Answer] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, which answer every request."""
        handlers = self._handlers.items()
        return [web.post(f"/{verb}", self._guarded(verb, do)) for verb, do in handlers]

    def posts(self) -> dict[str, Answer]:
        """Return what answers plain requests that nothing is wrong with."""
        return {f"/{verb}": self._plain(verb, do) for verb, do in self._handlers.items()}

    def _plain(self, verb: str, answer: _Answer) -> Answer:
        count = self._metrics.requests.labels(verb, "200").inc
        observe = self._metrics.seconds.labels(verb).observe
        clock = self._clock

        def noted(written: bytes, started: float) -> bytes:
            observe(clock.monotonic() - started)
            count()
            return response_of(written)

        async def later(written: Awaitable[bytes], started: float) -> bytes:
            return noted(await written, started)

        def handle(head: Head, body: bytes) -> Answered:
            if not self._is_shown(head.headers.get("Authorization", "")) or self._not_ready():
                return None
            started = clock.monotonic()
            written = answer(body)
            if isinstance(written, bytes):
                return noted(written, started)
            return later(written, started)

        return handle

    def _guarded(self, verb: str, answer: _Answer) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            status = 500
            try:
                response = await self._answer(request, verb, answer)
                status = response.status
            except web.HTTPException as refusal:
                status = refusal.status
                raise
            finally:
                self._metrics.requests.labels(verb, str(status)).inc()
            return response

        return handle

    async def _answer(self, request: web.Request, verb: str, answer: _Answer) -> web.Response:
        if not self._is_shown(request.headers.get("Authorization", "")):
            raise web.HTTPUnauthorized(
                text="show the token: as bearer, or as the password in urlPrefix\n",
                headers={"WWW-Authenticate": "Basic"},
            )
        missing = self._not_ready()
        if missing:
            raise web.HTTPServiceUnavailable(text=f"not ready: {missing}\n")
        body = await body_of(request, seconds=self._read_seconds)
        started = self._clock.monotonic()
        try:
            written = answer(body)
            written = written if isinstance(written, bytes) else await written
            return web.Response(body=written, content_type=_JSON)
        except MalformedObject as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        except NumakubeError as error:
            raise web.HTTPUnprocessableEntity(text=f"{error}\n") from None
        except Exception as error:
            _log.error("call_failed", verb=verb, error=repr(error), exc_info=error)
            raise web.HTTPInternalServerError(text=f"internal error: {error!r}\n") from None
        finally:
            self._metrics.seconds.labels(verb).observe(self._clock.monotonic() - started)

    def _is_shown(self, authorization: str) -> bool:
        """Tell whether the header shows the token, if there is one."""
        if self._token is None:
            return True
        # A header may have bytes that are no text.
        shown = token_in(authorization).encode(errors="replace")
        return hmac.compare_digest(shown, self._token().encode())

    def _filter(self, body: bytes) -> bytes:
        args = self._requests.read(body)
        try:
            result = self._verbs.filter(args)
        except MalformedObject:
            raise
        except NumakubeError as error:
            result = FilterResult(error=str(error))
        if result.node_names:
            encoded = self._requests.expect(result.node_names)
            return write(msgspec.structs.replace(result, node_names=encoded))
        return write(result)

    def _prioritize(self, body: bytes) -> bytes:
        return write(self._verbs.prioritize(self._requests.read(body)))

    def _preempt(self, body: bytes) -> bytes:
        return write(self._verbs.preempt(read(PreemptionArgs, body)))

    async def _bind(self, body: bytes) -> bytes:
        args = read(BindingArgs, body)
        if not (args.pod_name and args.pod_namespace and args.pod_uid and args.node):
            return write(BindingResult(error="PodName, PodNamespace, PodUID and Node are needed"))
        return write(await self._verbs.bind(args))


def token_in(header: str) -> str:
    """Return the token in an ``Authorization`` header: a bearer token, or a basic password."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return pair.partition(":")[2]
