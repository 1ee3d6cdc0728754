"""The pods behind fingerprints, in files for people who look for a difference.

A `StatusFile` has the last report only, as RTE writes it. A `StatusRing` keeps the last ten with
their times, as numaresources-operator's agents do, in a folder that must exist already. Keys and
their order are podfingerprint's, capitalised ``Namespace`` and ``Name`` included. Files are
replaced as a whole; one that cannot be written is no reason to stop.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from numakube.apps.exporter.report import Report
    from numakube.kube.clock import Clock

SAMPLES: Final = 10
"""How many reports a ring keeps."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _StatusPod(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The last fingerprint that was computed for a node, and when, in RFC 3339 if recorded."""

    fingerprint_computed: str = ""
    pods: tuple[_StatusPod, ...] = ()
    node_name: str = ""
    record_time: str = ""


def _status_of(report: Report, node: str, *, now: datetime | None = None) -> _Status:
    """Return the status of *report*, with the time if it is to be recorded."""
    return _Status(
        node_name=node,
        pods=tuple(_StatusPod(pod.namespace, pod.name) for pod in report.fingerprinted),
        fingerprint_computed=report.fingerprints[report.method],
        record_time="" if now is None else format_micro_time(now),
    )


class StatusFile:
    """The status of the last report."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._last: _Status | None = None

    def keep(self, report: Report) -> None:
        """Write the file if something has changed."""
        status = _status_of(report, self._node)
        if status != self._last and _replace(self._path, msgspec.json.encode(status)):
            self._last = status


class StatusRing:
    """The statuses of the last reports, each written once until it changes."""

    def __init__(self, folder: Path, node: str, clock: Clock) -> None:
        self._path = folder / node.replace(".", "_")
        self._node = node
        self._clock = clock
        self._last: _Status | None = None
        self._samples: deque[_Status] = deque(maxlen=SAMPLES)

    def keep(self, report: Report) -> None:
        """Add *report* if something has changed, and write the file."""
        status = _status_of(report, self._node)
        if status == self._last or not self._path.parent.is_dir():
            return
        self._samples.append(_status_of(report, self._node, now=self._clock.now()))
        self._last = status
        _replace(self._path, msgspec.json.encode(list(self._samples)))


def _replace(path: Path, content: bytes) -> bool:
    """Replace a file as a whole; tell whether that worked."""
    temporary = path.with_name(f"__{path.name}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        _log.warning("fingerprint_status_not_written", file=str(path), error=str(error))
        return False
    return True
