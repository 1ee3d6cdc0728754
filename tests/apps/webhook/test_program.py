"""The webhook as a program: it serves, and ends on a signal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from datetime import UTC, datetime
from pathlib import Path

import pytest

from numakube_lab.api.access.certificate_authority import Authority

PROGRAM = "from numakube.cli.main import main; main()"
PATIENCE_SECONDS = 60.0


async def started(*arguments: str) -> Process:
    """Start the program."""
    command = [sys.executable, "-c", PROGRAM, "webhook", *arguments]
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)


async def until_serving(process: Process) -> None:
    """Return when the log says where it serves."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in process.stdout:
            if json.loads(line)["event"] == "serving":
                return
    pytest.fail("it ended instead")


async def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """Without a cluster, since it has no authority to register."""
    certificate, key = Authority.create(datetime.now(UTC)).issue(["localhost"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(key)
    process = await started(
        "--bind-address=127.0.0.1:0",
        f"--tls-cert-file={tmp_path / 'tls.crt'}",
        f"--tls-key-file={tmp_path / 'tls.key'}",
        "--log-format=json",
    )
    try:
        await until_serving(process)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_certificate_that_is_missing_is_one_line(tmp_path: Path) -> None:
    """And exit code 1."""
    process = await started(f"--tls-cert-file={tmp_path / 'a'}", f"--tls-key-file={tmp_path / 'b'}")
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 1
    (line,) = out.decode().splitlines()
    assert line.startswith("error: cannot serve HTTPS with ")
