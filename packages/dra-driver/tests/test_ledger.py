"""What claims have is on disk, and nothing else is ever taken for it."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from numakube.errors import ConfigError
from numakube.kube.clock import JumpingClock, ManualClock
from numakube.node.bounded_files import MOST_BYTES
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.ledger import (
    FILE,
    LOCK_SECONDS,
    Disk,
    GivenDevice,
    Ledger,
    PreparedClaim,
    StateError,
)


def entry(uid: str = "u1", cpus: str = "0-1") -> PreparedClaim:
    """Return a claim."""
    given = GivenDevice(request="cpus", pool="n1/compute", device="cpu-numa0", cpus=cpus)
    return PreparedClaim(driver=DRIVER, uid=uid, namespace="default", name=uid, results=(given,))


def loaded(folder: Path) -> Ledger:
    """Return the ledger as a process finds it that starts now."""
    ledger = Ledger(folder, ManualClock())
    ledger.load()
    return ledger


def test_another_process_finds_what_one_has_put(tmp_path: Path) -> None:
    one = loaded(tmp_path)
    one.put(entry())
    one.put(entry("u2", "4"))
    one.drop((DRIVER, "u1"))
    other = loaded(tmp_path)
    assert dict(other.claims) == {(DRIVER, "u2"): entry("u2", "4")}
    assert str(CpuSet(other.held.cpus)) == "4"


async def test_a_process_reads_what_another_has_written_meanwhile(tmp_path: Path) -> None:
    one, other = loaded(tmp_path), loaded(tmp_path)
    async with one.locked():
        one.put(entry())
    async with other.locked():
        assert list(other.claims) == [(DRIVER, "u1")]


def test_a_file_that_was_replaced_is_read_whatever_its_inode_and_time(tmp_path: Path) -> None:
    """File systems give inodes out again, and several writes have the same time."""
    one = loaded(tmp_path)
    one.put(entry())
    path = tmp_path / FILE
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"u1"', b'"u2"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    one.load()
    assert list(one.claims) == [(DRIVER, "u2")]


def test_nothing_is_kept_that_could_not_be_read_again(tmp_path: Path) -> None:
    """The claim that is too much is refused, and all others keep what they have."""
    ledger = loaded(tmp_path)
    ledger.put(entry())
    with pytest.raises(StateError, match=f"would have more than {MOST_BYTES} bytes"):
        ledger.put(replace(entry("u2", "4"), consumers=("x" * MOST_BYTES,)))
    assert list(ledger.claims) == list(loaded(tmp_path).claims) == [(DRIVER, "u1")]


async def test_only_one_process_has_the_lock(tmp_path: Path) -> None:
    one, other = Ledger(tmp_path, JumpingClock()), Ledger(tmp_path, JumpingClock())
    async with one.locked():
        with pytest.raises(StateError, match=f"another process has held .* for {LOCK_SECONDS:g} s"):
            async with other.locked():
                pass
    async with other.locked():
        pass


async def test_calls_in_one_process_take_turns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, ManualClock())
    seen: list[str] = []

    async def call(name: str) -> None:
        async with ledger.locked():
            seen.append(name)
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)
            seen.append(name)

    await asyncio.gather(call("a"), call("b"))
    assert seen in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "makes no sense"),
        ('{"version": 1, "claims": [{"uid": "u1"', "makes no sense"),
        ('{"version": 2}', "version 2 is not known"),
        (
            '{"claims": [{"driver": "d", "uid": "../../etc", "namespace": "a", "name": "b"}]}',
            "is not a uid",
        ),
        (
            '{"claims": [{"driver": "d", "uid": "a", "namespace": "n", "name": "a", "results":'
            '[{"request": "r", "pool": "p", "device": "d", "cpus": "0-1"}]}, {"driver": "d", "uid":'
            '"b", "namespace": "n", "name": "b", "results":'
            '[{"request": "r", "pool": "p", "device": "d", "cpus": "1"}]}]}',
            "CPUs 1 of claim n/b are another claim's as well",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_and_kept(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateError, match="start once with --forget-state") as refused:
        loaded(tmp_path)
    assert words in str(refused.value)
    assert (tmp_path / FILE).read_text() == text


def test_state_can_be_forgotten_and_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("broken")
    Ledger(tmp_path, ManualClock()).forget()
    assert not loaded(tmp_path).claims
    assert (tmp_path / "state.forgotten").read_text() == "broken"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot keep state"):
        Ledger(tmp_path / "file" / "state", ManualClock())


class FullDisk(Disk):
    """Has no room for anything new."""

    def fill(self, path: Path, text: str, mode: int, *, lasting: bool = True) -> None:
        """Fail."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    loaded(tmp_path).put(entry())
    ledger = Ledger(tmp_path, ManualClock(), disk=FullDisk())
    ledger.load()
    with pytest.raises(StateError, match="No space left on device"):
        ledger.put(entry("u2", "4"))
    assert list(ledger.claims) == list(loaded(tmp_path).claims) == [(DRIVER, "u1")]
