"""What every long-running process serves: its health and its metrics, over HTTP or HTTPS.

    health = Health()
    health.ready("cache", lambda: "" if synced else "pods are not listed yet")
    async with Serving(Listen(port=8080), health=health, registry=registry) as serving:
        ...  # serving.url

``/livez``, ``/readyz`` (and ``/healthz``, the same as ``/livez``) answer 200 ``ok`` or 503 with the
checks that fail; as with API servers, ``?verbose`` lists all of them, and ``?exclude=NAME`` leaves
one out. ``/metrics`` is in Prometheus' text or OpenMetrics format, for those who may get it. A
process adds routes of its own.

Servers listen on loopback unless told otherwise. Off loopback they need TLS, or the explicit word
that plain HTTP is meant. A client that does not finish the handshake or the head of a first request
in time is cut off, bodies have a size and a time (`body_of`), and compressed ones are
not unpacked. Short answers that are given thousands of times may be *posts*, see
`numakube.http`; each of them has a route as well.

Certificates are read again when their files change. Kubernetes replaces mounted secrets under a
running process, so every handshake looks whether the files are the ones that were read; a pair that
cannot be used keeps the last good one in force.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import structlog
from aiohttp import web
from prometheus_client.exposition import choose_encoder

from numakube.errors import ConfigError
from numakube.http import SERVER_LOG, PlainRequests, names_this_machine
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from prometheus_client import CollectorRegistry

    from numakube.apps.host.endpoint_access import Access
    from numakube.http import Answer, Head

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""Versions of TLS under the names that Kubernetes components give them; older ones are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What a server needs for HTTPS, as files in PEM form.

    Attributes:
        certificate: the certificate with its chain.
        key: its key.
        client_authority: if given, clients must show a certificate of this authority.
        min_version: the least version of TLS, a key of `VERSIONS`.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None
    min_version: str = "VersionTLS12"


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that follows changes of *files*.

    Raises:
        ConfigError: the files cannot be used.
    """
    if files.min_version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise ConfigError(f"TLS version {files.min_version!r} is not supported; known: {known}")
    return _Pair(files).first


class _Pair:
    """A certificate and its key as they were read last."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = _moment(files)
        self.first = self._current = self._read()
        self.first.sni_callback = self._on_handshake

    def _on_handshake(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        moment = _moment(self._files)
        if moment != self._seen:
            self._seen = moment
            self._refresh()
        connection.context = self._current

    def _refresh(self) -> None:
        try:
            self._current = self._read()
        except ConfigError as error:
            _log.warning("certificate_not_replaced", error=str(error))

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[files.min_version]
        try:
            context.load_cert_chain(files.certificate, files.key)
            if files.client_authority is not None:
                context.load_verify_locations(files.client_authority)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # SSLError is an OSError
            what = f"{files.certificate}, {files.key}"
            raise ConfigError(f"cannot serve HTTPS with {what}: {error}") from None
        return context


def _moment(files: TlsFiles) -> tuple[int, ...]:
    """Return what changes when a file is replaced; files that are missing are not there yet."""
    try:
        paths = (files.certificate, files.key, files.client_authority)
        return tuple(path.stat().st_mtime_ns for path in paths if path is not None)
    except OSError:
        return ()


Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, or the empty text."""
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES: Final = 1 << 20
KEEP_ALIVE_SECONDS: Final = 75.0
READ_SECONDS: Final = 10.0
"""For each of: the handshake, the head of the first request on a connection, a body."""
LINGER_SECONDS: Final = 1.0
"""For the rest of a body that was refused: a client that is still sending misses the answer if the
connection is reset at once. A server that ends waits for this, too."""
_LOOPBACK: Final = "127.0.0.1"
_OK: Final = 200
_FAILING: Final = 503
_LONGEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where a server really is, if it cannot be where it was told: pods of the lab share a host.

    Attributes:
        move: whether it listens on any free port of loopback instead.
        announce: called with the port that was meant, and the URL.
    """

    move: bool
    announce: Callable[[int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where to listen.

    Attributes:
        host: an address or a name; loopback by default.
        port: 0 takes a free one.
        tls: certificate and key for HTTPS; plain HTTP without.
        plain: plain HTTP and unknown callers are meant, even where others can reach it.
        elsewhere: where it really is; ``host`` still decides who is let in.
    """

    host: str = _LOOPBACK
    port: int = 0
    tls: TlsFiles | None = None
    plain: bool = False
    elsewhere: Elsewhere | None = None

    def __post_init__(self) -> None:
        """Refuse what would show things to others by accident."""
        if not 0 <= self.port <= _LONGEST_PORT:
            raise ConfigError(f"port {self.port}: must be between 0 and {_LONGEST_PORT}")
        if self.tls is None and not self.plain and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host}:{self.port} can be reached by others: give a certificate and a key "
                "for HTTPS, or allow plain HTTP explicitly"
            )

    @property
    def knows_callers(self) -> bool:
        """Whether callers are of this machine, have shown a certificate, or are meant to be any."""
        shown = self.tls is not None and self.tls.client_authority is not None
        return shown or self.plain or is_loopback(self.host)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``, ``:port`` (every address) or ``[v6]:port``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise ConfigError(f"{text!r} is not an address of the form HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:8080")
    return host or "0.0.0.0", int(port)  # noqa: S104 - refused by `Listen` unless it is meant


