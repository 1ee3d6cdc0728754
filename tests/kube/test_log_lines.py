"""What is logged can be shown on any terminal, and to anybody."""

from __future__ import annotations

import sys

import pytest
import structlog

from numakube.kube.log_lines import ensure_configured, neutralised, told_exception


@pytest.mark.parametrize("how", ["flag", "error", "tuple"])
def test_an_exception_is_told_by_its_traceback(how: str) -> None:
    """Whichever way it was given; no line of it can be taken for an event."""
    try:
        int("no such\x1b[2Jthing")
    except ValueError as error:
        given = {"flag": True, "error": error, "tuple": sys.exc_info()}[how]
        event = told_exception(None, "error", {"event": "failed", "exc_info": given})
    assert event.keys() == {"event", "exception"}
    lines = str(event["exception"]).splitlines()
    assert lines[0] == "    Traceback (most recent call last):"
    assert lines[-1].startswith("    ValueError: invalid literal")
    assert "\x1b" not in str(event["exception"])
    assert all(line.startswith("    ") for line in lines)


@pytest.mark.parametrize("given", [None, False, (None, None, None)])
def test_without_an_exception_nothing_is_added(given: object) -> None:
    """Libraries pass what they have."""
    event = told_exception(None, "info", {"event": "done", "exc_info": given})
    assert event == {"event": "done"}


def test_values_keep_their_form_and_lose_what_a_terminal_obeys() -> None:
    """However deep they are; numbers stay numbers, sets become lists."""
    odd, plain = "a\x1b[31mb", neutralised(None, "info", {"text": "a\x1b[31mb"})["text"]
    assert "\x1b" not in str(plain)
    event = neutralised(
        None,
        "info",
        {
            "list": [odd, 1, {"k\x1b": (odd, None)}],
            "set": frozenset({odd}),
            "number": 1.5,
            "flag": True,
            "exception": "    kept\x1b",
        },
    )
    key = neutralised(None, "info", {"text": "k\x1b"})["text"]
    assert event == {
        "list": [plain, 1, {key: [plain, None]}],
        "set": [plain],
        "number": 1.5,
        "flag": True,
        "exception": "    kept\x1b",
    }


def test_values_that_are_too_deep_are_told_as_text() -> None:
    """A line has an end."""
    deep: object = "end"
    for _ in range(20):
        deep = [deep]
    told = neutralised(None, "info", {"deep": deep})["deep"]
    levels = 0
    while isinstance(told, list):
        (told,) = told
        levels += 1
    assert levels == 8
    assert told == "[" * 12 + "'end'" + "]" * 12


def test_programs_that_configure_nothing_show_errors_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On standard error."""
    structlog.reset_defaults()
    ensure_configured()
    log = structlog.get_logger()
    for method in ("debug", "info", "warning", "error", "critical"):
        getattr(log, method)(f"this-is-{method}")
    told = capsys.readouterr()
    assert told.out == ""
    shown = [
        method
        for method in ("debug", "info", "warning", "error", "critical")
        if f"this-is-{method}" in told.err
    ]
    assert shown == ["error", "critical"]
    settings = structlog.get_config()
    ensure_configured()
    assert structlog.get_config() == settings
