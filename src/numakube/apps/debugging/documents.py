"""The form of what debugging endpoints answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    Document = dict[str, Any]

VERSION: Final = "debug.numakube.dev/v1alpha1"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Speaker:
    """The program that answers.

    Attributes:
        kind: ``scheduler`` or ``extender``.
        identity: how it is known in leases and events.
        leads: tells whether it is the one that works.
    """

    kind: str
    identity: str
    leads: Callable[[], bool]

    def document(self, kind: str, **values: object) -> Document:
        """Return a document of the given kind that says who speaks."""
        return {"apiVersion": VERSION, "kind": kind, "speaker": self.about(), **values}

    def about(self) -> Document:
        """Return who speaks."""
        return {"kind": self.kind, "identity": self.identity, "leads": self.leads()}


def json_answer(tree: object) -> web.Response:
    """Return *tree* as an answer."""
    return web.Response(body=msgspec.json.encode(tree), content_type=JSON)
