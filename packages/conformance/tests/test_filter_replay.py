"""Recorded answers of the Go plugin NodeResourceTopologyMatch."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from tests.docs.pages import ROOT

from numakube_conformance.filter_replay import answer

VECTORS = ROOT / "tests" / "vectors"


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


def test_odd_reports_and_pods_are_answered_as_well_even_where_the_go_plugin_panics() -> None:
    """Every answer that it gave is ours, unless it left the range of scores."""
    recorded = cases("nrt-plugin-odd.jsonl.gz")
    compared = panicked = 0
    for case in recorded:
        ours = answer(case)["verdicts"]
        for pod, nodes in case["verdicts"].items():
            for node, theirs in nodes.items():
                given = ours[pod][node]
                if theirs["code"] == "panic":
                    panicked += 1
                else:
                    assert given["code"] == theirs["code"], (case["id"], pod, node)
                    assert given.get("reasons") == theirs.get("reasons"), (case["id"], pod, node)
                for strategy, score in given["scores"].items():
                    assert 0 <= score <= 100
                    if 0 <= theirs["scores"].get(strategy, -1) <= 100:
                        compared += 1
                        assert score == theirs["scores"][strategy], (case["id"], pod, node)
    assert panicked > 10
    assert compared > 10_000
