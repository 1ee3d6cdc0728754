"""How many modules of ours each program loads before it reads its first setting.

Every module costs memory and start-up time, on every node for an agent, and whoever reads a program
has to know all of them. A ceiling only ever gets lower: a program that needs a new module does
without another one.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.annexes.contributions import rows

from numakube.annexes import Group, annexes, points
from numakube.programs import PROGRAMS

CEILINGS = {
    "scheduler": 283,
    "extender": 280,
    "exporter": 121,
    "enforcer": 119,
    "operator": 92,
    "webhook": 106,
    "gc": 51,
    "admission-check": 80,
    "rebalancer": 282,
    **rows("MODULE_CEILINGS"),
}
SLACK = 8
"""How far below its ceiling a program may be before the ceiling has to follow."""


def modules_of(program: str) -> set[str]:
    """Return the modules of ours that importing *program* loads in a fresh interpreter.

    `numakube` itself is a namespace without a file.
    """
    home = f"numakube.apps.{program.replace('-', '_')}.process"
    module = points(Group.PROGRAMS).get(program, home).partition(":")[0]
    code = (
        f"import sys, {module}\n"
        "ours = ('numakube.', 'numakube_')\n"
        "print(*(name for name in sys.modules if name.startswith(ours)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        (sys.executable, "-c", code), capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_program_has_a_ceiling() -> None:
    there = {entry.name for annex in annexes() if annex.is_installed for entry in annex.programs}
    assert CEILINGS.keys() == PROGRAMS.keys() | there


@pytest.mark.parametrize("program", CEILINGS)
def test_a_program_loads_no_more_modules_than_its_ceiling(program: str) -> None:
    loaded = len(modules_of(program))
    assert CEILINGS[program] - SLACK <= loaded <= CEILINGS[program]
