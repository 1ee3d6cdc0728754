"""Write objects and lists in the representation that the client accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from numakube.lab.api.call import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.lab.api.call import Call
    from numakube.lab.api.reading import Listing
    from numakube.lab.api.resources import Resource
    from numakube.lab.api.store import Stored
    from numakube.lab.kinds import Json


def encode(document: Json, *, as_yaml: bool = False) -> bytes:
    """Return *document* as text."""
    if as_yaml:
        return yaml.safe_dump(document, default_flow_style=False, sort_keys=True).encode()
    return msgspec.json.encode(document)


def stored_text(resource: Resource, stored: Stored) -> bytes:
    """Return the JSON text of *stored* as an object of *resource*'s kind and version."""
    kind, version = resource.kind.kind, resource.kind.api_version
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.encode(), version.encode(), stored.tail)


def list_text(resource: Resource, items: Sequence[Stored], metadata: Json) -> bytes:
    """Return the JSON text of a list; items of built-in lists do not repeat their kind."""
    head = msgspec.json.encode(
        {
            "kind": resource.list_kind,
            "apiVersion": resource.kind.api_version,
            "metadata": metadata,
        }
    )
    if resource.custom:
        texts = [stored_text(resource, item) for item in items]
    else:
        texts = [b"{" + item.tail for item in items]
    return head[:-1] + b',"items":[' + b",".join(texts) + b"]}"


def document_reply(call: Call, status: int, document: Json) -> Reply:
    """Return an answer of *document* in JSON or YAML."""
    shown = call.representation
    return Reply(status, encode(document, as_yaml=shown.yaml), shown.media_type)


def object_reply(call: Call, status: int, stored: Stored) -> Reply:
    """Return an answer of one object."""
    return Reply(status, stored_text(call.resource, stored), call.representation.media_type)


def list_reply(call: Call, listing: Listing) -> Reply:
    """Return an answer of a list."""
    text = list_text(call.resource, listing.items, listing.metadata)
    return Reply(200, text, call.representation.media_type)
