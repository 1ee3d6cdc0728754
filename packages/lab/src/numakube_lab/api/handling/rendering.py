"""Write objects and lists in the representation that the client accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import yaml

from numakube_lab.api.handling.call import Reply
from numakube_lab.api.handling.object_views import view_list, view_object
from numakube_lab.api.wire.negotiation import JSON_TYPE, YAML_TYPE, parse_accept

if TYPE_CHECKING:
    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.store.store import Stored
    from numakube_lab.api.wire.refusals import Refusal
    from numakube_lab.kinds import Json


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of objects with the metadata of its list."""

    items: list[Stored]
    metadata: Json


def encode(document: Json, *, as_yaml: bool = False) -> bytes:
    """Return *document* as text."""
    if as_yaml:
        return yaml.safe_dump(document, default_flow_style=False, sort_keys=True).encode()
    return msgspec.json.encode(document)


def refusal_reply(refusal: Refusal, accept: str | None) -> Reply:
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


def list_reply(call: Call, listing: Listing) -> Reply:
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
