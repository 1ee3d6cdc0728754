"""What docs/reference/stability.md promises stays: each list here has what people build on.

A line that vanishes, or whose type changes, fails. What is new may come without a line, and is
added to the lists when a release is prepared: `UPDATE_PROMISES=1 pytest tests/promises`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from packages.planning.tests.cli.test_audit import Run, bundle
from packages.planning.tests.history.answers import Answers
from packages.planning.tests.history.test_report import prometheus
from tests.cli.conftest import numakube
from tests.docs.pages import ROOT
from tests.docs.test_python_api_page import PACKAGES
from tests.manifests.exported import exported

from numakube.api.crds import NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD, UPDATE_CRD, crd
from numakube.api.yaml_text import load_yaml
from numakube.cli.main import cli

__all__ = ["bundle", "numakube", "prometheus"]  # fixtures

FOLDER = Path(__file__).parent
ADVICE = """\
These were promised and are not there any more, or are something else. If that is meant: say so in
docs/reference/stability.md's terms (an alias, a warning, a time), add changes.d/NAME.removed.md or
.changed.md for users, then run UPDATE_PROMISES=1 pytest tests/promises:
  """
KEY = re.compile(r'"((?:[a-z.]+\.)?numakube\.dev/[a-z0-9.-]+[a-z0-9])"')
VERSION_OF_A_KIND = re.compile(r"/v\d")


def check(name: str, lines: Iterable[str], folder: Path = FOLDER) -> None:
    """Compare with what was promised, or write it down."""
    file = folder / f"{name}.txt"
    real = set(lines)
    if os.environ.get("UPDATE_PROMISES"):
        file.write_text("".join(f"{line}\n" for line in sorted(real)), encoding="utf-8")
    promised = file.read_text(encoding="utf-8").splitlines()
    assert promised, f"{file.name} is empty"
    gone = [line for line in promised if line not in real]
    assert not gone, ADVICE + "\n  ".join(gone)


def commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield every command below *command* with its options, and how many words each takes."""
    yield name
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            word = " WORD" if not (parameter.is_flag or parameter.count) else ""
            for option in (*parameter.opts, *parameter.secondary_opts):
                yield f"{name} {option}{word}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, child
            yield from commands(found, f"{name} {child}")


def understood(line: str) -> bool:
    """Tell whether a command or an option is taken, also hidden aliases of renamed ones."""
    command: click.Command = cli
    words = line.split()[1:]
    while words and not words[0].startswith("-"):
        if not isinstance(command, click.Group):
            return False
        asked = click.Context(command, resilient_parsing=True)
        _, below, words = command.resolve_command(asked, words)
        if below is None:
            return False
        command = below
    if not words:
        return True
    options = (param for param in command.params if isinstance(param, click.Option))
    return any(
        words[0] in (*option.opts, *option.secondary_opts)
        and (option.is_flag or option.count) != line.endswith(" WORD")
        for option in options
    )


