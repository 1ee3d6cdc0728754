"""What to install when a library is missing that a command needs.

Every installation has what looking at a cluster, planning and deploying need; what talks to
kubelets, and the lab, need more, which the package's extras bring.
"""

from __future__ import annotations

from typing import Final

from numakube.cli.lazy import LAB
from numakube.programs import PROGRAMS

OPTIONAL: Final = ("cryptography", "google", "grpc", LAB)
"""Libraries, as they are imported, that only extras bring."""

EXTRAS: Final = {
    **dict.fromkeys(("demo", "lab", "replay"), "lab"),
    **{name: entry.extra for name, entry in PROGRAMS.items() if entry.extra},
}
"""Commands that need them, and the extra that has all that each needs."""


def missing_text(command: str, module: str) -> str:
    """Return what is missing for *command*, and how it is installed."""
    name = module.partition(".")[0]
    extra = f"[{EXTRAS.get(command, 'all')}]" if name in OPTIONAL else ""
    package = f"'numakube{extra}'" if extra else "numakube"
    return f"{command} needs {name}, which is not installed: pip install {package}"
