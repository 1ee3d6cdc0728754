"""Where Prometheus is, and questions to it: one value for each day and label."""

from __future__ import annotations

import math
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from numakube.errors import ApiError, ConfigError
from numakube.kube import Request
from numakube.values.hosts import is_loopback
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from numakube.kube import Client

_SERVICE: Final = re.compile(r"(?P<space>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+?)(?::(?P<port>[\w-]+))?")
_PORT: Final = "9090"
DAY: Final = 86_400
_SECONDS: Final = 60.0
_MOST_SERIES: Final = 1_000
_MOST_BYTES: Final = 8 << 20
_MOST_WORDS: Final = 300

Days = tuple[float | None, ...]
"""A value for each day; None where nothing was recorded."""


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    values: tuple[tuple[float, str], ...] = ()


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = ""
    result: tuple[_Series, ...] = ()


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that answers queries.

    Attributes:
        client: reaches it.
        name: what people call it.
        path: what stands before the paths of its API.
        headers: what it wants to see.
    """

    client: Client
    name: str
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    async def by_day(self, query: str, ends: Sequence[int], label: str = "") -> dict[str, Days]:
        """Return the value of *query* at each of *ends*, which are a day apart, by *label*.

        Raises:
            ApiError: it refuses.
            ClusterUnreachable: it does not answer.
            ConfigError: its answer is none of Prometheus, or too large.
        """
        answer = await self._asked(query, ends)
        if answer.status != "success" or answer.data is None:
            raise ConfigError(f"{self.name}: {_brief(answer.error or 'no answer')}")
        if answer.data.result_type != "matrix" or len(answer.data.result) > _MOST_SERIES:
            raise ConfigError(f"{self.name}: {query}: an answer that cannot be read")
        places = {end: place for place, end in enumerate(ends)}
        found: dict[str, Days] = {}
        for series in answer.data.result:
            values: list[float | None] = [None] * len(ends)
            for time, text in series.values:
                place, value = places.get(round(time)), _number(text)
                if place is not None and value is not None:
                    values[place] = value
            found[printable(series.metric.get(label, ""))] = tuple(values)
        return found

    async def _asked(self, query: str, ends: Sequence[int]) -> _Answer:
        request = Request(
            method="GET",
            path=f"{self.path}/api/v1/query_range",
            query=(
                ("query", query),
                ("start", str(ends[0])),
                ("end", str(ends[-1])),
                ("step", str(DAY)),
            ),
            headers=self.headers,
            timeout=_SECONDS,
        )
        try:
            body = (await self.client.request(request, retry=False)).body
        except ApiError as error:
            if error.code in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
                raise ConfigError(f"{self.name} refuses {query!r}: {_brief(str(error))}") from None
            raise
        if len(body) > _MOST_BYTES:
            raise ConfigError(f"{self.name}: the answer to {query!r} is too large")
        try:
            return msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError:
            raise ConfigError(f"{self.name} does not answer as Prometheus does") from None


class WrongAddress(ConfigError):
    """It cannot be where somebody says."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a server behind a URL wants to see.

    Attributes:
        authority: a file with the authority of its certificate.
        token: a bearer token.
    """

    authority: str = ""
    token: str = ""


@asynccontextmanager
async def prometheus_at(
    where: str, login: Login, cluster: Callable[[], AbstractAsyncContextManager[Client]]
) -> AsyncIterator[Prometheus]:
    """Reach a URL, or NAMESPACE/SERVICE[:PORT] through the API server of *cluster*.

    Raises:
        WrongAddress: it is neither, or does not go with *login*.
    """
    service = _SERVICE.fullmatch(where)
    if service is not None:
        if login.authority or login.token:
            raise WrongAddress("--prometheus-ca and --prometheus-token-file go with a URL.")
        port = service["port"] or _PORT
        path = f"/api/v1/namespaces/{service['space']}/services/{service['name']}:{port}/proxy"
        async with cluster() as client:
            yield Prometheus(client, where, path)
        return
    parts = urlsplit(where)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongAddress(
            f"--prometheus {where}: neither a URL nor NAMESPACE/SERVICE, such as"
            " monitoring/prometheus-k8s:9090."
        )
    if parts.query or parts.fragment or parts.username or parts.password:
        raise WrongAddress("--prometheus: a URL has no query and no password here.")
    if login.token and parts.scheme != "https" and not is_loopback(parts.hostname):
        raise WrongAddress("--prometheus-token-file: a token goes over https only.")
    from numakube.kube.connect import connect
    from numakube.kube.connection.cluster_config import ClusterConfig, Pem, TlsConfig

    headers = (("Authorization", f"Bearer {login.token}"),) if login.token else ()
    tls = TlsConfig(authority=Pem(path=Path(login.authority)) if login.authority else None)
    server = f"{parts.scheme}://{parts.netloc}"
    client = connect(ClusterConfig(server=server, tls=tls))
    try:
        yield Prometheus(client, server, parts.path.rstrip("/"), headers)
    finally:
        await client.aclose()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _brief(text: str) -> str:
    return printable(text)[:_MOST_WORDS]
