"""What pages claim in passing is so: versions, options of commands, checks, plugins."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from tests.docs.pages import ROOT

from numakube.cli.command_table import COMMANDS, joined
from numakube.cli.main import cli
from numakube.dra.features import LATEST
from numakube.insight.doctor.all_checks import RULES
from numakube.kubelet.kubelet_versions import NEWEST, OLDEST
from numakube.scheduling.plugins.default_plugins import DEFAULT_PLUGINS

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
COMMAND = re.compile(r"(?:numakube|kubectl numa) (?P<words>(?!deploy/chart)[a-z][^`\n|;&#<>()]*)")
OPTION = re.compile(r"--[a-z][a-z0-9-]+")
CHECK = re.compile(r"\bNUMA(?:-[A-Z0-9]+){2,}\b")
MODELLED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page",
    ["docs/reference/limits.md", "docs/how-to/upgrade.md", "docs/contribute/kubelet-model.md"],
)
def test_the_versions_of_kubelets_are_those_of_the_model(page: str) -> None:
    """From the oldest to the newest that is modelled."""
    assert MODELLED in _text(page)


def test_the_versions_on_the_page_of_upgrades_are_those_of_the_code() -> None:
    """kube-scheduler's plugins, Python, and kubelets that are newer."""
    text = _text("docs/how-to/upgrade.md")
    assert f"kube-scheduler 1.{LATEST}'s default profile" in text
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    named = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    assert f"| Python | {named[0]} to {named[-1]}," in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_checks_that_pages_name_exist(page: Path) -> None:
    """By the whole id, or by its first words."""
    known = [rule.id for rule in RULES]
    named = set(CHECK.findall(page.read_text(encoding="utf-8")))
    assert {one for one in named if not any(rule.startswith(one) for rule in known)} == set()


def _options(words: list[str]) -> set[str] | None:
    """Return the options of the command that *words* begin with; ``None`` if it is none."""
    command: click.Command = cli
    taken = {option for parameter in cli.params for option in parameter.opts}
    noun = " ".join(words[:2])
    if noun in joined() and words[0] in COMMANDS:
        words = [noun]
    for word in words:
        if not isinstance(command, click.Group):
            break
        context = click.Context(command)
        found = command.get_command(context, word.partition("/")[0])
        if found is None and command is cli:
            return None
        usual = command.list_commands(context)[0]
        found = found or command.get_command(context, usual)
        if found is None:
            break
        command = found
        for parameter in command.params:
            taken |= {*parameter.opts, *parameter.secondary_opts}
    if isinstance(command, click.Group) and command is not cli:  # its first command is meant
        context = click.Context(command)
        first = command.get_command(context, command.list_commands(context)[0])
        taken |= {option for param in (first.params if first else ()) for option in param.opts}
    return taken | {"--help", "--version"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_that_pages_name_exist(page: Path) -> None:
    """Of every command line of ours in a page, in prose and in blocks that are not run."""
    if page.name == "CHANGELOG.md":
        return
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    unknown = []
    for found in COMMAND.finditer(text):
        try:
            words = shlex.split(found["words"].rstrip("\\"))
        except ValueError:
            continue
        known = _options([word for word in words if not word.startswith("-")])
        if known is not None:
            given = {OPTION.match(word) for word in words}
            unknown += [(found[0], one[0]) for one in given if one and one[0] not in known]
    assert unknown == []


def test_every_plugin_of_the_default_profile_is_on_its_page() -> None:
    """By name."""
    listed = re.findall(r"^\| `([A-Z]\w+)` \|", _text("docs/reference/scheduler.md"), re.MULTILINE)
    assert set(DEFAULT_PLUGINS) - set(listed) == set()
