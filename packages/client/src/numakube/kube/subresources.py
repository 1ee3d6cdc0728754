"""What is done to an object through its sub-resources: bind, evict, scale, token, log.

``status`` needs no function of its own: `Client.get`, `update`, `patch` and `apply` take it as
``subresource="status"``.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import TypeVar

from numakube.api.codec import Wire
from numakube.kube.client import Client, dry_run_query, given, write_request
from numakube.kube.connection.transport import JSON, Body, Request, Stream
from numakube.kube.decode import codec_of
from numakube.kube.resource_types import ObjectKey, Resource

T = TypeVar("T")

_PODS = Resource(version="v1", plural="pods", kind="Pod", namespaced=True, object_type=dict)
_SERVICE_ACCOUNTS = Resource(
    version="v1",
    plural="serviceaccounts",
    kind="ServiceAccount",
    namespaced=True,
    object_type=dict,
)


class TokenStatus(Wire, frozen=True):
    """A token of a service account, and until when it is good."""

    token: str
    expiration_timestamp: datetime


class _TokenRequest(Wire, frozen=True):
    status: TokenStatus


async def bind_pod(
    client: Client,
    pod: ObjectKey,
    node: str,
    *,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> None:
    """Bind *pod* to *node*.

    Args:
        client: where.
        pod: the pod.
        node: the name of the node.
        uid: bind only the pod with this uid, not one that took its name since; else `Conflict`.
        annotations: set on the pod in the same step.
        dry_run: change nothing.

    Raises:
        Conflict: the pod is bound already, is being deleted, or is another one.
    """
    metadata: dict[str, object] = {"name": pod.name, "namespace": pod.namespace}
    if uid:
        metadata["uid"] = uid
    if annotations:
        metadata["annotations"] = dict(annotations)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await _post(client, _PODS, pod, "binding", binding, dry_run=dry_run)


async def evict_pod(
    client: Client,
    pod: ObjectKey,
    *,
    grace_seconds: int | None = None,
    uid: str = "",
    dry_run: bool = False,
) -> None:
    """Delete *pod* if the disruption budgets allow it.

    Raises:
        TooManyRequests: a budget forbids it for now.
    """
    options: dict[str, object] = {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if uid:
        options["preconditions"] = {"uid": uid}
    if dry_run:
        options["dryRun"] = ["All"]
    eviction: dict[str, object] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    if options:
        eviction["deleteOptions"] = options
    await _post(client, _PODS, pod, "eviction", eviction)


async def request_token(
    client: Client,
    service_account: ObjectKey,
    *,
    seconds: int = 3600,
    audiences: tuple[str, ...] = (),
    pod: ObjectKey | None = None,
    pod_uid: str = "",
) -> TokenStatus:
    """Return a token of *service_account*, bound to the life of *pod* if one is given."""
    spec: dict[str, object] = {"expirationSeconds": seconds, "audiences": list(audiences)}
    if pod is not None:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod_uid}
        spec["boundObjectRef"] = {name: value for name, value in bound.items() if value}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await _post(client, _SERVICE_ACCOUNTS, service_account, "token", body)
    return codec_of(_TokenRequest).one(answer, kind="TokenRequest").status


async def read_log(
    client: Client,
    pod: ObjectKey,
    *,
    container: str = "",
    previous: bool = False,
    tail_lines: int | None = None,
) -> str:
    """Return the log of a container of *pod*."""
    request = _log_request(pod, container, previous=previous, tail_lines=tail_lines, follow=False)
    return (await client.request(request)).body.decode(errors="replace")


def follow_log(
    client: Client, pod: ObjectKey, *, container: str = "", tail_lines: int | None = None
) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
    """Give the log of a container of *pod* in chunks, as it is written, until the container ends.

    async with follow_log(client, pod) as chunks:
        async for chunk in chunks: ...
    """
    request = _log_request(pod, container, previous=False, tail_lines=tail_lines, follow=True)
    return _chunks_of(client.stream(request))


@asynccontextmanager
async def _chunks_of(
    opening: AbstractAsyncContextManager[Stream],
) -> AsyncIterator[AsyncIterator[bytes]]:
    async with opening as stream:
        yield stream.chunks()


def _log_request(
    pod: ObjectKey, container: str, *, previous: bool, tail_lines: int | None, follow: bool
) -> Request:
    return Request(
        method="GET",
        path=_PODS.path(pod.name, namespace=pod.namespace, subresource="log"),
        query=given(
            [
                ("container", container),
                ("previous", "true" if previous else ""),
                ("follow", "true" if follow else ""),
                ("tailLines", "" if tail_lines is None else str(tail_lines)),
            ]
        ),
        # An old server refuses to answer in anything but its own choice.
        accept="*/*",
        timeout=None if follow else 60.0,
    )


async def _post(
    client: Client,
    resource: Resource[T],
    key: ObjectKey,
    subresource: str,
    document: Mapping[str, object],
    *,
    dry_run: bool = False,
) -> Body:
    path = resource.path(key.name, namespace=key.namespace, subresource=subresource)
    query = dry_run_query(dry_run=dry_run)
    response = await client.request(write_request("POST", path, query, document, JSON))
    return response.body
