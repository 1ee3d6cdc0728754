"""Every change that users notice is one file, and a release makes a section of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from release.changes import Change, problems, released, section, with_section
from release.project import ROOT, pins, projects, set_version, version_file

from numakube.version import VERSION
from release import changes

GOOD = "`numakube fits` counts by rack, too."


def folder_with(folder: Path, name: str, text: str) -> Path:
    """Return *folder* with an explanation and one fragment."""
    (folder / changes.EXPLANATION).write_text("# Anything\n", encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_fragments_of_the_tree_are_as_contributing_says() -> None:
    """See CONTRIBUTING.md, section Changes, for what a file in changes.d has to be."""
    assert problems() == []


def test_a_fragment_of_one_paragraph_is_right(tmp_path: Path) -> None:
    assert problems(folder_with(tmp_path, "fits-by-rack.added.md", f"{GOOD}\nAnd more.\n")) == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("fits.new.md", GOOD, "NAME.KIND.md"),
        ("Fits.added.md", GOOD, "NAME.KIND.md"),
        ("fits.added.txt", GOOD, "NAME.KIND.md"),
        ("fits.added.md", "Too short.", "10 characters"),
        ("fits.added.md", "Long. " * 101, "605 characters"),
        ("fits.added.md", f"- {GOOD}", "neither a list"),
        ("fits.added.md", f"{GOOD}\n\n{GOOD}", "one paragraph"),
        ("fits.added.md", "Counts by rack without a full stop", "whole sentences"),
        ("fits.added.md", "counts by rack, without a capital.", "whole sentences"),
        ("fits.added.md", "Counts by rack, as asked for in #123.", "a number"),
        ("fits.added.md", "Counts by rack: see issue 17.", "a number"),
        (
            "fits.added.md",
            "Counts by rack: see [racks](docs/racks.md#new).",
            "there is no docs/racks.md",
        ),
    ],
)
def test_what_is_wrong_with_a_fragment_is_said(
    name: str, text: str, problem: str, tmp_path: Path
) -> None:
    """By one sentence with the file's name."""
    (said,) = problems(folder_with(tmp_path, name, text))
    assert said.startswith(f"{name}: ")
    assert problem in said


def test_a_section_lists_changes_by_kind() -> None:
    """In the same order always; longer texts are indented below their bullet."""
    found = [Change("b.fixed.md", "B is\nright.\n"), Change("a.added.md", "A is there.\n")]
    assert section("1.2.3", "2027-01-31", found) == (
        "## [1.2.3] - 2027-01-31\n\n### Added\n\n- A is there.\n\n### Fixed\n\n- B is\n  right.\n"
    )


def test_links_of_a_section_work_from_the_root() -> None:
    """Where the changelog is: a slash before them would be the root of the machine."""
    text = "By [rack](/docs/production.md), [too](docs/README.md)."
    written = section("1.2.3", "2027-01-31", [Change("a.added.md", text)])
    assert "By [rack](docs/production.md), [too](docs/README.md)." in written


def test_a_section_goes_above_those_of_older_versions() -> None:
    """Which the changelog of the tree has a place for."""
    text = changes.CHANGELOG.read_text(encoding="utf-8")
    after = with_section(text, "## [9.9.9] - 2099-01-01\n")
    assert released(after, "9.9.9")
    assert not released(text, "9.9.9")
    assert after.index("## [9.9.9]") < after.index("## [0.9.0]")
    with pytest.raises(ValueError, match="has no line"):
        with_section("# Changelog\n", "")


def test_distributions_ask_for_each_other_in_the_version_of_the_tree() -> None:
    """They use each other's inside: `python -m release prepare VERSION` writes all of them."""
    ours = {project.name for project in projects()}
    asked = {project.name: pins(project, ours) for project in projects()}
    assert {name for one in asked.values() for name in one} > {"numakube", "numakube-api"}
    wrong = {name: one for name, one in asked.items() if {*one.values()} - {VERSION}}
    assert wrong == {}


def test_a_new_version_is_written_wherever_one_stands(tmp_path: Path) -> None:
    """In one file of code, and in what distributions ask for; nothing else is touched."""
    for project in projects():
        source = project.folder / "pyproject.toml"
        copy = tmp_path / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.read_text("utf-8"), encoding="utf-8")
    source = version_file()
    copy = tmp_path / source.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.write_text(source.read_text("utf-8"), encoding="utf-8")
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    page.write_text("x/numakube:0.0.1@sha256:1 x/numakube-b:0.0.1 y:0.0.1", encoding="utf-8")
    assert {copy, page} < {*set_version("7.8.9", tmp_path)}
    assert page.read_text("utf-8") == "x/numakube:7.8.9@sha256:1 x/numakube-b:7.8.9 y:0.0.1"
    assert 'VERSION = "7.8.9"\n' in copy.read_text("utf-8")
    ours = {project.name for project in projects()}
    assert {pin for p in projects(tmp_path) for pin in pins(p, ours).values()} == {"7.8.9"}
    set_version(VERSION, tmp_path)
    for project in projects():
        path = (project.folder / "pyproject.toml").relative_to(ROOT)
        assert (tmp_path / path).read_text("utf-8") == (ROOT / path).read_text("utf-8")
