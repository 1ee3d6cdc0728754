"""The client: requests in, typed objects or typed errors out.

Everything the server refuses becomes an `ApiError` of the fitting class; failures that may pass are
retried as `RetryPolicy` says, so an error that surfaces has been retried as far as is safe. Lists
are read in pages, all of one state (`read_pages`). A patch is of any kind that an API server
understands; apply is `Client.apply`. What carries the requests is a `Transport`.

    async with connect(load_config()) as client:
        pods = await client.list(PODS, fields="spec.nodeName=node-1")
        await client.patch(NODES, "node-1", merge_patch({"metadata": {"labels": {"a": "b"}}}))
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec
import structlog

from numakube.errors import ApiError, ClusterUnreachable, Expired
from numakube.kube.clock import Clock, Recovery, RetryPolicy, SystemClock, TokenBucket
from numakube.kube.connection.transport import JSON, Request, Response
from numakube.kube.decode import Listing, codec_of, error_from_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from numakube.kube.connection.transport import Stream, Transport
    from numakube.kube.resource_types import Resource

T = TypeVar("T")
P = TypeVar("P")

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


PAGE_SIZE: Final = 500
"""Objects in a page of a list; kubectl's and client-go's figure."""


async def read_pages(
    page: Callable[[Query], Awaitable[P]],
    following: Callable[[P], str],
    *,
    selectors: Query = (),
    resource_version: str = "",
    page_size: int = PAGE_SIZE,
) -> list[P]:
    """Return the pages of a list, all of one state.

    Args:
        page: asks for one page, with the given query.
        following: tells the continuation that a page ends with; empty after the last.
        selectors: parameters of every page.
        resource_version: the state to begin with, see `Client.list`.
        page_size: objects per request; 0 asks for all at once.
    """
    version: Query = (("resourceVersion", resource_version),)
    if resource_version not in ("", "0"):
        version = (*version, ("resourceVersionMatch", "NotOlderThan"))
    limit = ("limit", str(page_size) if page_size else "")
    first = await page((*selectors, *version, limit))
    try:
        return await _completed(page, following, first, (*selectors, limit))
    except Expired:
        # The pages read so far show a state that the server has forgotten. One answer with
        # everything in it cannot expire.
        everything = await page((*selectors, *version))
        return await _completed(page, following, everything, selectors)


async def _completed(
    page: Callable[[Query], Awaitable[P]], following: Callable[[P], str], first: P, query: Query
) -> list[P]:
    """Return *first* and the pages that follow it."""
    pages = [first]
    while further := following(pages[-1]):
        # A continuation names its resource version itself.
        pages.append(await page((*query, ("continue", further))))
    return pages


APPLY = "application/apply-patch+yaml"
"""The type of a server-side apply; JSON is YAML, so that is what we send."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to an object, in one of the formats that servers understand."""

    content_type: str
    body: bytes


def merge_patch(change: Mapping[str, object] | msgspec.Struct) -> Patch:
    """Return a JSON merge patch (RFC 7386): None removes a field, a list replaces the old one."""
    return Patch("application/merge-patch+json", msgspec.json.encode(change))


