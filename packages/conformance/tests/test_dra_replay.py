"""Claims are allocated as kube-scheduler allocates them, in every recorded case."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from click.testing import CliRunner
from tests.docs.pages import ROOT

from numakube_conformance.formats import dra as command

VECTORS = ROOT / "tests" / "vectors" / "dra.jsonl.gz"


def test_every_recorded_answer_is_ours_too() -> None:
    """Devices, configuration, node selectors, errors; and what the plugin does step by step."""
    result = CliRunner().invoke(command, [str(VECTORS), "--check"])
    assert result.output.splitlines()[-1] == "715 passed, 0 failed", result.output[-2000:]


def test_a_wrong_recording_is_told(tmp_path: Path) -> None:
    """By its id, with what differs, and by the exit code."""
    with gzip.open(VECTORS) as stream:
        row = json.loads(stream.readline())
    node = next(iter(row["expect"]))
    row["expect"][node] = {"fits": not row["expect"][node]["fits"]}
    file = tmp_path / "wrong.jsonl"
    file.write_text(json.dumps(row))
    result = CliRunner().invoke(command, [str(file), "--check"])
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == f"{row['id']}: differs"
    assert result.output.splitlines()[-1] == "0 passed, 1 failed"
