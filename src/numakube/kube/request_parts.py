"""The parts of requests: documents that name their kind, queries, options of deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from numakube.kube.connection.transport import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kube.resource_types import Resource

T = TypeVar("T")

Query: TypeAlias = tuple[tuple[str, str], ...]


def document_of(resource: Resource[T], obj: T | Mapping[str, object]) -> dict[str, object]:
    """Return *obj* as a JSON document that names its kind, as some requests demand."""
    document: dict[str, object] = msgspec.to_builtins(obj)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


def metadata_text(document: Mapping[str, object], field: str) -> str:
    """Return a text in the metadata of *document*; empty if it is not there."""
    metadata = document.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def given(query: Iterable[tuple[str, str]]) -> Query:
    """Return the parameters that have a value."""
    return tuple((name, value) for name, value in query if value)


def dry_run_query(*, dry_run: bool) -> Query:
    """Return the parameter by which a write that is no deletion changes nothing."""
    return (("dryRun", "All"),) if dry_run else ()


def write_request(
    method: str, path: str, query: Query, document: Mapping[str, object] | bytes, type_: str
) -> Request:
    """Return a request that carries *document*, of content type *type_*."""
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return Request(method=method, path=path, query=query, body=body, content_type=type_)


def list_request(path: str, query: Iterable[tuple[str, str]]) -> Request:
    """Return the request for a list or a page of one; big ones may take their time."""
    return Request(
        method="GET",
        path=path,
        query=given(query),
        compress=False,
        timeout=None,
        idle_timeout=60.0,
    )


def delete_options(
    *,
    grace_seconds: int | None,
    propagation: str,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
) -> bytes:
    """Return the body of a deletion.

    It holds all options: a server that gets a body does not look for any in the query.
    """
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options: dict[str, object] = {
        "gracePeriodSeconds": grace_seconds,
        "propagationPolicy": propagation or None,
        "preconditions": {name: value for name, value in preconditions.items() if value} or None,
        "dryRun": ["All"] if dry_run else None,
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **chosen})