def json_patch(operations: Sequence[Mapping[str, object]]) -> Patch:
    """Return a JSON patch (RFC 6902): operations that all succeed or change nothing."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def strategic_patch(change: Mapping[str, object] | msgspec.Struct) -> Patch:
    """Return a strategic merge patch: lists are merged by key; built-in kinds only."""
    return Patch("application/strategic-merge-patch+json", msgspec.json.encode(change))


# Generous against client-go's 5 and 10: servers guard themselves by priority and fairness, and
# a scheduler binds hundreds of pods a second. It still keeps a loop gone wild in check.
DEFAULT_RATE = 200.0
DEFAULT_BURST = 400

_OK = range(200, 300)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Client:
    """Requests to one API server.

    Attributes:
        namespace: the namespace that the configuration says to work in; never used by default.
        clock: the clock everything built on this client may share.
        rng: likewise the source of randomness.
        recovery: what those who could not reach the server wait for.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        retry: RetryPolicy | None = None,
        rate: float = DEFAULT_RATE,
        burst: int = DEFAULT_BURST,
        namespace: str = "default",
        field_manager: str = "numakube",
    ) -> None:
        self.namespace = namespace
        self.clock = clock or SystemClock()
        self.rng = rng or Random()  # noqa: S311 (jitter needs no secrecy)
        self.recovery = Recovery()
        self._transport = transport
        self._retry = retry or RetryPolicy()
        self._bucket = TokenBucket(rate=rate, burst=burst, clock=self.clock)
        self._field_manager = field_manager

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    def without_rate(self) -> Client:
        """Return a client over the same connections that waits for no rate.

        For leases: a renewal that stands behind a thousand other requests comes too late.
        """
        hurried = copy.copy(self)
        hurried._bucket = TokenBucket(rate=0, burst=0, clock=self.clock)  # noqa: SLF001
        return hurried

    async def request(self, request: Request, *, retry: bool = True) -> Response:
        """Send *request* and return an answer that is no error.

        Args:
            request: what to send.
            retry: after a failure, send it again where that is safe and may help.
        """
        attempt = 1
        while True:
            await self._bucket.take()
            try:
                return _checked(await self._transport.send(request), request)
            except (ApiError, ClusterUnreachable) as failure:
                wait = self._retry.wait(
                    failure, method=request.method, attempt=attempt, rng=self.rng
                )
                if wait is None or not retry:
                    raise
                _log.debug("request_retried", request=str(request), error=str(failure), wait=wait)
            await self.clock.sleep(wait)
            attempt += 1

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Give the answer to *request* as a stream; not retried, since parts may have been used."""
        await self._bucket.take()
        async with self._transport.open(request) as stream:
            if stream.status not in _OK:
                body = await stream.read()
                raise error_from_answer(stream.status, stream.headers, body, request=str(request))
            yield stream

    async def get(
        self, resource: Resource[T], name: str, *, namespace: str = "", subresource: str = ""
    ) -> T:
        """Return one object."""
        path = resource.path(name, namespace=namespace, subresource=subresource)
        return await self._object(resource, Request(method="GET", path=path))

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        page_size: int = PAGE_SIZE,
    ) -> Listing[T]:
        """Return all objects, or those in *namespace* and with the given labels and fields.

        Args:
            resource: what to list.
            namespace: the namespace; empty means all of them.
            labels: a label selector.
            fields: a field selector.
            resource_version: empty for the latest state; ``0`` for any, from the server's memory;
                another for one at least as new.
            page_size: objects per request; 0 asks for all at once.
        """
        path = resource.collection_path(namespace=namespace)

        async def page(query: Query) -> Listing[T]:
            response = await self.request(list_request(path, query))
            return codec_of(resource.object_type).page(response.body, kind=resource.kind)

        pages = await read_pages(
            page,
            lambda one: one.next_page,
            selectors=(("labelSelector", labels), ("fieldSelector", fields)),
            resource_version=resource_version,
            page_size=page_size,
        )
        return _joined(pages)

    async def latest_version(
        self, resource: Resource[T], *, namespace: str = "", retry: bool = True
    ) -> str:
        """Return the resource version of the current state, without its objects."""
        path = resource.collection_path(namespace=namespace)
        response = await self.request(list_request(path, [("limit", "1")]), retry=retry)
        return codec_of(_KindOfAnswer).page(response.body, kind=resource.kind).resource_version

    async def create(
        self,
        resource: Resource[T],
        obj: T | Mapping[str, object],
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T:
        """Create an object and return it as the server keeps it."""
        document = document_of(resource, obj)
        namespace = namespace or metadata_text(document, "namespace")
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.plural}: they live in namespaces, but none is given")
        path = resource.collection_path(namespace=namespace)
        query = self._write_query(dry_run=dry_run, field_manager=field_manager)
        return await self._object(resource, write_request("POST", path, query, document, JSON))

    async def update(
        self,
        resource: Resource[T],
        obj: T | Mapping[str, object],
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T:
        """Replace an object by *obj*; its resource version, if set, must still be the current one.

        A type that holds only some fields of its kind would erase the others, so it is refused: use
        `Resource.raw` or a patch.
        """
        if not resource.whole and not isinstance(obj, dict):
            raise TypeError(
                f"replacing {resource} by {type(obj).__name__} would erase the fields it does not "
                "have; use resource.raw or a patch"
            )
        document = document_of(resource, obj)
        path = _path_of(resource, document, namespace, subresource)
        query = self._write_query(dry_run=dry_run, field_manager=field_manager)
        return await self._object(resource, write_request("PUT", path, query, document, JSON))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Patch,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T:
        """Change an object by *patch* (see `numakube.kube.client`)."""
        path = resource.path(name, namespace=namespace, subresource=subresource)
        query = self._write_query(dry_run=dry_run, field_manager=field_manager)
        request = write_request("PATCH", path, query, patch.body, patch.content_type)
        return await self._object(resource, request)

    async def apply(
        self,
        resource: Resource[T],
        obj: T | Mapping[str, object],
        *,
        namespace: str = "",
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T:
        """Apply *obj* on the server: own exactly its fields; create the object if there is none.

        Raises:
            Conflict: others own some of these fields, and *force* does not take them over.
        """
        document = document_of(resource, obj)
        path = _path_of(resource, document, namespace, subresource)
        query = self._write_query(dry_run=dry_run, field_manager=field_manager)
        if force:
            query += (("force", "true"),)
        return await self._object(resource, write_request("PATCH", path, query, document, APPLY))

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> T | None:
        """Delete an object.

        Args:
            resource: the kind of object.
            name: its name.
            namespace: its namespace.
            grace_seconds: how long it may take to end; None means what the object says.
            propagation: what happens to dependents: Background, Foreground or Orphan.
            uid: delete only if the object is the one with this uid; else `Conflict`.
            resource_version: delete only if the object is in this state; else `Conflict`.
            dry_run: change nothing.

        Returns:
            The object if it is still there for a while (grace period, finalizers), or None.
        """
        request = Request(
            method="DELETE",
            path=resource.path(name, namespace=namespace),
            body=delete_options(
                grace_seconds=grace_seconds,
                propagation=propagation,
                uid=uid,
                resource_version=resource_version,
                dry_run=dry_run,
            ),
        )
        response = await self.request(request)
        if codec_of(_KindOfAnswer).one(response.body, kind=resource.kind).kind == "Status":
            return None
        return codec_of(resource.object_type).one(response.body, kind=resource.kind)

    async def delete_collection(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> None:
        """Delete all objects in *namespace* that have the given labels and fields."""
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource.plural}: name the namespace in which to delete them")
        request = Request(
            method="DELETE",
            path=resource.collection_path(namespace=namespace),
            query=given([("labelSelector", labels), ("fieldSelector", fields)]),
            body=delete_options(
                grace_seconds=grace_seconds, propagation=propagation, dry_run=dry_run
            ),
        )
        await self.request(request)

    async def _object(self, resource: Resource[T], request: Request) -> T:
        response = await self.request(request)
        return codec_of(resource.object_type).one(response.body, kind=resource.kind)

    def _write_query(self, *, dry_run: bool, field_manager: str) -> Query:
        manager = field_manager or self._field_manager
        return (*dry_run_query(dry_run=dry_run), ("fieldManager", manager))


class _KindOfAnswer(msgspec.Struct, frozen=True):
    kind: str = ""


def _checked(response: Response, request: Request) -> Response:
    if response.status not in _OK:
        raise error_from_answer(
            response.status, response.headers, response.body, request=str(request)
        )
    return response


def _path_of(
    resource: Resource[T], document: Mapping[str, object], namespace: str, subresource: str
) -> str:
    name = metadata_text(document, "name")
    inside = namespace or metadata_text(document, "namespace")
    return resource.path(name, namespace=inside, subresource=subresource)


def _joined(pages: Sequence[Listing[T]]) -> Listing[T]:
    """Return the pages of a list as one; all of them show the state of the first."""
    if len(pages) == 1:
        return pages[0]
    return Listing(
        items=tuple(item for page in pages for item in page.items),
        resource_version=pages[0].resource_version,
        malformed=tuple(each for page in pages for each in page.malformed),
    )
