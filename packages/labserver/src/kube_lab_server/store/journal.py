"""Keep the store across restarts: a journal of its changes in an SQLite file.

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
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from kube_lab_server.store.store import ChangeType, Key, Stored
from numakube.errors import ConfigError, NumakubeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kube_lab_server.store.store import StoreChange, VersionedStore

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
