"""Which representation the client accepts, and which ones it sends.

JSON and YAML are written. Protobuf is accepted but answered in JSON, which every client reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from numakube_lab.api.wire.refusals import not_acceptable

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES: Final = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE)
STREAM_TYPES: Final = (f"{JSON_TYPE};stream=watch", f"{PROTOBUF_TYPE};stream=watch")

_META: Final = "meta.k8s.io"
_VIEWS: Final = {
    "Table": ("v1", "v1beta1"),
    "PartialObjectMetadata": ("v1", "v1beta1"),
    "PartialObjectMetadataList": ("v1", "v1beta1"),
}


@dataclass(frozen=True, slots=True)
class Representation:
    """How an answer is written.

    Attributes:
        yaml: in YAML instead of JSON.
        view: ``Table``, ``PartialObjectMetadata`` or ``PartialObjectMetadataList`` if asked for.
        view_version: version of the view's group ``meta.k8s.io``.
    """

    yaml: bool = False
    view: str = ""
    view_version: str = ""

    @property
    def media_type(self) -> str:
        """The value of the answer's Content-Type."""
        return YAML_TYPE if self.yaml else JSON_TYPE

    @property
    def view_api_version(self) -> str:
        """The ``apiVersion`` of a view."""
        return f"{_META}/{self.view_version}"


PLAIN: Final = Representation()


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    type: str
    params: dict[str, str]

    @property
    def quality(self) -> float:
        """The preference, 1 if not given."""
        try:
            return float(self.params.get("q", "1"))
        except ValueError:
            return 0.0


@lru_cache(maxsize=256)
def parse_accept(header: str | None) -> tuple[Clause, ...]:
    """Return the clauses of an Accept header, the preferred first."""
    clauses = []
    for text in (header or "").split(","):
        kind, *params = (part.strip() for part in text.split(";"))
        pairs = (param.partition("=") for param in params)
        if kind:
            clauses.append(Clause(kind.lower(), {k.strip(): v.strip('" ') for k, _, v in pairs}))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@lru_cache(maxsize=256)
def check_route_accepts(header: str | None, *, streams: bool) -> None:
    """Refuse what the router itself refuses: a header that names no type the route produces."""
    produced = MEDIA_TYPES + (STREAM_TYPES if streams else ())
    clauses = parse_accept(header)
    if clauses and not any(c.type in ("*/*", *MEDIA_TYPES) for c in clauses):
        listed = ", ".join(produced)
        raise not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}", {})


@lru_cache(maxsize=256)
def negotiate(header: str | None, *, tables: bool = True) -> Representation:
    """Return how to answer a client that accepts *header*.

    Args:
        header: the Accept header.
        tables: whether tables are offered.
    """
    clauses = parse_accept(header)
    if not clauses:
        return PLAIN
    for clause in clauses:
        if clause.type not in ("*/*", "application/*", *MEDIA_TYPES):
            continue
        found = _representation(clause, tables=tables)
        if found is not None:
            return found
    known = ", ".join(MEDIA_TYPES)
    raise not_acceptable(f"only the following media types are accepted: {known}")


def _representation(clause: Clause, *, tables: bool) -> Representation | None:
    yaml = clause.type == YAML_TYPE
    view = clause.params.get("as", "")
    if not view:
        return Representation(yaml=yaml)
    version = clause.params.get("v", "")
    known = clause.params.get("g") == _META and version in _VIEWS.get(view, ())
    if not known or (view == "Table" and not tables):
        return None
    return Representation(yaml, view, version)


@lru_cache(maxsize=256)
def media_type(header: str | None) -> str:
    """Return the media type of a Content-Type header without its parameters."""
    return re.split(r"[;\s]", (header or "").strip(), maxsplit=1)[0].lower()
