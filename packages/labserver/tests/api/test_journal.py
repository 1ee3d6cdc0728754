"""The journal, apart from a server."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from kube_lab_server.store.store import Journal, Key, NotKept, VersionedStore
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

KEY = Key("configmaps", "default", "a")


def stored_names(path: Path) -> set[str]:
    """Read the file behind the journal's back."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return {name for (name,) in database.execute("select name from object")}


async def test_a_change_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    """A waiter gets the error; it is not forgotten."""
    path = tmp_path / "lab.db"
    journal, store = Journal(path), VersionedStore()
    journal.attach(store)
    journal._database.execute(
        "create trigger full before insert on object begin select raise(fail, 'disk full'); end"
    )
    store.put(KEY, {"metadata": {}})
    with pytest.raises(NotKept, match=r"lab\.db: disk full"):
        await journal.settled()
    assert journal.fails
    journal._database.execute("drop trigger full")
    await journal.settled()
    assert not journal.fails
    await journal.aclose()

    assert stored_names(path) == {"a"}


async def test_changes_are_written_in_order(tmp_path: Path) -> None:
    """The last state of an object wins."""
    path = tmp_path / "lab.db"
    journal, store = Journal(path), VersionedStore()
    journal.attach(store)
    for value in "xyz":
        store.put(KEY, {"metadata": {}, "data": value})
    store.put(KEY._replace(name="b"), {"metadata": {}})
    store.remove(KEY._replace(name="b"))
    await journal.aclose()
    again, restored = Journal(path), VersionedStore()
    again.attach(restored)
    await again.aclose()

    found = restored.get(KEY)
    assert found is not None
    assert found.obj["data"] == "z"
    assert len(restored.listed("configmaps")) == 1
    assert restored.version > store.version


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """It is named, and not touched."""
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 100)
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        Journal(path)

    assert path.read_text().startswith("buy milk")


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds secrets."""
    path = tmp_path / "lab.db"
    journal = Journal(path)
    journal._database.close()

    assert path.stat().st_mode & 0o077 == 0
