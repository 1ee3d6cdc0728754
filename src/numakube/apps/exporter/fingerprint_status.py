"""The pods behind the last fingerprint, in a file for whoever looks for a difference.

One compact JSON object with the keys of upstream's podfingerprint, replaced as a whole. The
directory must exist; a file that cannot be written is no reason to stop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.apps.exporter.report import Report

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def fingerprint_status(report: Report, node_name: str) -> str:
    """Return the status as text, its keys as upstream spells them."""
    pods = [{"Namespace": pod.namespace, "Name": pod.name} for pod in report.fingerprinted]
    status = {
        "fingerprintComputed": report.fingerprints[report.method],
        "pods": pods,
        "nodeName": node_name,
    }
    present = {key: value for key, value in status.items() if value}
    return json.dumps(present, separators=(",", ":"))


class StatusFile:
    """Keeps the status of the last report."""

    def __init__(self, path: Path, node_name: str) -> None:
        self._path = path
        self._node_name = node_name
        self._written = ""

    def keep(self, report: Report) -> None:
        """Write the file if something has changed."""
        text = fingerprint_status(report, self._node_name)
        if text == self._written:
            return
        temporary = self._path.with_name(f"__{self._path.name}")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            _log.warning("fingerprint_status_not_written", file=str(self._path), error=str(error))
            return
        self._written = text
