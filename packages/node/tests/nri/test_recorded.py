"""What containerd 1.7.24 (Debian 13) and 2.1.9 said over NRI, and what we answered, byte by byte.

A recording has one line a turn: who spoke, and what, in base64. In these a pod runs already; then a
second one is made with one container that is adjusted, resized by the kubelet's call, stopped and
removed. Every answer about it also changes the container that ran before, and both runtimes did so.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from packages.node.tests.nri.handling import Noting, connect

from numakube.node.nri.nri_objects import (
    ContainerAdjustment,
    CpuLimits,
    NriContainer,
    Sandbox,
    Update,
)
from numakube.node.nri.nri_plugin import NriEvent
from numakube.node.nri.ttrpc_frames import Outer

pytestmark = pytest.mark.timeout(60)

Turns = list[tuple[str, bytes]]


def turns_of(version: str) -> Turns:
    """Return who said what."""
    path = Path(__file__).parent / "recorded" / f"containerd-{version}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line["from"], base64.b64decode(line["bytes"])) for line in lines]


def streams(data: bytes) -> dict[int, bytes]:
    """Return what was said in each conversation."""
    said: dict[int, bytes] = {}
    for conversation, piece in Outer().feed(data):
        said[conversation] = said.get(conversation, b"") + piece
    return said


class Replaying:
    """A runtime that says its lines of the recording, each when it has heard what came before."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.heard = b""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Go through the recording with a plugin."""
        for who, said in self._turns:
            if who == "plugin":
                self.heard += await reader.readexactly(len(said))
            else:
                writer.write(said)
                await writer.drain()
        writer.close()


class Then(Noting):
    """The plugin of the recording: it moves the older container with each of its answers."""

    async def creating(self, pod: Sandbox, container: NriContainer) -> ContainerAdjustment:
        """Move it to one CPU, now and with the next answer."""
        self._move("0")
        return await super().creating(pod, container)

    async def stopping(self, pod: Sandbox, container: NriContainer) -> Sequence[Update]:
        """Let it have both."""
        self._move("0-1")
        return await super().stopping(pod, container)

    def _move(self, cpus: str) -> None:
        (_, _, (older,)) = self.heard[0]
        self.others = [Update(container_id=older.id, cpu=CpuLimits(cpus=cpus))]


@pytest.mark.parametrize("version", ["1.7.24", "2.1.9"])
async def test_containerd_hears_from_us_what_it_heard_then(version: str, tmp_path: Path) -> None:
    """And we understand it as we did."""
    turns = turns_of(version)
    replaying = Replaying(turns)
    server = await asyncio.start_unix_server(replaying.accept, tmp_path / "s")
    handler = Then(says=CpuLimits(cpus="1", mems="0", quota=-1))
    async with server:
        await (await connect(tmp_path / "s", handler)).run()
    recorded = b"".join(said for who, said in turns if who == "plugin")
    assert streams(replaying.heard) == streams(recorded)
    assert handler.runtime is not None
    assert handler.runtime.name == "containerd"
    assert handler.runtime.version.startswith(version)
    (_, pods, containers), run, creating, updating, stopping, *removed = handler.heard
    assert [pod.name for pod in pods] == ["old"]
    assert [container.name for container in containers] == ["app"]
    assert (run[0], run[1].name) == (NriEvent.RUN_POD_SANDBOX, "web")
    assert creating[1].uid == stopping[1].uid == "00000000-0000-4000-8000-000000000002"
    assert creating[2].cpu == CpuLimits(quota=50000, period=100000)
    assert updating[3] == CpuLimits(quota=70000, period=100000)
    assert [one[0] for one in removed] == [NriEvent.REMOVE_CONTAINER, NriEvent.REMOVE_POD_SANDBOX]
