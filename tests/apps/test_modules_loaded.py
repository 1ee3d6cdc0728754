"""How many modules of ours each program loads before it reads its first setting.

Every module costs memory and start-up time, on every node for an agent, and whoever reads a program
has to know all of them. A ceiling only ever gets lower: a program that needs a new module does
without another one.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from numakube.programs import PROGRAMS

CEILINGS = {
    "scheduler": 552,
    "extender": 536,
    "exporter": 154,
    "enforcer": 137,
    "sriov": 88,
    "operator": 117,
    "webhook": 125,
    "gc": 53,
    "admission-check": 83,
    "rebalancer": 491,
    "dashboard": 261,
}
SLACK = 8
"""How far below its ceiling a program may be before the ceiling has to follow."""


def modules_of(program: str) -> set[str]:
    """Return the modules of ours that importing *program* loads in a fresh interpreter."""
    code = (
        f"import sys, numakube.apps.{program.replace('-', '_')}.process\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'numakube'))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_program_has_a_ceiling() -> None:
    assert CEILINGS.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("program", CEILINGS)
def test_a_program_loads_no_more_modules_than_its_ceiling(program: str) -> None:
    loaded = len(modules_of(program))
    assert CEILINGS[program] - SLACK <= loaded <= CEILINGS[program]
