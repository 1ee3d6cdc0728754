"""Real installations: the wheel with each extra alone, in an environment of its own.

They need a package index, so `make soak` runs them; `test_extras` asks the same of hidden packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.cli.test_extras import ENDS, lines
from tests.hiding import EACH

from numakube.cli.main import EXTRAS

ROOT = Path(__file__).parents[2]
SETS = ["", *sorted(set(EXTRAS.values())), "all"]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

__all__ = ["lines"]  # a fixture


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a program that must succeed; return what it prints."""
    done = subprocess.run(  # noqa: S603 - our own interpreters
        [str(word) for word in command],
        capture_output=True, text=True, check=False, env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    (made,) = folder.glob("numakube-*.whl")
    return made


@pytest.mark.parametrize("extra", SETS)
def test_every_command_starts_or_says_what_to_install(
    extra: str, wheel: Path, lines: list[list[str]], tmp_path: Path
) -> None:
    """The extra whose name a command gives is there: then it starts."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wanted)

    program = f"import json, sys\nfrom numakube.cli.main import run\n{EACH}"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    told = run(python, "-I", "-c", program, "-", json.dumps(lines), env=environment)

    for line, code, err in map(json.loads, told.splitlines()):
        needed = EXTRAS.get(line[0], "")
        assert code in ENDS, line
        assert "bug" not in err
        assert "not installed" not in err or f"numakube[{needed}]" in err
        assert "not installed" not in err or extra not in (needed, "all"), line