def fields(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every field of a document with the type of what stands there."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from fields(inside, f"{path}.{key}")
    elif isinstance(value, list):
        for inside in value:
            yield from fields(inside, f"{path}[]")
    elif value is not None:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        yield f"{path} {'number' if number else type(value).__name__}"


def schema_fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the path of every field that a schema has, with its type."""
    yield f"{path} {schema.get('type', 'any')}"
    for name, inside in schema.get("properties", {}).items():
        yield from schema_fields(inside, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schema_fields(schema[key], f"{path}[]")


def test_no_command_or_option_vanishes() -> None:
    """Hidden aliases count as being there; tables of help are not promised."""
    promised = (FOLDER / "commands.txt").read_text(encoding="utf-8").splitlines()
    check("commands", {*commands(cli, "numakube"), *filter(understood, promised)})


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("numakube explain pod", True),
        ("numakube explain pad", False),
        ("numakube no-such", False),
        ("numakube version --client", True),
        ("numakube version --client WORD", False),
        ("numakube version --output WORD", True),
        ("numakube version --no-such", False),
    ],
)
def test_a_command_line_is_looked_up_as_click_does(line: str, there: bool) -> None:
    """Word by word, and options by whether they take one."""
    assert understood(line) is there


def test_no_metric_vanishes_or_changes_its_labels() -> None:
    """By the component that exports it."""
    lines = (
        (other.component, other.name, other.type, ",".join(other.labels)) for other in exported()
    )
    check("metrics", (" ".join(line).rstrip() for line in lines))


def test_no_field_of_a_kind_vanishes() -> None:
    """In any of its versions."""
    found = set()
    for name in (NRT_CRD, UPDATE_CRD, OPERATOR_CRD, SCHEDULER_CRD):
        spec = crd(name)["spec"]
        for version in spec["versions"]:
            start = f"{spec['names']['kind']} {version['name']} "
            found |= set(schema_fields(version["schema"]["openAPIV3Schema"], start))
    check("kinds", found)


def test_no_public_name_of_the_python_api_vanishes() -> None:
    """Of the modules that the page about it names."""
    check(
        "python-api",
        (f"{package}.{name}" for package in PACKAGES for name in import_module(package).__all__),
    )


def test_no_annotation_or_label_vanishes() -> None:
    """Those with names of ours, wherever a program knows them."""
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("packages/*/src/**/*.py")]
    found = {key for file in sources for key in KEY.findall(file.read_text(encoding="utf-8"))}
    check("annotations", (key for key in found if not VERSION_OF_A_KIND.search(key)))


def test_no_value_of_the_chart_vanishes() -> None:
    """As values.schema.json describes them."""
    text = (ROOT / "deploy" / "chart" / "values.schema.json").read_text(encoding="utf-8")
    check("chart-values", schema_fields(json.loads(text), "values"))


@pytest.mark.parametrize(
    "line",
    [
        "admit --example",
        "version --client",
        "audit --from BUNDLE",
        "doctor --from BUNDLE",
        "explain pod train --from BUNDLE",
        "explain node node-b --from BUNDLE",
        "fits --shape cpu=2 --from BUNDLE",
        "map node-b --from BUNDLE",
        "plan advise pod train --from BUNDLE",
        "plan defrag --shape cpu=2 --from BUNDLE",
        "plan simulate --from BUNDLE",
        "check reports --from BUNDLE",
        "top namespaces --from BUNDLE",
        "top nodes --from BUNDLE",
        "top pods --from BUNDLE",
        "top zones --from BUNDLE",
    ],
)
def test_no_field_of_an_output_vanishes(line: str, numakube: Run, bundle: Path) -> None:
    """Of what scripts read, for one cluster; names and numbers are its own."""
    words = [str(bundle) if word == "BUNDLE" else word for word in line.split()]
    ended = numakube(*words, "-o", "json")
    printed = json.loads(ended.out)
    if isinstance(printed, dict):
        assert ended.out.lstrip().startswith("{")
    name = re.sub(r"\W+", "-", line.split(" --")[0])
    check(f"output-{name}", fields(printed))
    as_yaml = numakube(*words, "-o", "yaml")
    assert sorted(fields(load_yaml(as_yaml.out, line))) == sorted(fields(printed))


def test_no_field_of_a_report_over_days_vanishes(numakube: Run, prometheus: Answers) -> None:
    """Managers' tables are made of it."""
    ended = numakube("report", "--prometheus", prometheus.url, "--days", "3", "-o", "json")
    check("output-report", fields(json.loads(ended.out)))


def test_what_vanishes_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page, the fragment, and how to go on."""
    monkeypatch.delenv("UPDATE_PROMISES", raising=False)
    (tmp_path / "a.txt").write_text("kept\nlost string\n", encoding="utf-8")
    check("a", ["kept", "lost string", "new"], tmp_path)
    with pytest.raises(AssertionError, match=r"(?s)stability\.md.*changes\.d.*lost string"):
        check("a", ["kept", "lost number"], tmp_path)
