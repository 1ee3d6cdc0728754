"""The transport over HTTP and HTTPS: writes by `KeptConnections`, everything else by aiohttp.

Three of aiohttp's defaults would hurt and are undone here: a total limit of five minutes that cuts
watches, one pool of connections in which watches starve requests (streams have their own), and
cookies. After a 401 the credentials are looked up again and the request is repeated once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import aiohttp
import structlog
from yarl import URL

from numakube.errors import ClusterUnreachable, ConfigError, UntrustedServer
from numakube.kube.connection.credentials import (
    REREAD_SECONDS,
    CertificatePair,
    Credentials,
    client_context,
)
from numakube.kube.connection.kept_connections import (
    KeptConnections,
    NoConnection,
    check_line,
    head_lines,
)
from numakube.kube.connection.transport import Body, Request, Response
from numakube.values.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

    from aiohttp.client import _RequestOptions
    from multidict import MultiMapping

    from numakube.kube.clock import Clock
    from numakube.kube.connection.cluster_config import ClusterConfig
    from numakube.kube.connection.credentials import Authenticator

UNAUTHORIZED = 401

CONNECT_SECONDS = 10.0
"""How long the server may take to accept a connection."""

MAX_WARNINGS = 1000
"""Different warnings of the server that are logged."""

MAX_REQUEST_CONNECTIONS = 64
"""Connections for requests at a time; streams do not count."""

# What asyncio receives at a time. With aiohttp's 64 KiB each of these would pause the socket, with
# more than this they would be joined before we get them; both cost a fifth more on big lists.
_READ_BUFFER_BYTES = 256 * 1024


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class HttpStream:
    """The body of an answer as it arrives."""

    def __init__(self, response: aiohttp.ClientResponse, request: Request) -> None:
        self._response = response
        self._request = request

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._response.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body in the pieces in which it arrives."""
        body = self._response.content
        while True:
            with _translated(self._request):
                chunk = await body.readany()
            if not chunk:
                return
            yield chunk

    async def read(self) -> Body:
        """Return the rest of the body."""
        with _translated(self._request):
            return await _gathered(self._response)


