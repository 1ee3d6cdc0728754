"""A collection of pods on a server that breaks on demand, and what a subscriber knows of it."""

import asyncio
import itertools
from typing import Any

import msgspec
from aiohttp import web

from numakube.api.pod import Pod
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import ObjectKey, Resource, key_of
from numakube.kube.scripted_server import ScriptedServer, drop, status_document
from numakube.kube.store import Added, Change, Removed, Updated
from numakube.testing import until

PODS = Resource(version="v1", plural="pods", kind="Pod", namespaced=True, object_type=Pod)
END = {"k8s.io/initial-events-end": "true"}


class Collection:
    """The pods of a server that keeps a history, forgets it, breaks and restarts on demand."""

    def __init__(self, server: ScriptedServer, *, version: int = 100) -> None:
        self.version = version
        self.objects: dict[str, dict[str, Any]] = {}
        self.expired_as_event = False
        self.knows_streaming = True
        self.page_size = 1000
        self._server = server
        self._uids = itertools.count(1)
        self._history: list[tuple[int, bytes]] = []
        self._oldest = version
        self._pages: dict[str, list[dict[str, Any]]] = {}
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        server.otherwise = self._handle

    def put(self, name: str, **fields: Any) -> None:
        """Create or change a pod."""
        self.version += 1
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else str(next(self._uids))
        metadata = {"name": name, "namespace": "ns", "uid": uid}
        obj = {"metadata": {**metadata, "resourceVersion": str(self.version)}, **fields}
        self.objects[name] = obj
        self._tell("MODIFIED" if old else "ADDED", obj)

    def delete(self, name: str) -> None:
        """Delete a pod, if it is there."""
        obj = self.objects.pop(name, None)
        if obj is not None:
            self.version += 1
            last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
            self._tell("DELETED", last)

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        self._send(event("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def error(self, code: int, reason: str) -> None:
        """End every watch with an ERROR event."""
        self._send(event("ERROR", status_document(code, reason)))
        self.end()

    def end(self) -> None:
        """End every watch properly."""
        self._send(b"END")

    def cut(self) -> None:
        """Break the connection of every watch in the middle of a line."""
        self._send(None)

    def forget(self) -> None:
        """Forget the history: watches and continuations from before now have expired."""
        self._oldest = self.version
        self._history.clear()

    async def restart(self, *, losing_everything: bool = False) -> None:
        """Restart the server on the same port; losing everything, its versions begin far below."""
        await self._server.stop()
        if losing_everything:
            self.version = self._oldest = max(1, self.version // 1000)
            self.objects.clear()
            self._history.clear()
        await self._server.start()

    @property
    def lists(self) -> list[dict[str, str]]:
        """The queries of the lists so far, except those for the latest version alone."""
        queries = [dict(each.query) for each in self._server.received]
        return [each for each in queries if "watch" not in each and each.get("limit") != "1"]

    @property
    def watches(self) -> list[dict[str, str]]:
        """The queries of the watches so far."""
        return [dict(each.query) for each in self._server.received if "watch" in each.query]

    async def watched(self, count: int = 1) -> None:
        """Return as soon as *count* watches are open."""
        await until(lambda: len(self._watchers) >= count)

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        line = event(kind, obj)
        self._history.append((self.version, line))
        self._send(line)

    def _send(self, line: bytes | None) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(line)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return self._list(request)
        if "sendInitialEvents" in request.query and self.knows_streaming:
            everything = [event("ADDED", obj) for obj in self.objects.values()]
            about = {"resourceVersion": str(self.version), "annotations": END}
            return await self._stream(
                request, [*everything, event("BOOKMARK", {"metadata": about})]
            )
        since = int(request.query.get("resourceVersion", self.version))
        if since < self._oldest and not self.expired_as_event:
            return web.json_response(status_document(410, "Expired"), status=410)
        if since < self._oldest:
            return await self._stream(request, [event("ERROR", status_document(410)), b"END"])
        return await self._stream(request, [line for at, line in self._history if at > since])

    def _list(self, request: web.Request) -> web.Response:
        version, _, start = request.query.get("continue", f"{self.version}:0").partition(":")
        if int(version) < self._oldest and int(start):
            return web.json_response(status_document(410, "Expired"), status=410)
        size = min(self.page_size, int(request.query.get("limit", 10_000)))
        end = int(start) + size
        # All pages show the state at the time of the first.
        state = self._pages.setdefault(version, list(self.objects.values()))
        metadata = {"resourceVersion": version}
        if end < len(state):
            metadata["continue"] = f"{version}:{end}"
        items = state[int(start) : end]
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": items})

    async def _stream(self, request: web.Request, lines: list[bytes]) -> web.StreamResponse:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for line in lines:
            queue.put_nowait(line)
        # Registered before the first await, so that nothing is missed.
        self._watchers.add(queue)
        try:
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            while (line_or_cut := await queue.get()) != b"END":
                if line_or_cut is None:
                    await response.write(b'{"type":"ADDED","object":{"metadata":{"na')
                    drop(request)
                    break
                await response.write(line_or_cut)
        except ConnectionError:
            drop(request)
        finally:
            self._watchers.discard(queue)
        return response


def event(kind: str, obj: object) -> bytes:
    """Return a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


class Mirror:
    """What a subscriber knows of the store, from its notifications alone."""

    def __init__(self, reflector: Reflector[Pod]) -> None:
        self.changes: list[Change[Pod]] = []
        self.objects: dict[ObjectKey, Pod] = {}
        self._waiters: dict[ObjectKey, asyncio.Event] = {}
        reflector.store.subscribe(self._handle)

    async def seen(self, name: str) -> None:
        """Return as soon as a pod of this name has been added."""
        await self._waiters.setdefault(ObjectKey("ns", name), asyncio.Event()).wait()

    def _handle(self, change: Change[Pod]) -> None:
        key = key_of(change.object)
        self.changes.append(change)
        match change:
            case Added(obj):
                assert key not in self.objects
                self.objects[key] = obj
                self._waiters.setdefault(key, asyncio.Event()).set()
            case Updated(old, obj):
                assert self.objects[key] == old
                self.objects[key] = obj
            case Removed():
                del self.objects[key]


async def equal(collection: Collection, reflector: Reflector[Pod], mirror: Mirror) -> None:
    """Wait until the store has seen a last change, and check that all three agree."""
    marker = f"marker-{collection.version}"
    collection.put(marker)
    await mirror.seen(marker)
    on_server = {
        ObjectKey("ns", name): obj["metadata"]["resourceVersion"]
        for name, obj in collection.objects.items()
    }
    in_store = {key_of(each): each.metadata.resource_version for each in reflector.store}
    assert in_store == on_server
    assert mirror.objects == {key_of(each): each for each in reflector.store}
    assert reflector.store.failures == 0


def names_in(reflector: Reflector[Pod]) -> list[str]:
    """Return the names of the pods in the store, sorted."""
    return sorted(each.metadata.name for each in reflector.store)
