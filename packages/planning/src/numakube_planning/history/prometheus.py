"""Questions to Prometheus: one value for each day and label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.errors import ApiError, ConfigError
from numakube.kube.connection.transport import Request
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.kube.client import Client

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


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _brief(text: str) -> str:
    return printable(text)[:_MOST_WORDS]