class HttpTransport:
    """Requests over HTTP to one API server."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        auth: Authenticator,
        clock: Clock,
        user_agent: str = "numakube",
        request_seconds: float | None = None,
    ) -> None:
        self._config = config
        self._request_seconds = request_seconds
        self._auth = auth
        self._user_agent = user_agent
        self._base = URL(config.server)
        self._tls = TlsContexts(config, clock=clock)
        # Like kubectl, but for loopback: credentials are not sent where anybody can read them.
        self._private = self._base.scheme == "https" or is_loopback(self._base.host or "")
        self._warnings: set[str] = set()
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._writes: KeptConnections | None = None
        self._path = urlsplit(config.server).path
        self._head: tuple[Credentials | None, bytes] = (None, b"")
        _check_proxy(config.proxy_url)

    async def send(self, request: Request) -> Response:
        """Return the whole answer to *request*."""
        if self._request_seconds is not None:
            request = replace(request, timeout=self._within(request.timeout))
        if request.body is not None and request.idle_timeout is None and not self._config.proxy_url:
            return await self._written(request)
        if self._requests is None:
            self._requests = _session(limit=MAX_REQUEST_CONNECTIONS)
        async with self._answer(self._requests, request) as response:
            with _translated(request):
                body = await _gathered(response)
            return Response(response.status, response.headers, body)

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[HttpStream]:
        """Give the answer to *request* as a stream."""
        if self._streams is None:
            self._streams = _session(limit=0)
        async with self._answer(self._streams, request) as response:
            yield HttpStream(response, request)

    async def aclose(self) -> None:
        """Close every connection."""
        sessions = self._requests, self._streams
        # Before they are closed: what is under way may open others meanwhile, for the next close.
        self._requests = self._streams = None
        for session in sessions:
            if session is not None:
                await session.close()
        if self._writes is not None:
            self._writes.close()
            self._writes = None
            await asyncio.sleep(0)  # in which the sockets are closed

    async def _written(self, request: Request) -> Response:
        """Return the answer to a write; after a 401, the one to other credentials if any."""
        credentials = await self._credentials()
        response = await self._write(request, credentials)
        if response.status == UNAUTHORIZED and self._auth.rejected(credentials):
            response = await self._write(request, await self._credentials())
        self._report_warnings(cast("MultiMapping[str]", response.headers))
        return response

    async def _write(self, request: Request, credentials: Credentials) -> Response:
        host, port = self._base.host or "", self._base.port or 0
        if self._writes is None:
            self._writes = KeptConnections(
                host, port, server_name=self._config.tls.server_name, limit=MAX_REQUEST_CONNECTIONS
            )
        secure = self._base.scheme == "https"
        try:
            with _translated(request):
                return await self._writes.exchange(
                    self._bytes_of(request, credentials),
                    tls=self._tls.context_for(credentials.pair) if secure else None,
                    connect_seconds=self._within(CONNECT_SECONDS),
                    timeout_seconds=request.timeout,
                )
        except NoConnection as failure:
            raise _unconnected(request, failure.__cause__, host, port) from failure.__cause__

    def _bytes_of(self, request: Request, credentials: Credentials) -> bytes:
        """Return all of a request with a body, as it is sent."""
        if self._head[0] is not credentials:
            usual = (
                ("Host", self._base.host_port_subcomponent or ""),
                ("User-Agent", self._user_agent),
                ("Accept-Encoding", "identity"),
                *credentials.headers,
            )
            self._head = credentials, head_lines(usual)
        body = request.body or b""
        first = f"{request.method} {self._path}{request.target} HTTP/1.1"
        check_line(first)
        own = f"Accept: {request.accept}\r\nContent-Type: {request.content_type}"
        head = f"{first}\r\n{own}\r\nContent-Length: {len(body)}\r\n".encode("ascii")
        return b"".join((head, self._head[1], head_lines(request.headers), b"\r\n", body))

    @contextlib.asynccontextmanager
    async def _answer(
        self, session: aiohttp.ClientSession, request: Request
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give the answer; after a 401, the one to other credentials if there are any."""
        credentials = await self._credentials()
        response = await self._attempt(session, request, credentials)
        try:
            if response.status == UNAUTHORIZED and self._auth.rejected(credentials):
                response.release()
                response = await self._attempt(session, request, await self._credentials())
            yield response
        finally:
            # Not release(): a stream left early must not wait for its end.
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _credentials(self) -> Credentials:
        return await self._auth.credentials() if self._private else Credentials()

    async def _attempt(
        self, session: aiohttp.ClientSession, request: Request, credentials: Credentials
    ) -> aiohttp.ClientResponse:
        options = self._options(request, credentials)
        url = URL(f"{self._config.server}{request.target}", encoded=True)
        with _translated(request):
            response = await session.request(request.method, url, **options)
        self._report_warnings(response.headers)
        return response

    def _report_warnings(self, headers: MultiMapping[str]) -> None:
        """Log what the server warns of, such as a deprecated API; each text once."""
        for warning in headers.getall("Warning", ()):
            if warning not in self._warnings and len(self._warnings) < MAX_WARNINGS:
                self._warnings.add(warning)
                _log.warning("server_warning", text=warning)

    def _options(self, request: Request, credentials: Credentials) -> _RequestOptions:
        headers = [
            ("User-Agent", self._user_agent),
            ("Accept", request.accept),
            ("Accept-Encoding", "gzip" if request.compress else "identity"),
            *credentials.headers,
            *request.headers,
        ]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        options: _RequestOptions = {
            "headers": headers,
            "data": request.body,
            "allow_redirects": False,
            "timeout": aiohttp.ClientTimeout(
                total=request.timeout,
                sock_connect=self._within(CONNECT_SECONDS),
                sock_read=request.idle_timeout,
            ),
        }
        if self._config.proxy_url:
            options["proxy"] = self._config.proxy_url
        if self._base.scheme == "https":
            options["ssl"] = self._tls.context_for(credentials.pair)
            if self._config.tls.server_name:
                options["server_hostname"] = self._config.tls.server_name
        return options

    def _within(self, seconds: float | None) -> float | None:
        """Return how long something may take that has this limit of its own, or none."""
        limits = [one for one in (seconds, self._request_seconds) if one is not None]
        return min(limits, default=None)


class TlsContexts:
    """The TLS context for the current CA file and client certificate.

    Both may be renewed while we run. aiohttp keeps connections apart by context, so that a new
    context means new connections and the old ones are dropped when idle.
    """

    def __init__(self, config: ClusterConfig, *, clock: Clock) -> None:
        self._config = config.tls
        self._clock = clock
        self._authority: bytes | None = None
        self._read_at: float | None = None
        self._made_for: tuple[bytes | None, CertificatePair | None] | None = None
        self._context: ssl.SSLContext | None = None

    def context_for(self, pair: CertificatePair | None) -> ssl.SSLContext:
        """Return the context with which to show *pair*."""
        self._reread_authority()
        wanted = (self._authority, pair)
        if self._context is None or wanted != self._made_for:
            self._context = client_context(
                authority=self._authority, insecure=self._config.insecure, pair=pair
            )
            self._made_for = wanted
        return self._context

    def _reread_authority(self) -> None:
        now = self._clock.monotonic()
        source = self._config.authority
        if source is None or (self._read_at is not None and now - self._read_at < REREAD_SECONDS):
            return
        try:
            self._authority = source.read()
        except ConfigError:
            if self._authority is None:
                raise
        self._read_at = now


