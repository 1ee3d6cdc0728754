"""Every program that a container of numakube's image can run in the lab."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube_lab.processes.commands import (
    explained,
    run_enforcer,
    run_exporter,
    run_extender,
    run_gc,
    run_operator,
    run_scheduler,
    run_sriov,
    run_webhook,
)
from numakube_lab.processes.probe import run_probe
from numakube_lab.processes.programs import print_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.processes.programs import Program

PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "version": print_version,
        "lab-probe": run_probe,
        "enforcer": explained(run_enforcer),
        "exporter": explained(run_exporter),
        "gc": explained(run_gc),
        "scheduler": explained(run_scheduler),
        "extender": explained(run_extender),
        "operator": explained(run_operator),
        "sriov": explained(run_sriov),
        "webhook": explained(run_webhook),
    }
)
"""Programs by name; a component joins by an entry here."""
