"""Every program that a container of numakube's image can run in the lab."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.programs import PROGRAMS as HOSTED
from numakube_lab.processes.commands import as_told, hosted, proxied, unreachable
from numakube_lab.processes.probe import run_probe
from numakube_lab.processes.programs import print_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.processes.programs import Program

_SURROUNDINGS: Final = {"extender": as_told, "gc": unreachable, "sriov": unreachable}
"""What surrounds programs that do not serve behind ``pods/proxy``, as all others do."""

PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "version": print_version,
        "lab-probe": run_probe,
        **{name: hosted(name, _SURROUNDINGS.get(name, proxied)) for name in HOSTED},
    }
)
"""Programs by name."""