async def body_of(request: web.Request, *, seconds: float = READ_SECONDS) -> bytes:
    """Return the body of *request*.

    Raises:
        HTTPException: it is too long, came too slowly, or not in the form of HTTP.
    """
    length, most = request.content_length or 0, request.client_max_size
    if length > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=length)
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the request came too slowly\n") from None
    except (web.RequestPayloadError, ValueError) as error:
        raise web.HTTPBadRequest(text=f"the body cannot be read: {error}\n") from None


@dataclass(slots=True)
class Health:
    """Whether a process is alive, and whether it is ready to do its work."""

    _live: dict[str, Check] = field(default_factory=dict)
    _ready: dict[str, Check] = field(default_factory=dict)

    def live(self, name: str, check: Check) -> None:
        """Add a check without which the process is to be restarted."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add a check without which the process cannot do its work yet."""
        self._ready[name] = check

    def liveness(self) -> dict[str, str]:
        """Return what is wrong by check; the empty text where all is well."""
        return {name: check() for name, check in self._live.items()}

    def readiness(self) -> dict[str, str]:
        """Return what is wrong by check; what is not alive is not ready."""
        return self.liveness() | {name: check() for name, check in self._ready.items()}


class Serving:
    """A server for health, metrics and a process' own routes; use it as a context."""

    def __init__(
        self,
        listen: Listen,
        *,
        health: Health,
        registry: CollectorRegistry,
        access: Access | None = None,
        routes: Iterable[web.AbstractRouteDef] = (),
        posts: Mapping[str, Answer] | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        head_seconds: float = READ_SECONDS,
    ) -> None:
        self._listen = listen
        self._health = health
        self._registry = registry
        self._access = access
        self._head_seconds = head_seconds
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._posts = posts or {}
        self._plain = PlainRequests(
            find=self._post_for,
            hand_over=self._impatient,
            max_body_bytes=min(max_body_bytes, MAX_BODY_BYTES),
            first_seconds=head_seconds,
            keep_alive_seconds=keep_alive_seconds,
        )
        application = web.Application(client_max_size=max_body_bytes, middlewares=[self._hear])
        application.add_routes([*self._own_routes(), *routes])
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            access_log=None,
            auto_decompress=False,
            logger=SERVER_LOG,
            keepalive_timeout=keep_alive_seconds,
            lingering_time=LINGER_SECONDS,
        )
        moved = listen.elsewhere is not None and listen.elsewhere.move
        self._host, self._port = (_LOOPBACK, 0) if moved else (listen.host, listen.port)

    async def __aenter__(self) -> Self:
        tls = self._tls()
        await self._runner.setup()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._plain.connection if self._posts else self._impatient,
                self._host,
                self._port,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._head_seconds,
            )
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._listen.host}:{self._listen.port}"
            raise ConfigError(f"cannot listen on {where}: {error.strerror}") from None
        self._port = self._server.sockets[0].getsockname()[1]
        if self._listen.elsewhere is not None:
            self._listen.elsewhere.announce(self._listen.port, self.url)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        await self._plain.close(LINGER_SECONDS)
        for timer in self._silent.values():
            timer.cancel()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens, such as ``http://127.0.0.1:8080``."""
        scheme = "http" if self._listen.tls is None else "https"
        host = self._host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._port}"

    def _tls(self) -> ssl.SSLContext | None:
        return None if self._listen.tls is None else server_context(self._listen.tls)

    def _post_for(self, head: Head) -> Answer | None:
        is_post = head.method == "POST" and not head.query
        return self._posts.get(head.path) if is_post and self._is_meant(head.headers) else None

    def _is_meant(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a request that reached us on loopback names this machine.

        A page of the web could have a name of its own point to 127.0.0.1: to the browser that is
        still the page's site, whose answers it may read.
        """
        return not is_loopback(self._listen.host) or names_this_machine(headers.get("Host", ""))

    def _impatient(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, which ends unless a request comes in time."""
        server = self._runner.server
        if server is None:
            raise RuntimeError("a connection came before the server was set up")
        protocol = server()
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(self._head_seconds, self._cut_off, protocol)
        return protocol

    def _cut_off(self, protocol: web.RequestHandler) -> None:
        del self._silent[protocol]
        protocol.force_close()

    @web.middleware
    async def _hear(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        if not self._is_meant(request.headers):
            raise web.HTTPMisdirectedRequest(text=f"this is localhost; {request.host} is not\n")
        if _comes_from_a_page(request) and is_loopback(self._listen.host):
            raise web.HTTPForbidden(text="pages of other sites may not ask this machine\n")
        return await handler(request)

    def _own_routes(self) -> list[web.RouteDef]:
        health = self._health
        return [
            web.get("/livez", _answering(health.liveness)),
            web.get("/healthz", _answering(health.liveness)),
            web.get("/readyz", _answering(health.readiness)),
            web.get("/metrics", self._for_known_callers(self._metrics)),
        ]

    def _for_known_callers(self, handler: Handler) -> Handler:
        if self._listen.knows_callers:
            return handler
        return _to_nobody if self._access is None else self._access.guarded(handler)

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = encode(self._registry)
        return web.Response(body=body, headers={"Content-Type": content_type})


def _comes_from_a_page(request: web.Request) -> bool:
    """Tell whether a browser sends this for a page that is not ours, to change something."""
    origin = request.headers.get("Origin", "")
    changes = request.method not in ("GET", "HEAD")
    return changes and bool(origin) and origin.partition("://")[2] != request.host


async def _to_nobody(_: web.Request) -> web.StreamResponse:
    raise web.HTTPForbidden(
        text="there is no cluster to ask who you are: this needs --tls-client-ca-file or "
        "--insecure-serving\n"
    )


def _answering(
    examine: Callable[[], dict[str, str]],
) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = examine()
        for name in request.query.getall("exclude", []):
            found.pop(name, None)
        failing = [name for name, trouble in found.items() if trouble]
        if not failing and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name}: {why}" if why else f"[+]{name} ok" for name, why in found.items()]
        lines.append(f"not ok: {', '.join(failing)}" if failing else "ok")
        text = "\n".join(lines) + "\n"
        return web.Response(status=_FAILING if failing else _OK, text=text)

    return answer
