"""Read a cluster: lists side by side, kubelets a few at a time, and what schedulers tell.

A list is kept byte for byte as the server wrote it, its pages joined into one.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from numakube.api.codec import Wire
from numakube.api.meta import ListMeta
from numakube.apps.debug_client import reach_schedulers
from numakube.apps.gathering.gathered_kinds import EVERYTHING, LISTED, NEEDED, OPTIONAL
from numakube.apps.served_topologies import served_topologies
from numakube.apps.watched_kinds import located
from numakube.errors import (
    ApiError,
    ClusterUnreachable,
    Forbidden,
    MalformedObject,
    NotFound,
)
from numakube.insight.collected import (
    CONFIGZ,
    ERRORS,
    META,
    NODES,
    SCHEDULER,
    SCHEDULER_CONFIG,
    VERSION,
    Collected,
    configz_file,
    list_file,
    list_name,
    scheduler_file,
)
from numakube.insight.list_reading import Unreadable, refused
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.kube.client import PAGE_SIZE, Client, Query, list_request, read_pages
from numakube.kube.connection.transport import Request
from numakube.kube.decode import read_answer
from numakube.kube.resource_types import Resource
from numakube.values.times import format_time
from numakube.version import VERSION as NUMAKUBE_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.apps.debug_client import Reached
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Resource

ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cache": "/debug/cache",
        "queue": "/debug/queue",
        "reservations": "/debug/reservations",
        "attempts": "/debug/attempts?full=true",
        "configz": "/configz",
    }
)
"""What is worth keeping: name of the file, and path."""


_NOBODY: Final = "no pod of a scheduler or extender of numakube runs"

_LISTS_AT_ONCE: Final = 4
_KUBELETS_AT_ONCE: Final = 16
_KUBELET_SECONDS: Final = 10.0
_REFUSALS: Final = (ApiError, MalformedObject)


class _Page(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


async def list_raw(
    client: Client, resource: Resource[Any], *, namespace: str = "", page_size: int = PAGE_SIZE
) -> bytes:
    """Return the list of all objects, or of those in *namespace*, as the server would give it."""
    path = resource.collection_path(namespace=namespace)

    async def page(query: Query) -> _Page:
        response = await client.request(list_request(path, query))
        return read_answer(_Page, response.body, f"the list {path}")

    pages = await read_pages(page, lambda one: one.metadata.continue_, page_size=page_size)
    first = pages[0]
    return msgspec.json.encode(
        {
            "apiVersion": first.api_version or resource.api_version,
            "kind": first.kind or f"{resource.kind}List",
            "metadata": {"resourceVersion": first.metadata.resource_version},
            "items": [item for page in pages for item in page.items or ()],
        }
    )


async def look_inside(
    client: Client, files_wanted: Collection[str] = ENDPOINTS
) -> tuple[dict[str, bytes], list[Unreadable]]:
    """Return the files of every program that can be asked, and why others cannot."""
    files: dict[str, bytes] = {}
    try:
        found = await reach_schedulers(client)
    except ClusterUnreachable as error:
        return {}, [Unreadable(SCHEDULER, str(error))]
    errors = [] if found else [Unreadable(SCHEDULER, _NOBODY)]
    for one in found:
        if one.trouble:
            what = f"{SCHEDULER}/{one.name}" if one.name else SCHEDULER
            errors.append(Unreadable(what, one.trouble))
            continue
        for name in files_wanted:
            path = ENDPOINTS[name]
            content = await _asked(one, path, errors)
            if content is not None:
                files[scheduler_file(one.name, name)] = content
    return files, errors


async def _asked(one: Reached, path: str, errors: list[Unreadable]) -> bytes | None:
    try:
        return await one.get(path)
    except NotFound:
        return None  # an extender has no queue
    except (ApiError, ClusterUnreachable) as error:
        errors.append(Unreadable(f"{SCHEDULER}/{one.name}{path}", str(error)))
        return None


async def gather(client: Client, *, what: Collection[str] = EVERYTHING) -> Collected:
    """Read *what* (plurals, ``configz``, ``scheduler`` or ``scheduler/configz``) from the cluster.

    Raises:
        ClusterUnreachable: the server does not answer.
        ApiError: nodes or pods cannot be listed.
    """
    taken_at = format_time(client.clock.now())
    gathering = _Gathering(client)
    await gathering.run(frozenset(what) | NEEDED)
    about = {"takenAt": taken_at, "numakube": NUMAKUBE_VERSION}
    gathering.files[META] = msgspec.json.encode(about)
    gathering.files[ERRORS] = msgspec.json.encode(sorted(gathering.errors, key=lambda e: e.what))
    return Collected(taken_at, dict(sorted(gathering.files.items())))


class _Gathering:
    """The files read so far, and what could not be read."""

    def __init__(self, client: Client) -> None:
        self.files: dict[str, bytes] = {}
        self.errors: list[Unreadable] = []
        self._client = client
        self._lists = asyncio.Semaphore(_LISTS_AT_ONCE)
        self._kubelets = asyncio.Semaphore(_KUBELETS_AT_ONCE)

    async def run(self, what: frozenset[str]) -> None:
        # The version first: a missing server is reported once, in plain words.
        await self._version()
        wanted = [
            resource for resource in LISTED if list_name(resource.plural, resource.group) in what
        ]
        # A report that is read after its update is no older than both.
        first = [resource for resource in wanted if resource == NODE_RESOURCE_TOPOLOGY_UPDATES]
        await _together(*(self._list(resource) for resource in first))
        await _together(*(self._list(resource) for resource in wanted if resource not in first))
        if CONFIGZ in what:
            await _together(*(self._configz(node) for node in self._node_names()))
        if SCHEDULER in what:
            await self._schedulers(ENDPOINTS)
        elif SCHEDULER_CONFIG in what:
            await self._schedulers(["configz"])

    async def _schedulers(self, files_wanted: Collection[str]) -> None:
        files, errors = await look_inside(self._client, files_wanted)
        self.files |= files
        self.errors += errors

    async def _version(self) -> None:
        try:
            answer = await self._client.request(Request(method="GET", path="/version"))
            self.files[VERSION] = bytes(answer.body)
        except ApiError as error:
            self.errors.append(Unreadable(what="version", why=_why(error, "get /version")))

    async def _list(self, resource: Resource[Any]) -> None:
        name = list_name(resource.plural, resource.group)
        async with self._lists:
            try:
                if resource == NODE_RESOURCE_TOPOLOGIES:
                    resource = await served_topologies(self._client)
                else:
                    resource = await located(self._client, resource)
                self.files[list_file(name)] = await list_raw(self._client, resource)
            except _REFUSALS as error:
                if resource.plural in NEEDED:
                    raise
                if name in OPTIONAL and isinstance(error, NotFound):
                    return
                group = f".{resource.group}" if resource.group else ""
                right = f"list {resource.plural}{group}"
                self.errors.append(Unreadable(what=name, why=_why(error, right)))

    async def _configz(self, node: str) -> None:
        path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/configz"
        request = Request(method="GET", path=path, timeout=_KUBELET_SECONDS)
        async with self._kubelets:
            try:
                answer = await self._client.request(request, retry=False)
                self.files[configz_file(node)] = bytes(answer.body)
            except (ApiError, ClusterUnreachable) as error:
                self.errors.append(
                    Unreadable(what=configz_file(node), why=_why(error, "get nodes/proxy"))
                )

    def _node_names(self) -> list[str]:
        tree = msgspec.json.decode(self.files[list_file(NODES)])
        return [str(item["metadata"]["name"]) for item in tree["items"]]


def _why(error: Exception, right: str) -> str:
    if isinstance(error, Forbidden):
        return refused(right)
    if isinstance(error, NotFound):
        return "the server does not have it"
    return str(error)


async def _together(*works: Any) -> None:  # noqa: ANN401 - coroutines
    """Run *works* side by side; the first failure ends them all and is raised as it is."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
