"""What a line of a log looks like: no values of variables, no secrets, nothing a terminal obeys.

structlog's own default shows the variables of every frame of an exception where rich is installed,
headers of requests with their tokens among them. So nothing logs by that default: a program that
connects to a cluster without having configured logs gets `configure` with errors only.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TYPE_CHECKING, Final

import structlog

from numakube.values.safe_text import printable, without_secrets

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import TextIO

    from structlog.typing import Processor

_INDENT: Final = "    "
"""Lines of a traceback begin with it, so that none of them looks like an event."""
_DEEPEST: Final = 8


def configure(
    *, form: str, stream: TextIO, colors: bool = False, first: tuple[Processor, ...] = ()
) -> None:
    """Send events to *stream* as ``text`` or ``json``; *first* see them before all others."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    )
    if not any(isinstance(handler, _Forwarding) for handler in logging.root.handlers):
        logging.root.addHandler(_Forwarding(logging.WARNING))
    structlog.configure(
        processors=[
            *first,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            told_exception,
            neutralised,
            renderer,
        ],
        # The level can change while the process runs, so *first* decides, not the class.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )


class _Forwarding(logging.Handler):
    """Lets what libraries log by the standard library pass the same processors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log *record* as an event."""
        log = structlog.get_logger()
        tell = log.warning if record.levelno < logging.ERROR else log.error
        tell("library", logger=record.name, text=record.getMessage(), exc_info=record.exc_info)


def ensure_configured() -> None:
    """Log errors to standard error, unless logging is configured already."""
    if not structlog.is_configured():
        configure(form="text", stream=sys.stderr, first=(_errors_only,))


def _errors_only(
    _logger: object, method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    if method not in ("error", "critical", "exception"):
        raise structlog.DropEvent
    return event


def told_exception(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Put the traceback of an exception in place of it: a structlog processor."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        lines = "".join(traceback.format_exception(error)).splitlines()
        event["exception"] = "\n".join(f"{_INDENT}{_shown(line)}" for line in lines)
    return event


def neutralised(
    _logger: object, _method: str, event: MutableMapping[str, object]
) -> MutableMapping[str, object]:
    """Make every text of an event fit to be shown: a structlog processor."""
    for key, value in event.items():
        if key != "exception":
            event[key] = _plain(value, _DEEPEST)
    return event


def _plain(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict) and depth:
        return {_shown(str(key)): _plain(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_plain(one, depth - 1) for one in value]
    return _shown(str(value))


def _shown(text: str) -> str:
    return printable(without_secrets(text))
