"""The heart works without any one annex, and says of what is missing which extra brings it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.annexes.absence import call, environment_without, run_lines_without
from tests.annexes.manifests import FOLDERS, ROOT, manifest_of
from tests.insight.explain.bundling import collected_of

from numakube.apps.bundle import pack
from numakube.testing import World, pod

IMPORT_ALL = """
import importlib, json, pkgutil, sys, warnings

warnings.simplefilter("ignore")
for folder in json.loads(sys.argv[1]):
    for found in pkgutil.walk_packages([folder], "numakube."):
        importlib.import_module(found.name)
print(*sorted({name.partition(".")[0] for name in sys.modules if name.startswith("numakube")}))
"""
OURS = [str(ROOT / "src/numakube"), *map(str, sorted(ROOT.glob("packages/*/src/numakube")))]


@pytest.fixture(params=FOLDERS)
def absent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(absent: str, tmp_path: Path) -> Path:
    """An interpreter for which one annex is not installed."""
    return environment_without(tmp_path / "environment", [absent])


def test_every_module_of_the_heart_can_be_imported(
    absent: str, python: Path, tmp_path: Path
) -> None:
    imported = call(python, IMPORT_ALL, json.dumps(OURS), home=tmp_path).split()
    assert "numakube" in imported
    assert manifest_of(absent).package not in imported


def test_commands_work_and_those_of_the_annex_name_its_extra(
    absent: str, python: Path, tmp_path: Path
) -> None:
    """On a bundle, since there is no cluster here."""
    world = World()
    world.add_node("node-a")
    world.pods.append(pod("waits", cpu="10"))
    bundle = tmp_path / "bundle.tgz"
    bundle.write_bytes(pack(collected_of(world.facts())))
    taken = ("--from", str(bundle))
    annex = manifest_of(absent)
    working = [
        ("--help",),
        ("render",),
        ("deploy", "all", "--dry-run=client"),
        ("doctor", *taken),
        ("explain", "pod", "waits", *taken),
        ("top", *taken),
        ("map", "node-a", *taken),
    ]
    missing = [
        *((*called.split(), "--help") for called in annex.called()),
        *(("deploy", component.name, "--dry-run=client") for component in annex.manifests),
        *(("replay", replay.name, "--help") for replay in annex.replays),
    ]
    ran = run_lines_without(python, [*working, *missing], tmp_path)

    assert [
        other for other in ran[: len(working)] if other.code not in (0, 1) or "error" in other.err
    ] == []
    named = [
        *(program.extra for program in annex.programs),
        *(command.extra for command in annex.commands),
    ]
    extras = {annex.extra, *filter(None, named)}
    told = [f"pip install 'numakube[{extra}]'" for extra in extras]
    assert [
        other
        for other in ran[len(working) :]
        if other.code == 0 or not any(words in other.err for words in told)
    ] == []
