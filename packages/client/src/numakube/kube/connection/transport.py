"""The small protocol between the client and whatever carries its requests.

A `Transport` takes a `Request` and gives a `Response`, or a `Stream` of bytes for watches and logs.
It adds credentials and hides connections; it does not interpret answers, so a 404 is an answer. It
raises `ClusterUnreachable` when there is none, and `ConfigError` when it cannot even try. Wrap one
to count, log or fail requests; replace it to talk to something other than HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AbstractAsyncContextManager

JSON = "application/json"

Body: TypeAlias = bytes | bytearray
"""A whole body. A big one is gathered in a bytearray and never copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        method: the HTTP method.
        path: the path below the server's URL, percent-encoded.
        query: the parameters, in order.
        body: the content, if any, of type ``content_type``.
        accept: the wanted type of the answer.
        compress: the answer may come compressed. Inflating a big list costs twice what decoding
            it does, so lists say no.
        headers: further headers, beyond those that every request has.
        timeout: seconds in which the whole answer must be there; None for no limit.
        idle_timeout: seconds in which the next bytes must be there; None for no limit.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    compress: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float | None = 60.0
    idle_timeout: float | None = None

    @property
    def target(self) -> str:
        """The path with the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; the names of its headers are matched whatever their case."""

    status: int
    headers: Mapping[str, str]
    body: Body


class Stream(Protocol):
    """An answer whose body arrives bit by bit."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; their names are matched whatever their case."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives, cut anywhere."""
        ...

    async def read(self) -> Body:
        """Return the rest of the body."""
        ...


class Transport(Protocol):
    """What carries requests to an API server."""

    async def send(self, request: Request) -> Response:
        """Return the whole answer to *request*."""
        ...

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Return the answer to *request* as a stream; leaving the context ends it."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
