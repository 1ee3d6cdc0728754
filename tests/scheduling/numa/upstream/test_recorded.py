"""Recorded answers of the Go plugin NodeResourceTopologyMatch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from numakube.scheduling.numa.upstream.replay import answer

VECTORS = Path(__file__).parents[3] / "vectors"


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of a recording."""
    with gzip.open(VECTORS / name, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("part", range(4))
def test_upstream_mode_answers_what_the_go_plugin_answered(part: int) -> None:
    """Codes, reasons and the scores of all four strategies are equal."""
    recorded = cases("nrt-plugin.jsonl.gz")[part::4]
    assert len(recorded) == 100
    for case in recorded:
        assert answer(case)["verdicts"] == case["verdicts"], case["id"]
