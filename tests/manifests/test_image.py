"""The image, as far as it can be checked without building it.

Every component is imported with what its extra installs and nothing else: packages that only
developers or other components have are hidden from it.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.hiding import run_hiding, without_extras

from numakube.annexes import Group, annexes, points
from numakube.manifests.components import COMPONENTS, Choices, component_objects
from numakube.manifests.release_image import IMAGE

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {
    "exporter": "exporter",
    "extender": "extender",
    "gc": "",
    "operator": "operator",
    "scheduler": "scheduler",
    **{
        entry.name: entry.extra or annex.extra
        for annex in annexes()
        if annex.is_installed and annex.manifests
        for entry in annex.programs
    },
}
"""What each component that runs in a container installs."""

PROGRAM = """
import importlib, pkgutil

name, package = sys.argv[2:4]
code = run([name, "--help"], program="numakube")
if code == 0:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(getattr(found, "__path__", ()), package + "."):
        importlib.import_module(module.name)
print(code, "numpy" in sys.modules)
"""


def words(instruction: str) -> list[list[str]]:
    """Return what follows each *instruction* of the Dockerfile."""
    return [line.split()[1:] for line in LINES if line.startswith(f"{instruction} ")]


def default_of(name: str) -> str:
    """Return the default of a build argument."""
    found = [word[0].partition("=")[2] for word in words("ARG") if word[0].startswith(f"{name}=")]
    assert len(found) == 1
    return found[0]


def test_everything_that_is_copied_exists() -> None:
    """And the project's description names no file that is not copied."""
    copied = [name for word in words("COPY") if "--from=build" not in word for name in word[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [name for name in copied if f"!{name}" not in sent] == []
    assert "README.md" in copied


def test_must_gather_finds_its_program_in_the_image() -> None:
    """L12: where ``oc adm must-gather`` looks for it, and may run it."""
    assert ["release/gather", "/usr/bin/gather"] in words("COPY")
    assert (ROOT / "release" / "gather").stat().st_mode & 0o111


def test_every_extra_is_one_of_the_project() -> None:
    """Those of every component that is deployed among them."""
    extras = set(default_of("EXTRAS").split(","))
    assert extras <= PROJECT["optional-dependencies"].keys()
    assert {extra for extra in EXTRAS.values() if extra} <= extras
    comments = [line for line in LINES if line.startswith("#")]
    named = {one for line in comments for one in re.findall(r"EXTRAS=(\S+)", line)}
    assert named == {"exporter,sriov,enforcer"}


def test_the_program_is_the_projects_and_runs_as_nobody() -> None:
    """With a version of Python that is tested."""
    assert words("ENTRYPOINT") == [['["numakube"]']]
    assert "numakube" in PROJECT["scripts"]
    (user,) = words("USER")
    assert int(user[0].partition(":")[0]) > 0
    assert f"Programming Language :: Python :: {default_of('PYTHON')}" in PROJECT["classifiers"]


def test_every_container_of_ours_starts_a_component_that_the_image_has() -> None:
    """Its first argument is what follows the entry point."""
    started = {
        container["args"][0]
        for component in COMPONENTS
        for document in component_objects(component, Choices())
        for container in document.get("spec", {})
        .get("template", {})
        .get("spec", {})
        .get("containers", ())
        if container["image"] == IMAGE
    }
    assert started <= EXTRAS.keys()
    assert started >= {"exporter", "extender", "operator", "scheduler"}


def run_with(extra: str, component: str) -> subprocess.CompletedProcess[str]:
    """Import a component and print its help where only one extra is installed."""
    module = points(Group.PROGRAMS).get(component, "").partition(":")[0]
    package = module.rpartition(".")[0] or f"numakube.apps.{component.replace('-', '_')}"
    if module and "." not in package:
        # What else an annex has, such as its checks and its plugins, runs elsewhere.
        package = module
    return run_hiding(without_extras(*([extra] if extra else ())), PROGRAM, component, package)


@pytest.mark.parametrize("component", sorted(EXTRAS))
def test_a_component_needs_no_more_than_its_extra_installs(component: str) -> None:
    """Node agents and the operator do without NumPy, which an image of theirs can leave out."""
    done = run_with(EXTRAS[component], component)
    assert done.returncode == 0, done.stderr
    code, has_numpy = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert has_numpy == str(component in ("extender", "rebalancer", "scheduler"))
