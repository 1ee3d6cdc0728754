"""A request and its answer, free of any HTTP library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from numakube.lab.api.negotiation import JSON_TYPE, PLAIN, Representation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from multidict import MultiMapping

    from numakube.lab.api.authentication import User
    from numakube.lab.api.registry import Served
    from numakube.lab.api.request_info import RequestInfo
    from numakube.lab.api.resources import Resource
    from numakube.lab.api.rules import Rules
    from numakube.lab.kinds import Json


@dataclass
class Call:
    """A request whose sender is known.

    Attributes:
        warnings: what the answer's Warning headers will say.
    """

    method: str
    info: RequestInfo
    query: MultiMapping[str]
    headers: Mapping[str, str]
    body: bytes
    user: User
    served: Served | None = None
    representation: Representation = PLAIN
    warnings: list[str] = field(default_factory=list)

    @property
    def resource(self) -> Resource:
        """The resource that the request is about; only for requests that are about one."""
        assert self.served is not None  # noqa: S101 - the router looked it up
        return self.served.resource

    @property
    def rules(self) -> Rules:
        """The rules of the resource's kind."""
        assert self.served is not None  # noqa: S101 - the router looked it up
        return self.served.rules

    @property
    def namespace(self) -> str:
        """The namespace that objects of this request are in; empty for cluster-wide ones."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def user_agent_manager(self) -> str:
        """The field manager of a client that names none: its program's name."""
        return self.headers.get("User-Agent", "").split("/", 1)[0][:128]


@dataclass
class Reply:
    """An answer."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Stream:
    """An answer that goes on: chunks until the source ends."""

    chunks: AsyncIterator[bytes]
    content_type: str = JSON_TYPE


def json_reply(status: int, document: Json, headers: dict[str, str] | None = None) -> Reply:
    """Return an answer of *document* in JSON."""
    return Reply(status, msgspec.json.encode(document), headers=headers or {})


def text_reply(status: int, text: str) -> Reply:
    """Return an answer of plain text."""
    return Reply(status, text.encode(), "text/plain; charset=utf-8")
