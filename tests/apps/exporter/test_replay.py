"""Agreement with what a real Resource Topology Exporter published."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from numakube.apps.exporter.inputs import Accounting
from numakube.apps.exporter.replay import answer, unhandled
from numakube.cli.main import cli
from numakube.cli.replay.exporter import ON_PURPOSE

VECTORS = Path(__file__).parents[2] / "vectors"


def cases(name: str) -> list[dict[str, Any]]:
    """Return the recorded cases of a file."""
    with gzip.open(VECTORS / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def recorded(row: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer."""
    return {key: row[key] for key in row if key == "id" or key.startswith("expected")}


def test_every_recorded_scan_is_answered_alike_when_counting_as_rte_does() -> None:
    """All 447, those with defects included."""
    differing = [
        row["id"]
        for row in cases("exporter.jsonl.gz")
        if answer(row, accounting=Accounting.RTE) != recorded(row)
    ]
    assert differing == []


def test_by_default_we_differ_only_where_we_mean_to() -> None:
    """Each case that differs shows one of the four defects that we do not share."""
    differing = [row for row in cases("exporter.jsonl.gz") if answer(row) != recorded(row)]
    assert 0 < len(differing) < 30
    assert all(set(row["tags"]) & set(ON_PURPOSE) for row in differing)


@pytest.mark.parametrize("row", cases("exporter-failures.jsonl.gz"), ids=lambda row: row["id"])
def test_what_rte_fails_on_is_published(row: dict[str, Any]) -> None:
    """Every zone of the machine, and a word about what is odd."""
    assert unhandled(row, answer(row)) == []


@pytest.mark.parametrize("name", ["exporter.jsonl.gz", "exporter-failures.jsonl.gz"])
def test_the_command_checks_all_cases(name: str) -> None:
    """The last line has the totals; deliberate differences are counted apart."""
    result = CliRunner().invoke(cli, ["replay", "exporter", str(VECTORS / name), "--check"])
    total = len(cases(name))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"{total} passed, 0 failed"
    assert ("on purpose" in result.stdout) == (name == "exporter.jsonl.gz")


def test_the_command_tells_what_differs(tmp_path: Path) -> None:
    """With a case that was tampered with."""
    row = cases("exporter.jsonl.gz")[0]
    row["expected"]["zones"][0]["name"] = "elsewhere"
    file = tmp_path / "case.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    result = CliRunner().invoke(cli, ["replay", "exporter", str(file), "--check"])
    assert result.exit_code == 1
    assert 'recorded "elsewhere", ours "node-0"' in result.stdout
    assert result.stdout.endswith("0 passed, 1 failed\n")


def test_the_command_prints_answers_in_the_recorded_shape(tmp_path: Path) -> None:
    """One a line."""
    row = cases("exporter.jsonl.gz")[0]
    file = tmp_path / "case.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    result = CliRunner().invoke(cli, ["replay", "exporter", str(file), "--accounting", "rte"])
    assert json.loads(result.stdout) == recorded(row)
