"""Every annex is what its manifest says, and the heart knows no more of it than that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import click
import pytest
from tests.annexes.manifests import (
    FOLDERS,
    INDEX,
    ROOT,
    claimed_points,
    index_text,
    manifest_of,
    project_of,
)
from tests.annexes.needs import imported_by

from numakube.annex_index import ANNEXES
from numakube.annexes import Annex, Group, added_to, annexes, load, programs
from numakube.apps.host.program import Program
from numakube.apps.operator.group_additions import GroupAddition
from numakube.cli.command_table import COMMANDS, GROUPS
from numakube.cli.examples import EXAMPLES
from numakube.programs import PROGRAMS

README_LINES = 60
KINDS: dict[Group, type | tuple[type, ...]] = {
    Group.ANNEXES: Annex,
    Group.PROGRAMS: Program,
    Group.COMMANDS: click.Command,
    Group.CHECKS: ModuleType,
    Group.REPLAYS: click.Command,
    Group.NODE_GROUPS: GroupAddition,
}
"""What an entry point of each group is; in the other groups it is called."""
ADDING = [group for group in Group if group is not Group.ANNEXES]


@pytest.fixture(params=FOLDERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_heart_keeps_every_manifest_as_it_is() -> None:
    """Run ``UPDATE_ANNEXES=1 pytest tests/annexes`` after a change of a manifest."""
    if os.environ.get("UPDATE_ANNEXES"):
        INDEX.write_text(index_text(), encoding="utf-8")
    else:
        kept = {annex.name: annex for annex in ANNEXES}
        assert {name: kept.get(name) for name in FOLDERS} == {
            name: manifest_of(name) for name in FOLDERS
        }


def test_an_annex_is_called_as_its_folder_and_its_package_are(name: str) -> None:
    folder, manifest = FOLDERS[name], manifest_of(name)
    assert project_of(folder)["name"] == f"numakube-{name}"
    assert manifest.name == name
    assert (folder / "src" / manifest.package / "__init__.py").is_file()


def test_what_a_manifest_claims_is_what_the_distribution_adds(name: str) -> None:
    """Both ways: nothing is claimed that is not there, and nothing is there unclaimed."""
    manifest, added = manifest_of(name), claimed_points(FOLDERS[name])
    claims = {group.value: {one.name for one in manifest.added(group)} for group in ADDING}
    ours = {group: {*names} for group, names in added.items() if group != Group.ANNEXES}
    assert ours == {group: names for group, names in claims.items() if names}
    assert added[Group.ANNEXES].keys() == {name}
    assert all(
        place.startswith(f"{manifest.package}.")
        for names in added.values()
        for place in names.values()
    )


def test_everything_that_is_added_exists_and_is_of_its_kind(name: str) -> None:
    for group, names in claimed_points(FOLDERS[name]).items():
        for called in names:
            found = load(Group(group), called)
            assert isinstance(found, KINDS[Group(group)]) if Group(group) in KINDS else found


def test_a_program_and_its_line_are_called_alike(name: str) -> None:
    for entry in manifest_of(name).programs:
        program: Program[Any] = load(Group.PROGRAMS, entry.name)
        assert program.name == entry.name
        assert program.help.startswith(entry.summary)


def test_a_command_says_of_itself_what_its_line_says(name: str) -> None:
    for added in manifest_of(name).commands:
        command: click.Command = load(Group.COMMANDS, added.name)
        assert added.summary.rstrip(".?") in " ".join((command.help or "").split())


def test_commands_stand_in_a_section_of_the_help(name: str) -> None:
    """Those below a group stand where the group does."""
    manifest = manifest_of(name)
    sections = [entry.section for entry in manifest.programs]
    commands = [
        added.section or added.name.partition(" ")[0] in GROUPS for added in manifest.commands
    ]
    assert all([*sections, *commands])


def test_examples_are_of_commands_of_its_own(name: str) -> None:
    manifest = manifest_of(name)
    replays = {f"replay {replay.name}" for replay in manifest.replays}
    own = {*manifest.called(), *replays}
    assert own <= manifest.examples.keys()
    assert not [path for path in manifest.examples if not path.startswith(tuple(own))]


def test_no_two_add_the_same(name: str) -> None:
    """To have one name twice would make it a matter of order which is meant."""
    manifest = manifest_of(name)
    others = [annex for annex in annexes() if annex.name != name]
    taken = (
        {called for other in others for called in other.called()}
        | COMMANDS.keys()
        | EXAMPLES.keys()
    )
    assert not {*manifest.called()} & taken
    for group in ADDING:
        theirs = {added.name for other in others for added in other.added(group)}
        assert not {added.name for added in manifest.added(group)} & theirs


def test_a_manifest_is_read_without_the_rest_of_its_annex(name: str) -> None:
    module, _, _ = claimed_points(FOLDERS[name])[Group.ANNEXES][name].partition(":")
    code = (
        f"import sys, {module}; print(*(one for one in sys.modules if one.startswith('numakube')))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    package = module.partition(".")[0]
    allowed = {"annexes", "errors", "programs"}
    assert {*done.stdout.split()} <= {
        "numakube", package, module, *(f"numakube.{one}" for one in allowed)
    }  # fmt: skip


def test_an_extra_brings_the_annex(name: str) -> None:
    extras = project_of(ROOT)["optional-dependencies"]
    version = project_of(FOLDERS[name])["dependencies"][0].partition("==")[2]
    assert f"numakube-{name}=={version}" in extras[manifest_of(name).extra]
    assert project_of(FOLDERS[name])["dependencies"][0] == f"numakube=={version}"


def test_its_pages_exist_and_its_readme_is_one_page(name: str) -> None:
    manifest, readme = manifest_of(name), FOLDERS[name] / "README.md"
    assert manifest.pages
    assert [page for page in manifest.pages if not (ROOT / "docs" / page).is_file()] == []
    assert 5 < len(readme.read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_a_manifest_says_in_a_sentence_what_it_is_for(name: str) -> None:
    manifest = manifest_of(name)
    assert re.fullmatch(r"[A-Z].{20,98}\.", manifest.summary)
    assert not manifest.follows or re.search(r"\d", manifest.follows), "name the version"


def test_the_heart_names_no_annex() -> None:
    """In no import, and in no text from which a module could be imported."""
    packages = {manifest_of(name).package for name in FOLDERS}
    sources = (ROOT / "src", *ROOT.glob("packages/*/src/numakube"))
    heart = [file for source in sources for file in source.rglob("*.py")]
    assert not [
        file
        for file in heart
        if {one.partition(".")[0] for one in imported_by(file, or_named=True)} & packages
    ]


def test_programs_of_the_heart_come_first() -> None:
    assert list(programs())[: len(PROGRAMS)] == list(PROGRAMS)
    assert programs().keys() - PROGRAMS.keys() == {*added_to(Group.PROGRAMS)}


def test_every_annex_of_this_repository_is_installed() -> None:
    """Or this test has tested nothing: ``make venv`` installs them."""
    assert {annex.name for annex in annexes() if annex.is_installed} >= {*FOLDERS}
