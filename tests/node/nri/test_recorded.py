"""What containerd 1.7.24 (Debian 13) said over NRI, and what we answered, byte by byte.

A recording has one line a turn: who spoke, and what, in base64. In this one a pod runs already;
then a second one is made with one container that is adjusted, resized by the kubelet's call,
changed by us without being asked, and removed.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from tests.node.nri.handling import Noting, connect

from numakube.node.nri.nri_objects import Cpu, Update
from numakube.node.nri.nri_plugin import Event
from numakube.node.nri.ttrpc_frames import Outer

pytestmark = pytest.mark.timeout(60)

TURNS = [
    (turn["from"], base64.b64decode(turn["bytes"]))
    for line in (Path(__file__).parent / "recorded" / "containerd-1.7.24.jsonl")
    .read_text()
    .splitlines()
    for turn in (json.loads(line),)
]


def streams(data: bytes) -> dict[int, bytes]:
    """Return what was said in each conversation."""
    said: dict[int, bytes] = {}
    for conversation, piece in Outer().feed(data):
        said[conversation] = said.get(conversation, b"") + piece
    return said


class Replaying:
    """A runtime that says its lines of the recording, each when it has heard what came before."""

    def __init__(self) -> None:
        self.heard = b""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Go through the recording with a plugin."""
        for who, said in TURNS:
            if who == "plugin":
                self.heard += await reader.readexactly(len(said))
            else:
                writer.write(said)
                await writer.drain()
        writer.close()


async def test_containerd_hears_from_us_what_it_heard_then(tmp_path: Path) -> None:
    """And we understand it as we did."""
    replaying = Replaying()
    server = await asyncio.start_unix_server(replaying.accept, tmp_path / "s")
    handler = Noting(says=Cpu(cpus="1", mems="0", quota=-1))
    async with server:
        session = await connect(tmp_path / "s", handler)
        running = asyncio.ensure_future(session.run())
        await handler.updated.wait()
        identity = handler.heard[-1][2].id
        assert await session.update([Update(container_id=identity, cpu=Cpu(cpus="0-1"))]) == []
        await running
    recorded = b"".join(said for who, said in TURNS if who == "plugin")
    assert streams(replaying.heard) == streams(recorded)
    assert handler.runtime is not None
    assert (handler.runtime.name, handler.runtime.version) == ("containerd", "1.7.24~ds1")
    (_, pods, containers), run, creating, updating, *removed = handler.heard
    assert [pod.name for pod in pods] == ["old"]
    assert [one.name for one in containers] == ["app"]
    assert (run[0], run[1].name) == (Event.RUN_POD_SANDBOX, "web")
    assert creating[1].uid == "00000000-0000-4000-8000-000000000002"
    assert creating[2].cpu == Cpu(quota=50000, period=100000)
    assert updating[3] == Cpu(quota=70000, period=100000)
    assert [one[0] for one in removed] == [Event.REMOVE_CONTAINER, Event.REMOVE_POD_SANDBOX]
