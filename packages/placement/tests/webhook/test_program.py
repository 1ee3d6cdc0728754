"""The webhook as a program: it serves, and ends on a signal."""

from __future__ import annotations

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.apps.own_process import logged, own_process

from kube_lab_server import Authority
from numakube.cli.main import run

PATIENCE_SECONDS = 60.0


async def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """Without a cluster, since it has no authority to register."""
    certificate, key = Authority.create(datetime.now(UTC)).issue(["localhost"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(key)
    async with own_process(
        "webhook",
        "--bind-address=127.0.0.1:0",
        f"--tls-cert-file={tmp_path / 'tls.crt'}",
        f"--tls-key-file={tmp_path / 'tls.key'}",
    ) as process:
        await asyncio.wait_for(logged(process, "serving"), PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 0


def test_a_certificate_that_is_missing_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And exit code 1."""
    files = (f"--tls-cert-file={tmp_path / 'a'}", f"--tls-key-file={tmp_path / 'b'}")
    assert run(["webhook", *files], program="numakube") == 1
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("error: cannot serve HTTPS with ")
