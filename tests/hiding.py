"""Programs that run where some of what is installed here is not: packages are hidden from them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from typing import TYPE_CHECKING

from release.sbom import sbom

from numakube.annexes import annexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

HIDE = """
import importlib.util, json, sys

hidden = set(sys.argv[1].split(","))
look = importlib.util.find_spec

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def look_politely(name, package=None):
    return None if name.partition(".")[0] in hidden else look(name, package)

sys.meta_path.insert(0, Hide())
importlib.util.find_spec = look_politely

from numakube import annexes

found = annexes._points

def without_hidden_plugins(path):
    groups = dict(found(path))
    plugins = groups.get(annexes.Group.PLUGINS, {})
    groups[annexes.Group.PLUGINS] = {
        name: place for name, place in plugins.items() if place.partition(".")[0] not in hidden
    }
    return groups

annexes._points = without_hidden_plugins
from numakube.cli.main import run
"""

EACH = """
import contextlib, io

for line in json.loads(sys.argv[2]):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(line, program="numakube")
    print(json.dumps([line, code, err.getvalue()]))
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command line ended."""

    line: tuple[str, ...]
    code: int
    err: str


@functools.cache
def without_extras(*extras: str) -> list[str]:
    """Return the modules that an installation with these extras, and no others, does not have."""
    installed = sbom("numakube", frozenset(extras))
    allowed = {component["name"].lower() for component in installed["components"]} | {"numakube"}
    # What is installed editable has no list of its modules.
    ours = {annex.package: [f"numakube-{annex.name}"] for annex in annexes()}
    found = {**packages_distributions(), **ours, "kube_lab_server": ["kube-lab-server"]}
    return [
        module for module, names in found.items() if not {name.lower() for name in names} & allowed
    ]


def run_hiding(
    hidden: Iterable[str], program: str, *arguments: str, env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run *program* after *hidden* modules have become impossible to import."""
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", HIDE + program, ",".join(hidden), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=dict(env),
    )


def run_lines(hidden: Iterable[str], lines: Sequence[Sequence[str]], home: Path) -> list[Ran]:
    """Run command lines one after the other where *hidden* modules and clusters are missing."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    done = run_hiding(hidden, EACH, json.dumps(lines), env=env)
    assert done.returncode == 0, done.stderr
    found = map(json.loads, done.stdout.splitlines())
    return [Ran(tuple(line), code, err) for line, code, err in found]
