"""Programs of numakube in a process of their own: started, followed by their log, and asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiohttp

THIS = (sys.executable, "-c", "from numakube.cli.main import main; main()")
"""This version of ``numakube``."""
MEGABYTE = 1024
"""Of what the kernel tells in kB."""


@contextlib.asynccontextmanager
async def own_process(
    *words: str, env: Mapping[str, str] | None = None, program: Sequence[str] = THIS
) -> AsyncIterator[Process]:
    """Run ``numakube`` with these words, every line of its log an object, and kill it at last."""
    process = await asyncio.create_subprocess_exec(
        *program,
        *(*words, "--log-format=json"),
        env=env,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def logged(process: Process, event: str) -> dict[str, str]:
    """Return the next event of that name in the program's log."""
    assert process.stderr is not None
    async for line in process.stderr:
        found: dict[str, str] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"{event} was never logged")


async def fetch(url: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had, in kB."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    return int(peak[1])
