"""What the exporter costs a node."""

from __future__ import annotations

import os
import subprocess
import sys

MEGABYTE = 1024  # of what the kernel tells in kB
PROGRAM = r"""
import re, sys
from pathlib import Path
from numakube.cli import main
code = main.run(["exporter", "--dry-run", "--no-kubelet", "--log-level", "error"], program="x")
heavy = ("grpc", "numpy", "numakube_lab", "numakube.scheduling")
loaded = [name for name in heavy if name in sys.modules]
print("loaded:", loaded, file=sys.stderr)
# The peak of this program alone; getrusage would include that of the process that started it.
peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
print("peak:", peak[1], file=sys.stderr)
sys.exit(code)
"""


def test_it_needs_neither_numpy_nor_grpc_and_less_than_60_megabytes() -> None:
    """It runs on every node."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    told = dict(line.split(": ", 1) for line in done.stderr.splitlines())
    assert told["loaded"] == "[]"
    assert int(told["peak"]) < 60 * MEGABYTE
    assert "kind: NodeResourceTopology" in done.stdout


ENVIRONMENT = r"""
import atexit, os, sys
from numakube.cli.main import main
atexit.register(lambda: print("trusts:", os.environ["SSL_CERT_FILE"], file=sys.stderr))
sys.argv = ["numakube", "exporter", "--dry-run", "--no-kubelet", "--log-level", "error"]
main()
"""


def test_what_the_user_trusts_stays_as_it_was() -> None:
    """Although the certificates of the system are kept out while a library is imported."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", ENVIRONMENT],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "SSL_CERT_FILE": "/etc/mine.pem"},
    )
    assert done.stderr == "trusts: /etc/mine.pem\n"
