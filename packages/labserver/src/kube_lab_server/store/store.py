"""The versioned store: what etcd is to a kube-apiserver.

One counter numbers every change, so a version names a moment of the whole store. The latest changes
of each resource are kept: from them a watch resumes and a list is shown as it was at an earlier
version. What is older has been *compacted*, and asking for it gives `VersionCompacted`.

Objects are immutable once stored: a change stores a new dict. Nothing here awaits, so every
operation is atomic within the event loop.

Keep the store across restarts: a journal of its changes in an SQLite file.

What was acknowledged is never lost: an answer, and every event of a watch, leaves the server only
after the changes it tells of are on disk. Changes that come in while the disk is busy are written
together, so that the rate of writes is not that of the disk's confirmations.

If the disk is full, those who wait for their changes get `NotKept`, and nothing more is to be
changed until these are on disk: every reader and writer has it tried again. Reading goes on, and
may then tell of the changes that met the full disk first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from bisect import bisect_left, insort
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from numakube.errors import ConfigError, NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kube_lab_server.kind_names import Json


HISTORY_LENGTH: Final = 10_000
"""How many changes of a resource are kept; a real server keeps five minutes of them."""
HISTORY_BYTES: Final = 32 << 20
"""What the versions in the history of a resource may take as JSON text."""
_NO_LINE: Final = (b"", None, b"")
_SELDOM_READ: Final = frozenset({"events"})
"""Resources of which there are many objects that hardly anybody reads: all are kept as text."""


class Key(NamedTuple):
    """Where an object is stored; *resource* is like ``apps/deployments``."""

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The key within its resource; objects are listed in the order of their paths."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ChangeType(StrEnum):
    """What happened to an object, as watches call it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Stored:
    """One version of an object. Its JSON text is made once and shared by all who need it.

    One that is no longer the latest, or seldom read, is kept as JSON text: a tenth of the object.

    Attributes:
        form: what the object is written in, such as the rules of a version of its kind; None if
            there is but one form.
    """

    __slots__ = ("_held", "_line", "_tails", "form", "key", "version")

    def __init__(self, key: Key, obj: Json, version: int, form: object = None) -> None:
        self.key = key
        self._held: Json | bytes = obj
        self.version = version
        self.form = form
        self._tails: dict[int, tuple[object, bytes]] = {}
        self._line: tuple[bytes, object, bytes] = _NO_LINE

    @property
    def obj(self) -> Json:
        """The object."""
        held = self._held
        return msgspec.json.decode(held) if isinstance(held, bytes) else held

    def pack(self) -> int:
        """Keep the object as text from now on; return the length of the text."""
        text = self._text()
        self._held = text
        self._tails.clear()
        self._line = _NO_LINE
        return len(text)

    def _text(self) -> bytes:
        """Return all of the object as text, if possible from the one that watches got."""
        held, known = self._held, self._tails.get(id(None))
        if isinstance(held, bytes):
            return held
        if known is None or known[0] is not None or "kind" not in held:
            return msgspec.json.encode(held)
        named = {name: held[name] for name in ("kind", "apiVersion") if name in held}
        return b"%b,%b" % (msgspec.json.encode(named)[:-1], known[1])

    def tail(self, form: object, read: Callable[[], Json]) -> bytes:
        """Return the object's JSON text in *form* after ``{"kind":...,"apiVersion":...,``.

        Args:
            form: the form; the text is kept as long as this is.
            read: gives the object in that form.
        """
        known = self._tails.get(id(form))
        if known is None or known[0] is not form:
            bare = {k: v for k, v in read().items() if k not in ("kind", "apiVersion")}
            known = (form, msgspec.json.encode(bare)[1:])
            self._tails[id(form)] = known
        return known[1]

    def line(self, head: bytes, form: object, read: Callable[[], Json]) -> bytes:
        """Return *head* and `tail` as an event of a watch; all watches alike share the text."""
        if self._line[0] != head or self._line[1] is not form:
            self._line = (head, form, b"%s%s}\n" % (head, self.tail(form, read)))
        return self._line[2]


class StoreChange(NamedTuple):
    """A change of an object; of a deletion, *now* is the last state with the deletion's version."""

    type: ChangeType
    now: Stored
    before: Stored | None

    @property
    def version(self) -> int:
        """The version that this change made."""
        return self.now.version

    def pack(self) -> int:
        """Keep what is not the latest version of the object as text; return the texts' length."""
        deleted = self.now.pack() if self.type is ChangeType.DELETED else 0
        return deleted + (0 if self.before is None else self.before.pack())


@dataclass(frozen=True, slots=True)
class VersionCompacted:
    """The asked-for version was compacted; *oldest* is the first that is still known."""

    oldest: int


