"""An environment in which annexes are not installed, though everything else is.

Made of links into the environment that the tests run in. Nothing is simulated: to find what is
installed and to import it is left to Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.hiding import EACH, Ran

SITE = Path(sysconfig.get_path("purelib"))
RUN = "import json, sys\nfrom numakube.cli.main import run\nsys.argv.insert(1, '')\n"


def environment_without(folder: Path, annexes: Iterable[str]) -> Path:
    """Make an environment without *annexes* in *folder*; return its interpreter."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    distributions = tuple(f"numakube_{name.replace('-', '_')}" for name in annexes)
    left_out = (*distributions, *(f"_editable_impl_{name}" for name in distributions))
    for path in SITE.iterdir():
        if path.name.partition("-")[0].partition(".")[0] not in left_out:
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


def call(python: Path, program: str, *arguments: str, home: Path) -> str:
    """Return what *program* prints in the environment of *python*, where there is no cluster."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [python, "-c", program, *arguments], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_lines_without(python: Path, lines: Sequence[Sequence[str]], home: Path) -> list[Ran]:
    """Run command lines of numakube one after the other in the environment of *python*."""
    out = call(python, RUN + EACH, json.dumps(lines), home=home)
    return [Ran(tuple(line), code, err) for line, code, err in map(json.loads, out.splitlines())]
