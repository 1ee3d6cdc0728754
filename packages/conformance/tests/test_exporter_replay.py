"""Agreement with what a real Resource Topology Exporter published."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.docs.pages import ROOT

from numakube.apps.exporter.report_options import Accounting
from numakube.cli.main import cli
from numakube_conformance.exporter_cases import ON_PURPOSE
from numakube_conformance.exporter_replay import answer, unhandled

VECTORS = ROOT / "tests" / "vectors"


def cases(name: str) -> list[dict[str, Any]]:
    """Return the recorded cases of a file."""
    with gzip.open(VECTORS / name, "rt") as lines:
        return [json.loads(line) for line in lines]


def recorded(row: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer."""
    return {key: row[key] for key in row if key == "id" or key.startswith("expected")}


def test_every_recorded_scan_is_answered_alike_when_counting_as_rte_does() -> None:
    """All of them, those with defects included.

    By default we differ only where a case shows one of the defects that we do not share.
    """
    for row in cases("exporter.jsonl.gz"):
        assert answer(row, accounting=Accounting.RTE) == recorded(row), row["id"]
        if not set(row["tags"]) & set(ON_PURPOSE):
            assert answer(row) == recorded(row), row["id"]


@pytest.mark.parametrize("row", cases("exporter-failures.jsonl.gz"), ids=lambda row: row["id"])
def test_what_rte_fails_on_is_published(row: dict[str, Any]) -> None:
    """Every zone of the machine, and a word about what is odd."""
    assert unhandled(row, answer(row)) == []


def test_the_command_counts_deliberate_differences_apart(tmp_path: Path) -> None:
    """They pass, and the last line has the totals."""
    rows = [row for row in cases("exporter.jsonl.gz") if "q:alloc-duplicate-cpu" in row["tags"]]
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = CliRunner().invoke(cli, ["replay", "exporter", str(file), "--check"])
    assert result.exit_code == 0
    assert "4 of the passed cases differ from RTE on purpose:" in result.stdout
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed"


def test_the_command_checks_what_rte_fails_on() -> None:
    """Handled means passed."""
    file = str(VECTORS / "exporter-failures.jsonl.gz")
    result = CliRunner().invoke(cli, ["replay", "exporter", file, "--check"])
    assert result.stdout == "22 passed, 0 failed\n"


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


def test_a_row_that_is_no_case_ends_the_run(tmp_path: Path) -> None:
    """With its line, and another code than a difference has."""
    file = tmp_path / "case.jsonl"
    file.write_text('{"id": "p1"}', encoding="utf-8")
    result = CliRunner().invoke(cli, ["replay", "exporter", str(file), "--check"])
    assert result.exit_code == 2
    assert "line 1: there is no 'machine'" in result.output