@dataclass
class _Shelf:
    """The objects of one resource, and what happened to them lately.

    Attributes:
        floor: the version up to which changes are forgotten.
        packed_bytes: what the versions in the history take that are no longer the latest.
    """

    objects: dict[str, Stored] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    changes: deque[StoreChange] = field(default_factory=deque)
    listeners: dict[int, Callable[[StoreChange], None]] = field(default_factory=dict)
    floor: int = 0
    packed_bytes: int = 0

    def paths_under(self, namespace: str) -> list[str]:
        """Return the paths in *namespace*, or all if it is empty."""
        if not namespace:
            return self.paths
        # "/" is followed by "0" in ASCII, so these two bounds enclose the namespace's paths.
        start = bisect_left(self.paths, f"{namespace}/")
        return self.paths[start : bisect_left(self.paths, f"{namespace}0")]

    def trim(self, latest: StoreChange, history: int) -> None:
        """Pack what *latest* has superseded, and forget the oldest changes if it gets too much."""
        self.packed_bytes += latest.pack()
        while len(self.changes) > history or self.packed_bytes > HISTORY_BYTES:
            oldest = self.changes.popleft()
            self.packed_bytes -= oldest.pack()
            self.floor = oldest.version

    def forget(self, version: int) -> None:
        """Forget the history up to *version*, the present one."""
        self.changes.clear()
        self.packed_bytes = 0
        self.floor = version


class VersionedStore:
    """All objects of an API server; *history* changes of each resource are remembered."""

    def __init__(self, *, version: int = 1, history: int = HISTORY_LENGTH) -> None:
        self.version = version
        self._history = history
        self._compacted = 0
        self._shelves: dict[str, _Shelf] = {}
        self._next_listener = 0
        self.recorder: Callable[[StoreChange], None] | None = None
        """Called with each change before anybody else learns of it, for persistence."""

    def get(self, key: Key) -> Stored | None:
        """Return the object at *key*."""
        return self._shelf(key.resource).objects.get(key.path)

    def listed(self, resource: str, namespace: str = "") -> list[Stored]:
        """Return the objects of *resource* in the order of their keys."""
        shelf = self._shelf(resource)
        return [shelf.objects[path] for path in shelf.paths_under(namespace)]

    def list_at(
        self, resource: str, namespace: str, version: int
    ) -> list[Stored] | VersionCompacted:
        """Return the objects as they were at *version*."""
        if version >= self.version:
            return self.listed(resource, namespace)
        since = self.changes_since(resource, version)
        if isinstance(since, VersionCompacted):
            return since
        objects = {stored.key.path: stored for stored in self.listed(resource, namespace)}
        for change in reversed(since):
            if namespace in ("", change.now.key.namespace):
                if change.before is None:
                    objects.pop(change.now.key.path, None)
                else:
                    objects[change.now.key.path] = change.before
        return [objects[path] for path in sorted(objects)]

    def resources(self) -> list[str]:
        """Return the resources that have objects."""
        return [name for name, shelf in self._shelves.items() if shelf.objects]

    def put(self, key: Key, obj: Json, *, form: object = None) -> Stored:
        """Store *obj*, written in *form*, at *key* as a new version of it."""
        shelf = self._shelf(key.resource)
        before = shelf.objects.get(key.path)
        now = self._next(key, obj, form)
        shelf.objects[key.path] = now
        if before is None:
            insort(shelf.paths, key.path)
        kind = ChangeType.ADDED if before is None else ChangeType.MODIFIED
        self._announce(shelf, StoreChange(kind, now, before))
        return now

    def remove(self, key: Key, obj: Json | None = None) -> Stored:
        """Delete what is at *key*; *obj* is its last state if that differs from the stored one."""
        shelf = self._shelf(key.resource)
        before = shelf.objects.pop(key.path)
        del shelf.paths[bisect_left(shelf.paths, key.path)]
        now = self._next(key, before.obj if obj is None else obj, before.form)
        self._announce(shelf, StoreChange(ChangeType.DELETED, now, before))
        return now

    def restore(self, stored: Iterable[Stored], version: int) -> None:
        """Take over what an earlier store held at *version*; its history is not known."""
        for item in stored:
            shelf = self._shelf(item.key.resource)
            shelf.objects[item.key.path] = item
        for shelf in self._shelves.values():
            shelf.paths = sorted(shelf.objects)
        self.version = max(version, self.version)
        self.compact()

    def changes_since(self, resource: str, version: int) -> list[StoreChange] | VersionCompacted:
        """Return what happened to *resource* after *version*."""
        shelf = self._shelf(resource)
        if version < shelf.floor:
            return VersionCompacted(shelf.floor)
        recent: list[StoreChange] = []
        for change in reversed(shelf.changes):
            if change.version <= version:
                break
            recent.append(change)
        recent.reverse()
        return recent

    def subscribe(
        self, resource: str, listener: Callable[[StoreChange], None]
    ) -> Callable[[], None]:
        """Call *listener* with each change of *resource* from now on, until told to stop."""
        shelf = self._shelf(resource)
        self._next_listener += 1
        number = self._next_listener
        shelf.listeners[number] = listener
        return lambda: shelf.listeners.pop(number, None) and None

    def compact(self) -> None:
        """Forget all history up to now. As in etcd, that is a change of its own."""
        self.version += 1
        self._compacted = self.version
        for shelf in self._shelves.values():
            shelf.forget(self.version)

    def __iter__(self) -> Iterator[Stored]:
        for shelf in self._shelves.values():
            yield from shelf.objects.values()

    def _shelf(self, resource: str) -> _Shelf:
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = _Shelf(floor=self._compacted)
        return shelf

    def _next(self, key: Key, obj: Json, form: object) -> Stored:
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        return Stored(key, {**obj, "metadata": metadata}, self.version, form)

    def _announce(self, shelf: _Shelf, change: StoreChange) -> None:
        if self.recorder is not None:
            self.recorder(change)
        shelf.changes.append(change)
        for listener in list(shelf.listeners.values()):
            listener(change)
        # Last, since listeners read both versions.
        shelf.trim(change, self._history)
        if change.now.key.resource in _SELDOM_READ:
            change.now.pack()


