"""Where logs go."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from numakube.cli.shared.log_options import configure_logs

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_logs_go_to_standard_error_as_it_is_when_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream that was in place when logs were configured may be closed by then."""
    before, after = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", before)
    configure_logs("info", "json")
    log = structlog.get_logger()
    log.info("one")
    before.close()
    monkeypatch.setattr("sys.stderr", after)
    log.info("two")

    assert '"event": "two"' in after.getvalue()


@pytest.fixture
def log() -> Iterator[tuple[Any, io.StringIO]]:
    """A logger and what it has written; the configuration of before comes back."""
    before, stream = structlog.get_config(), io.StringIO()
    configure_logs("info", "text", stream=stream)
    yield structlog.get_logger(), stream
    structlog.configure(**before)


def _raised(message: str) -> Exception:
    """Return an exception that has been raised beside a secret."""

    def fail(token: str) -> None:
        raise LookupError(message if token else "")

    with pytest.raises(LookupError) as raised:
        fail(message.upper())
    return raised.value


def test_an_exception_is_told_without_the_values_of_variables(
    log: tuple[Any, io.StringIO],
) -> None:
    """Headers of requests are among them, with tokens."""
    logger, stream = log
    error = _raised("Authorization: Bearer in-the-message-1")
    logger.error("failed", error=repr(error), exc_info=error)

    text = stream.getvalue()
    assert "Traceback" in text
    assert "LookupError" in text
    assert "in-the-message-1" not in text
    assert "Bearer ***" in text
    assert "IN-THE-MESSAGE" not in text


def test_nothing_in_an_event_is_taken_for_a_command_or_another_event(
    log: tuple[Any, io.StringIO],
) -> None:
    """Names and reasons are written by anybody; tracebacks quote them."""
    logger, stream = log
    hostile = "\x1b]0;title\x07\n2026-01-01T00:00:00Z [error    ] faked \u202e\r\x9b2J"
    logger.warning("odd", pod=hostile, nested={hostile: [hostile]})
    logger.error("failed", exc_info=_raised(hostile))

    lines = stream.getvalue().splitlines()
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    assert all(line.isprintable() for line in lines)


def test_what_libraries_log_passes_the_same_way(log: tuple[Any, io.StringIO]) -> None:
    """Their lines have another form, and quote whatever came in."""
    library = logging.getLogger("aiohttp.server")
    library.error("request of \x1b[31m%s", "x", exc_info=_raised("a\nb"))

    lines = log[1].getvalue().splitlines()
    assert "library" in lines[0]
    assert "aiohttp.server" in lines[0]
    assert all(line.isprintable() for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])


def test_whoever_connects_without_configuring_logs_gets_safe_ones() -> None:
    """The library's default shows the variables of every frame."""
    code = """
import structlog
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kube.connect import connect
connect(ClusterConfig(server="http://127.0.0.1:1"))
secret = "local-variable-1"
try:
    raise LookupError("it failed")
except LookupError as error:
    structlog.get_logger().debug("not shown")
    structlog.get_logger().error("failed", exc_info=error)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603

    assert "LookupError: it failed" in done.stderr
    assert "not shown" not in done.stderr
    assert "secret" not in done.stderr
