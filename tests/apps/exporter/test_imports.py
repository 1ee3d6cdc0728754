"""What the exporter does without: it runs on every node."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import numakube.apps.exporter.report, numakube.apps.exporter.sysfs, numakube.node.podresources
print(sorted({"numpy", "numakube.scheduling", "numakube_lab"} & set(sys.modules)))
"""


def test_a_scan_needs_neither_numpy_nor_the_scheduler() -> None:
    """They would take more memory than all the rest."""
    result = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
