"""The other shapes of objects that clients ask for: tables and bare metadata.

Write objects and lists in the representation that the client accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from kube_lab_server.handling.call import Reply
from kube_lab_server.wire.negotiation import JSON_TYPE, YAML_TYPE, parse_accept
from kube_lab_server.wire.refusals import bad_request, not_acceptable
from numakube.api.field_errors import invalid as invalid_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_lab_server.catalogue.tables import Columns
    from kube_lab_server.handling.call import Call
    from kube_lab_server.kind_names import Json
    from kube_lab_server.store.store import ChangeType, Stored
    from kube_lab_server.wire.refusals import RequestRefusal


_INCLUDED: Final = ("", "None", "Metadata", "Object")


def view_object(call: Call, obj: Json, columns: Columns | None = None) -> Json:
    """Return *obj* in the shape that the client asked for, a table with the given *columns*."""
    shown = call.representation
    if shown.view == "PartialObjectMetadata":
        return partial(call, obj)
    if shown.view == "PartialObjectMetadataList":
        raise not_acceptable(
            f"you requested {shown.view}, but the requested object is not a list "
            f"({_go_type(call, call.resource.kind.kind)})"
        )
    metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return table(call, [obj], metadata, headed=True, columns=columns)


def view_list(call: Call, items: Sequence[Stored], metadata: Json) -> Json:
    """Return a list in the shape that the client asked for."""
    shown = call.representation
    objects = [call.shown(stored) for stored in items]
    if shown.view == "PartialObjectMetadataList":
        return {
            "kind": shown.view,
            "apiVersion": shown.view_api_version,
            "metadata": metadata,
            "items": [partial(call, obj) for obj in objects] or None,
        }
    if shown.view == "PartialObjectMetadata":
        raise not_acceptable(
            f"you requested {shown.view}, but the requested object is a list "
            f"({_go_type(call, call.resource.list_kind)})"
        )
    return table(call, objects, metadata, headed=True)


def _go_type(call: Call, kind: str) -> str:
    """Return the type that the real server's message names."""
    if call.resource.custom:
        return "*unstructured.Unstructured" + ("List" if kind.endswith("List") else "")
    package = call.resource.group.split(".")[0] or "core"
    return f"*{package}.{kind}"


def partial(call: Call, obj: Json) -> Json:
    """Return the metadata of *obj* alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": call.representation.view_api_version,
        "metadata": call.rules.bare_metadata(obj),
    }


def table(
    call: Call,
    objects: Sequence[Json],
    metadata: Json,
    *,
    headed: bool,
    columns: Columns | None = None,
) -> Json:
    """Return *objects* as a table, with its column definitions if *headed*.

    The columns are those of the resource unless others are given.
    """
    assert call.served is not None  # noqa: S101 - the router looked it up
    columns = columns or call.served.columns
    include = included(call)
    rows = []
    for obj in objects:
        row = columns.row(obj, call.now())
        shown: Json = {"cells": row.cells}
        if row.conditions:
            shown["conditions"] = list(row.conditions)
        rows.append({**shown, "object": _row_object(call, obj, include)})
    return {
        "kind": "Table",
        "apiVersion": call.representation.view_api_version,
        "metadata": metadata,
        "columnDefinitions": columns.definitions() if headed else None,
        "rows": rows,
    }


def included(call: Call) -> str:
    """Return what of its object each row of a table has."""
    include = call.query.get("includeObject", "")
    if include not in _INCLUDED:
        detail = "must be 'Metadata', 'Object', 'None', or empty"
        problem = invalid_field("includeObject", include, detail)
        raise bad_request(f"Unable to convert to Table as requested: {problem}")
    return include or "Metadata"


def _row_object(call: Call, obj: Json, include: str) -> Json | None:
    match include:
        case "None":
            return None
        case "Object":
            return obj
        case _:
            return partial(call, obj)


class EventView:
    """Writes the events of a watch in the representation that its client asked for."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._headed = True
        self._heads: dict[str, bytes] = {}

    def event(self, kind: ChangeType, stored: Stored) -> bytes | None:
        """Return the line for *stored*; None if it cannot be shown as the client asked."""
        call = self._call
        if call.representation.view == "PartialObjectMetadataList":
            return None
        if not call.representation.view:
            return self._line(kind.value, stored)
        if call.representation.view == "Table":
            metadata = {"resourceVersion": stored.obj["metadata"]["resourceVersion"]}
            shown = table(call, [call.shown(stored)], metadata, headed=self._headed)
            self._headed = False
        else:
            shown = partial(call, stored.obj)
        return event_text(kind.value, msgspec.json.encode(shown))

    def _line(self, kind: str, stored: Stored) -> bytes:
        """Return the line for *stored* in full; watches that show the same share it."""
        call = self._call
        head = self._heads.get(kind)
        if head is None:
            named = msgspec.json.encode(call.named())[:-1]
            head = self._heads[kind] = b'{"type":"%s","object":%s,' % (kind.encode(), named)
        return stored.line(head, call.form, lambda: call.read(stored))

    def bookmark(self, version: int, annotations: Json | None) -> bytes:
        """Return the line of a bookmark."""
        call = self._call
        metadata: Json = {"resourceVersion": str(version)}
        if annotations:
            metadata["annotations"] = annotations
        kind = call.resource.kind
        obj: Json = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if call.representation.view.startswith("Partial"):
            obj = partial(call, obj)
        elif not call.representation.view:
            obj |= call.rules.empty()
        else:
            obj = table(call, [], metadata, headed=self._headed)
        return event_text("BOOKMARK", msgspec.json.encode(obj))


