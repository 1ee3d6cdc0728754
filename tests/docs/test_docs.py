"""The documentation says what the programs do."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
from pathlib import Path

import click
import pytest
from tests.docs.pages import ROOT, run_page

from numakube.api.yaml_text import load_yaml
from numakube.cli.command_table import COMMANDS, joined, path_in
from numakube.cli.main import cli
from numakube.kubelet.machines.shape import PRESETS
from numakube.values import safe_text

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"\]\((?!https?://)(?P<target>[^)#\s]*)(?:#(?P<anchor>[^)]*))?\)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    """Return the page's path from the root of the project."""
    return page.relative_to(ROOT).as_posix()


# A page may start dozens of programs, each of which takes a second on a busy machine.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """Run ``UPDATE_DOCS=1 pytest tests/docs`` to write what they print now."""
    written = page.read_text(encoding="utf-8")
    if "\n$ kubectl " in written and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on the PATH")

    real = run_page(written, tmp_path)

    if os.environ.get("UPDATE_DOCS"):
        page.write_text(real, encoding="utf-8")
    else:
        assert real == written


def test_a_busy_machine_prints_what_a_quick_one_does(tmp_path: Path) -> None:
    """How far a slow start is belongs to no page."""
    told = "```console\n$ echo '1 of 2 nodes are started'; echo 'is up with 2 nodes'\n{}```\n"
    assert run_page(told.format(""), tmp_path) == told.format("is up with 2 nodes\n")


def prose_of(page: Path) -> str:
    """Return a page without its examples."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """Return where links into a page can lead: its headings, as the site names them."""
    texts = (
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match["text"])
        for match in HEADING.finditer(prose_of(page))
    )
    plain = (re.sub(r"[^\w\s-]", "", text).strip().lower() for text in texts)
    return {re.sub(r"[-\s]+", "-", text) for text in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link is a file of the project, and its anchor a heading there."""
    for match in LINK.finditer(prose_of(page)):
        target = (page.parent / match["target"]) if match["target"] else page
        assert target.exists(), match["target"]
        assert not match["anchor"] or match["anchor"] in anchors_of(target), match[0]


def test_pages_of_the_site_link_to_each_other_only() -> None:
    """What is outside of docs/ is not on the site: it is linked to by its address."""
    folder = ROOT / "docs"
    for page in folder.rglob("*.md"):
        for match in LINK.finditer(prose_of(page)):
            target = (page.parent / match["target"]).resolve()
            assert target.is_relative_to(folder), f"{name_of(page)}: {match['target']}"


def test_the_site_has_every_page_once() -> None:
    """So that ``make docs``, which is strict, has nothing to complain of."""
    written = load_yaml((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), "mkdocs.yml")
    assert isinstance(written, dict)

    def paths(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        assert isinstance(entry, dict | list)
        inside = entry.values() if isinstance(entry, dict) else entry
        return [path for one in inside for path in paths(one)]

    pages = [page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")]
    assert sorted(paths(written["nav"])) == sorted(pages)


def test_every_page_can_be_found_from_the_index() -> None:
    """A page that nobody links to is a page that nobody reads."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")

    for page in ROOT.glob("docs/*/*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in index


def test_the_reference_has_every_command_and_option() -> None:
    """A new option without a line in the reference fails here; hidden ones do nothing."""
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    context = click.Context(cli)

    for name in {**COMMANDS, **joined()}:
        command: click.Command | None = cli
        first, _, noun = name.partition(" ")
        # An annex may add a noun to a command of ours: ``top domains``.
        for word in [name] if noun and first in COMMANDS else name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        assert f"\n## numakube {name}\n" in reference
        assert f"[`numakube {name}`](#numakube-{name.replace(' ', '-')})" in reference
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in reference, f"{name} {parameter.opts[-1]}"


def test_the_reference_has_every_preset() -> None:
    """Presets are documented by name."""
    reference = (ROOT / "docs" / "reference" / "machine-shapes.md").read_text(encoding="utf-8")

    for name in PRESETS:
        assert f"`{name}`" in reference


def test_the_picture_is_the_real_output() -> None:
    """Run ``python docs/draw.py`` after a change to the drawing."""
    module = runpy.run_path(str(ROOT / "docs" / "draw.py"))

    assert module["PICTURE"].read_text(encoding="utf-8") == module["draw"]()
    for file, content in module["figures"]().items():
        assert (module["FIGURES"] / file).read_text(encoding="utf-8") == content


def test_recordings_are_of_commands_that_exist_and_shown_as_they_ended() -> None:
    """Run ``python docs/record.py`` after a change of what they show."""
    module = runpy.run_path(str(ROOT / "docs" / "record.py"))
    for name, command in module["RECORDINGS"].items():
        file = module["IMAGES"] / f"{name}.cast"
        cast = file.read_text(encoding="utf-8")
        header, *events = map(json.loads, cast.splitlines())
        times = [time for time, kind, _ in events if kind == "o"]

        assert (header["version"], header["title"]) == (2, command)
        assert path_in(command.split()[1:])
        assert times == sorted(times)
        assert file.with_suffix(".svg").read_text(encoding="utf-8") == module["svg_of"](cast)


def test_every_limit_stands_in_the_table() -> None:
    """With the value that decoders stop at."""
    text = (ROOT / "docs/reference/limits.md").read_text()
    told = dict(re.findall(r"^\| `(MAX_[A-Z]+)` \| (\d+) \|", text, re.MULTILINE))
    real = {
        name: str(getattr(safe_text, name)) for name in dir(safe_text) if name.startswith("MAX_")
    }
    assert told == real
