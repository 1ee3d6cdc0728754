"""Where logs go."""

from __future__ import annotations

import io

import pytest
import structlog

from numakube.cli.logs import configure_logs


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