async def _gathered(response: aiohttp.ClientResponse) -> Body:
    """Return the whole body, gathered in place: joining 34 MB costs as much as receiving them."""
    stream = response.content
    first = await stream.readany()
    chunk = await stream.readany()
    if not chunk:
        return first
    body = bytearray(first)
    while chunk:
        body += chunk
        chunk = await stream.readany()
    return body


def _session(*, limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER_BYTES,
        # Watches end by their own timeouts; the default would cut each after five minutes.
        timeout=aiohttp.ClientTimeout(total=None),
    )


_CERTIFICATE_ADVICE: Final = (
    ("expired", "renew it"),
    ("not yet valid", "compare the clocks of this machine and of the server"),
    ("mismatch", "it is for another name: use one of its names, or tls-server-name"),
    ("self-signed", "name the authority that signed it as certificate-authority"),
    ("issuer", "name the authority that signed it as certificate-authority"),
)
"""What to do about a certificate, by a word of OpenSSL's message."""


def _check_proxy(url: str) -> None:
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"proxy-url {url!r}: only http and https proxies are supported")


@contextlib.contextmanager
def _translated(request: Request) -> Iterator[None]:
    """Turn aiohttp's exceptions into ours, which tell whether the request may have arrived."""
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as exc:
        raise _untrusted(request, exc) from exc
    except aiohttp.ClientConnectorError as exc:
        refused = isinstance(exc.os_error, ConnectionRefusedError)
        raise ClusterUnreachable(f"{request}: {_reason(exc)}", refused=refused) from exc
    except aiohttp.ConnectionTimeoutError as exc:
        raise ClusterUnreachable(f"{request}: no connection in time") from exc
    except TimeoutError as exc:
        raise ClusterUnreachable(f"{request}: no answer in time", sent=True) from exc
    except ssl.SSLError as exc:
        raise UntrustedServer(f"{request}: TLS failed: {exc}", sent=True) from exc
    except (aiohttp.ClientError, OSError) as exc:
        detail = str(exc) or type(exc).__name__
        raise ClusterUnreachable(f"{request}: {detail}", sent=True) from exc


def _untrusted(request: Request, failure: Exception) -> UntrustedServer:
    cause = _certificate_error(failure)
    if cause is None:
        return UntrustedServer(
            f"{request}: TLS handshake failed: {failure}; check certificate-authority, the "
            "server's name and the client certificate"
        )
    advice = next(
        (advice for word, advice in _CERTIFICATE_ADVICE if word in cause.verify_message),
        "check certificate-authority and the server's name",
    )
    return UntrustedServer(
        f"{request}: the server's certificate is not accepted: {cause.verify_message.rstrip('.')};"
        f" {advice}"
    )


def _certificate_error(failure: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return why the server's certificate was refused, if that is what *failure* is about."""
    inner = getattr(failure, "certificate_error", None) or getattr(failure, "os_error", None)
    for one in (inner, failure):  # aiohttp's own is a kind of it, and has no message
        if isinstance(one, ssl.SSLCertVerificationError) and hasattr(one, "verify_message"):
            return one
    return None


def _unconnected(
    request: Request, failure: BaseException | None, host: str, port: int
) -> ClusterUnreachable:
    """Return the error of a request that could not be sent; as `_translated` has it."""
    match failure:
        case TimeoutError():
            return ClusterUnreachable(f"{request}: no connection in time")
        case ssl.SSLError():
            return _untrusted(request, failure)
        case ConnectionRefusedError():
            reason = f"{host}:{port} refused the connection"
            return ClusterUnreachable(f"{request}: {reason}", refused=True)
        case socket.gaierror():
            return ClusterUnreachable(f"{request}: the name {host} is not known")
        case OSError(errno=int(number)) if number > 0:
            return ClusterUnreachable(f"{request}: {os.strerror(number)}")
        case _:
            return ClusterUnreachable(f"{request}: {failure}")


def _reason(failure: aiohttp.ClientConnectorError) -> str:
    """Return why there is no connection, in the operating system's words where it has some."""
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        return f"the name {failure.host} is not known"
    if isinstance(failure.os_error, ConnectionRefusedError):
        return f"{failure.host}:{failure.port} refused the connection"
    number = failure.os_error.errno
    return os.strerror(number) if number and number > 0 else str(failure)
