"""Recorded answers of real kubelets."""

from __future__ import annotations

import functools
import gzip
import json
from typing import Any

import pytest
from tests.docs.pages import ROOT

from numakube.kubelet.admission_outcome import NO_ANSWER
from numakube_conformance.kubelet_replay import answer

VECTORS = ROOT / "tests" / "vectors"


@functools.cache
def scenarios(name: str) -> list[dict[str, Any]]:
    """Return the scenarios of a recording."""
    with gzip.open(VECTORS / name, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("family", ["tm", "cpu", "mem", "dev", "mixed"])
def test_the_model_answers_what_kubelet_1_35_answered(family: str) -> None:
    """Verdicts, messages, CPU ids, memory blocks, devices and hints are equal."""
    recorded = [
        scenario for scenario in scenarios("kubelet.jsonl.gz") if scenario["id"].startswith(family)
    ]
    assert len(recorded) > 100
    for entry in recorded:
        given = answer(entry)
        assert given["expect"] == entry["expect"], entry["id"]
        assert given.get("startError") == entry.get("startError"), entry["id"]


def test_the_model_answers_what_kubelet_1_36_answered_differently() -> None:
    """Device hints only name NUMA nodes that have devices."""
    recorded = scenarios("kubelet-1.36.jsonl.gz")
    assert recorded
    for entry in recorded:
        assert answer(entry)["expect"] == entry["expect"], entry["id"]


def test_the_model_answers_what_kubelet_1_37_answered() -> None:
    """With the feature gates of each scenario, on machines of up to 34 NUMA nodes."""
    recorded = scenarios("kubelet-1.37.jsonl.gz")
    assert len(recorded) == 500
    for entry in recorded:
        given = answer(entry)
        assert given["expect"] == entry["expect"], entry["id"]
        assert given.get("startError") == entry.get("startError"), entry["id"]


def test_the_model_says_so_where_kubelet_1_37_gave_no_answer() -> None:
    """Too many sets of NUMA nodes, too many permutations of hints, or a loop without end."""
    recorded = scenarios("kubelet-1.37-no-answer.jsonl.gz")
    assert recorded
    for entry in recorded:
        said = [step for step in answer(entry)["expect"] if step.get("reason") == NO_ANSWER]
        assert said, entry["id"]
        assert all("this kubelet would not answer" in step["message"] for step in said)
