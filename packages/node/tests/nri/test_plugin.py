"""A plugin registers, hears of everything, and answers; runtimes that misbehave are left alone."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from packages.node.tests.nri.handling import APP, POD, Noting, connect

from numakube.errors import RuntimeUnavailable
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import CpuLimits, Update
from numakube.node.nri.nri_plugin import NriEvent, Session

pytestmark = pytest.mark.timeout(60)


@contextlib.asynccontextmanager
async def running(runtime: FakeRuntime, handler: Noting, socket: Path) -> AsyncIterator[Session]:
    """Run a plugin until it is not needed any more."""
    session = await connect(socket, handler)
    task = asyncio.ensure_future(session.run())
    await runtime.connected.wait()
    try:
        yield session
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def joined(
    folder: Path, handler: Noting, *, dedicated: bool = True, seconds: float = 2.0
) -> AsyncIterator[tuple[FakeRuntime, Session]]:
    """Run a runtime with a plugin."""
    fake = FakeRuntime(folder / "s", dedicated=dedicated, request_seconds=seconds)
    async with fake as runtime, running(runtime, handler, folder / "s") as session:
        yield runtime, session


async def test_a_plugin_is_told_who_asks_and_what_runs(tmp_path: Path) -> None:
    """And may change what runs at once."""
    update = Update(container_id="c1", cpu=CpuLimits(cpus="2-3", mems="1", quota=-1))
    handler = Noting(updates=[update])
    async with FakeRuntime(tmp_path / "s", version="1.7.24", request_seconds=3.0) as runtime:
        runtime.pods["5a"], runtime.containers["c1"] = POD, APP
        async with running(runtime, handler, tmp_path / "s"):
            assert runtime.registered == [("numakube", "90")]
            assert handler.runtime is not None
            assert (handler.runtime.version, handler.runtime.request_seconds) == ("1.7.24", 3.0)
            assert handler.heard == [("synchronized", [POD], [APP])]
            assert runtime.updates == [update]


async def test_a_container_is_made_with_what_the_plugin_says(tmp_path: Path) -> None:
    """What it does not say stays as the kubelet wants it."""
    handler = Noting(says=CpuLimits(cpus="0-1", quota=-1))
    async with joined(tmp_path, handler) as (runtime, _):
        assert await runtime.create(POD, APP) == CpuLimits(cpus="0-1", quota=-1, period=100000)
        wanted = CpuLimits(quota=70000, period=100000)
        assert (await runtime.update(POD, APP, wanted)).quota == -1
        assert handler.heard[1:] == [("creating", POD, APP), ("updating", POD, APP, wanted)]
        handler.says = None
        assert await runtime.create(POD, APP) == APP.cpu
        assert await runtime.update(POD, APP, wanted) == wanted


@pytest.mark.parametrize("dedicated", [False, True])
async def test_events_are_heard_in_both_ways(dedicated: bool, tmp_path: Path) -> None:
    """Runtimes with older NRI have one method for all of them."""
    handler = Noting()
    async with joined(tmp_path, handler, dedicated=dedicated) as (runtime, _):
        await runtime.tell(NriEvent.RUN_POD_SANDBOX, POD)
        await runtime.tell(NriEvent.REMOVE_CONTAINER, POD, APP)
        await runtime.tell(NriEvent.REMOVE_POD_SANDBOX, POD)
    assert handler.heard[1:] == [
        (NriEvent.RUN_POD_SANDBOX, POD, None),
        (NriEvent.REMOVE_CONTAINER, POD, APP),
        (NriEvent.REMOVE_POD_SANDBOX, POD, None),
    ]


async def test_updates_of_other_containers_ride_on_every_answer(tmp_path: Path) -> None:
    """They are no part of what the container in question gets."""
    update = Update(container_id="c2", cpu=CpuLimits(cpus="4"))
    async with joined(tmp_path, Noting(says=CpuLimits(cpus="1"), others=[update])) as (runtime, _):
        assert (await runtime.create(POD, APP)).cpus == "1"
        assert runtime.updates == [update]
        assert (await runtime.update(POD, APP, CpuLimits())).cpus == "1"
        assert runtime.updates == [update] * 2
        await runtime.stop(POD, APP)
        assert runtime.updates == [update] * 3


async def test_a_long_list_of_updates_fits_into_pieces(tmp_path: Path) -> None:
    """Go's end reads no more than 4 KiB at once."""
    updates = [
        Update(container_id=f"{number:064x}", cpu=CpuLimits(cpus="0-127", mems="0-7"))
        for number in range(1000)
    ]
    async with joined(tmp_path, Noting(others=updates)) as (runtime, _):
        await runtime.stop(POD, APP)
    assert runtime.updates == updates


async def test_one_slow_answer_keeps_no_other_waiting(tmp_path: Path) -> None:
    """And a runtime that has waited long enough goes on without it."""
    handler = Noting(hold=asyncio.Event(), says=CpuLimits(cpus="1"))
    async with joined(tmp_path, handler, seconds=0.2) as (runtime, _):
        slow = asyncio.ensure_future(runtime.create(POD, APP))
        await runtime.tell(NriEvent.RUN_POD_SANDBOX, POD)
        assert await slow == APP.cpu
        assert not runtime.connected.is_set()


async def test_a_session_ends_with_its_runtime(tmp_path: Path) -> None:
    """Quietly if all was well."""
    async with FakeRuntime(tmp_path / "s") as runtime:
        session = await connect(tmp_path / "s", Noting())
        task = asyncio.ensure_future(session.run())
        await runtime.connected.wait()
        runtime.hang_up()
        await task


Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def meet(socket: Path, behaviour: Connection) -> str:
    """Return what a session with such a runtime ends with."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await behaviour(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(accept, socket)
    async with server:
        session = await connect(socket, Noting())
        with pytest.raises(RuntimeUnavailable) as caught:
            await session.run()
    return str(caught.value)


async def test_a_runtime_that_hangs_up_at_once_is_told_of(tmp_path: Path) -> None:
    """The plugin was not taken."""

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)

    assert "closed" in await meet(tmp_path / "s", leave)


@pytest.mark.parametrize(
    "junk",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">II", 2, 0xFFFFFFFF),
        struct.pack(">II", 2, 10) + struct.pack(">IIBB", 0xFFFFFF, 1, 2, 0),
        struct.pack(">II", 2, 12) + struct.pack(">IIBB", 2, 1, 2, 0) + b"\xff\xff",
    ],
)
async def test_junk_ends_a_session_with_a_reason(junk: bytes, tmp_path: Path) -> None:
    """Whatever answers on that socket is no runtime."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(junk)
        await writer.drain()
        await reader.read()

    assert (await meet(tmp_path / "s", babble)).startswith("NRI: ")


async def test_junk_in_a_question_is_refused_and_nothing_else(tmp_path: Path) -> None:
    """The next question is answered."""
    handler = Noting(says=CpuLimits(cpus="1"))
    async with joined(tmp_path, handler) as (runtime, _):
        assert runtime.peer is not None
        with pytest.raises(RuntimeUnavailable):
            await runtime.peer.call("Plugin", "CreateContainer", b"\xff\xff", seconds=5.0)
        with pytest.raises(RuntimeUnavailable, match="no method"):
            await runtime.peer.call("Plugin", "Dance", b"", seconds=5.0)
        assert (await runtime.create(POD, APP)).cpus == "1"
