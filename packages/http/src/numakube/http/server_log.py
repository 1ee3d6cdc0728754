"""What is logged of requests that are not HTTP: a line now and then, not a traceback for each.

Anybody who reaches a port can send such requests, and must not be able to fill the log with them.
Failures of our own are logged as ever.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from aiohttp.http_exceptions import HttpProcessingError

if TYPE_CHECKING:
    from collections.abc import Callable

QUIET_SECONDS: Final = 10.0
_LONGEST: Final = 100


class BadRequests(logging.Filter):
    """Lets one line pass in a while, with how many there were."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._count = 0
        self._quiet_until = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log *record*, which is made a line if a request is at fault."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        self._count += 1
        now = self._now()
        if now < self._quiet_until:
            return False
        why = error.message.partition("\n")[0][:_LONGEST]
        record.msg, record.args = "bad_http_request: %s (%d of them)", (why, self._count)
        record.exc_info, record.levelno = None, logging.WARNING
        self._count, self._quiet_until = 0, now + QUIET_SECONDS
        return True


SERVER_LOG: Final = logging.getLogger("numakube.http")
SERVER_LOG.addFilter(BadRequests())