def event_text(kind: str, obj: bytes) -> bytes:
    """Return the line of a watch that tells of *obj*."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of objects with the metadata of its list."""

    items: list[Stored]
    metadata: Json


def encode(document: Json, *, as_yaml: bool = False) -> bytes:
    """Return *document* as text."""
    if as_yaml:
        return yaml.safe_dump(document, default_flow_style=False, sort_keys=True).encode()
    return msgspec.json.encode(document)


def refusal_reply(refusal: RequestRefusal, accept: str | None) -> Reply:
    """Return the answer that says no, in JSON if the client's wishes cannot be understood."""
    clauses = parse_accept(accept)
    as_yaml = bool(clauses) and clauses[0].type == YAML_TYPE
    media_type = YAML_TYPE if as_yaml else JSON_TYPE
    text = encode(refusal.status, as_yaml=as_yaml)
    return Reply(refusal.code, text, media_type, dict(refusal.headers))


def document_reply(call: Call, status: int, document: Json) -> Reply:
    """Return an answer of *document* in JSON or YAML."""
    shown = call.representation
    return Reply(status, encode(document, as_yaml=shown.yaml), shown.media_type)


def object_reply(call: Call, status: int, stored: Stored) -> Reply:
    """Return an answer of one object."""
    if call.representation.view:
        return document_reply(call, status, view_object(call, call.shown(stored)))
    if call.representation.yaml:
        return document_reply(call, status, call.shown(stored))
    return Reply(status, call.encoded(stored))


def list_reply(call: Call, listing: ListPage) -> Reply:
    """Return an answer of a list; items of built-in lists do not repeat their kind."""
    if call.representation.view:
        return document_reply(call, 200, view_list(call, listing.items, listing.metadata))
    resource = call.resource
    head: Json = {
        "kind": resource.list_kind,
        "apiVersion": resource.kind.api_version,
        "metadata": listing.metadata,
    }
    if resource.custom:
        head["metadata"] = {"continue": "", **listing.metadata}
    if call.representation.yaml:
        items = [call.shown(item, bare=not resource.custom) for item in listing.items]
        return document_reply(call, 200, {**head, "items": items})
    texts = [call.encoded(item, bare=not resource.custom) for item in listing.items]
    return Reply(200, msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(texts) + b"]}")