_SCHEMA: Final = """
create table if not exists object (
    resource text, namespace text, name text, version integer not null, body blob not null,
    primary key (resource, namespace, name)
) without rowid;
create table if not exists setting (name text primary key, value blob not null) without rowid;
"""
_PUT: Final = "insert or replace into object values (?, ?, ?, ?, ?)"
_REMOVE: Final = "delete from object where resource = ? and namespace = ? and name = ?"
_SET: Final = "insert or replace into setting values (?, ?)"
_VERSION: Final = "version"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NotKept(NumakubeError):
    """Changes cannot be written down."""


class _Entry(NamedTuple):
    """A change as it is written; without body, a deletion."""

    key: Key
    version: int
    body: bytes | None


class Journal:
    """Writes the changes of a store to the file *path*, in order, from a thread of its own.

    Attributes:
        fails: whether the last attempt to write has failed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._pending: list[_Entry] = []
        self._flush: asyncio.Task[None] | None = None
        self._database = _open(path)
        self.fails = False

    def attach(self, store: VersionedStore) -> None:
        """Fill *store* with what the file holds, and write down its changes from now on."""
        version = self.setting(_VERSION)
        store.restore(self._objects(), int(version) if version else 0)
        store.recorder = self._record

    def setting(self, name: str) -> bytes | None:
        """Return a setting that is kept with the objects, such as a signing key."""
        row = self._database.execute("select value from setting where name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set(self, name: str, value: bytes) -> None:
        """Keep a setting."""
        with self._database:
            self._database.execute(_SET, (name, value))

    def is_settled(self) -> bool:
        """Tell whether every change so far is on disk."""
        return not self._pending and self._flush is None

    async def settled(self) -> None:
        """Wait until every change so far is on disk."""
        while not self.is_settled():
            if self._flush is None:
                self._flush = asyncio.create_task(self._write_pending(), name="journal")
            await asyncio.shield(self._flush)

    async def aclose(self) -> None:
        """Write what is left, if that can be, and close the file."""
        with contextlib.suppress(NotKept):
            await self.settled()
        self._worker.shutdown()
        self._database.close()

    def _record(self, change: StoreChange) -> None:
        deleted = change.type is ChangeType.DELETED
        body = None if deleted else msgspec.json.encode(change.now.obj)
        self._pending.append(_Entry(change.now.key, change.version, body))

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    await asyncio.get_running_loop().run_in_executor(
                        self._worker, self._commit, batch
                    )
                except sqlite3.Error as error:
                    # No client has been answered yet; the next one to wait tries again.
                    self._pending = batch + self._pending
                    self._tell(error)
                    raise NotKept(f"{self._path.name}: {error}") from None
                self._tell(None)
        finally:
            self._flush = None

    def _tell(self, error: sqlite3.Error | None) -> None:
        """Log that writing fails, or goes on; not for every attempt."""
        if self.fails != (error is not None):
            self.fails = error is not None
            if error is None:
                _log.warning("journal_recovered", file=str(self._path))
            else:
                _log.error("journal_failed", file=str(self._path), error=str(error))

    def _commit(self, batch: list[_Entry]) -> None:
        with self._database:
            for entry in batch:
                if entry.body is None:
                    self._database.execute(_REMOVE, entry.key)
                else:
                    self._database.execute(_PUT, (*entry.key, entry.version, entry.body))
            self._database.execute(_SET, (_VERSION, str(batch[-1].version).encode()))

    def _objects(self) -> Iterator[Stored]:
        rows = self._database.execute("select resource, namespace, name, version, body from object")
        for resource, namespace, name, version, body in rows:
            obj = msgspec.json.decode(body)
            yield Stored(Key(resource, namespace, name), obj, version)


def _open(path: Path) -> sqlite3.Connection:
    """Open the file for this process alone; it holds secrets, so it is for its owner alone."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(path, check_same_thread=False, timeout=0)
    try:
        database.execute("pragma locking_mode = exclusive")
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
        database.executescript(_SCHEMA)
    except sqlite3.DatabaseError as error:
        database.close()
        raise ConfigError(
            f"{path}: cannot be used to keep the lab's objects: {error}; "
            "is another lab using it, or is it some other file?"
        ) from error
    return database
