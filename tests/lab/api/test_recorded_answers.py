"""The API server gives the answers that a real one gave.

Each topic has the share of its recorded cases that must pass. The edges were recorded apart, on
kube-apiserver 1.35.7 as well: requests that hardly anybody sends on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from numakube_lab.replay.recorded_cases import RecordedCase, read_cases
from numakube_lab.replay.run_case import replay

VECTORS = Path(__file__).parents[2] / "vectors" / "apiserver.jsonl.gz"

EDGES = VECTORS.with_name("apiserver-edges.jsonl.gz")

FLOORS = {
    "apply": 52,
    "auth": 37,
    "binding": 14,
    "crd": 69,
    "create": 70,
    "delete": 46,
    "discovery": 33,
    "dryrun": 18,
    "errors": 38,
    "events": 16,
    "eviction": 15,
    "expired": 7,
    "fieldvalidation": 31,
    "generatename": 17,
    "generation": 23,
    "jsonpatch": 23,
    "leases": 15,
    "mergepatch": 19,
    "namespaces": 16,
    "paging": 26,
    "podsched": 55,
    "scale": 14,
    "selectors": 52,
    "status": 26,
    "strategicpatch": 34,
    "table": 41,
    "update": 29,
    "validation": 116,
    "watch": 47,
}


def by_topic() -> dict[str, list[RecordedCase]]:
    """The recorded cases."""
    cases = defaultdict(list)
    for case in read_cases(VECTORS):
        cases[case.topic].append(case)
    return cases


CASES = by_topic()


def test_every_topic_has_a_floor() -> None:
    """No topic is left out."""
    assert set(FLOORS) == set(CASES)


@pytest.mark.parametrize("topic", sorted(CASES))
async def test_recorded_answers_are_given(topic: str) -> None:
    """At least as many cases pass as did before."""
    outcomes = [outcome async for outcome in replay(CASES[topic])]
    failed = {outcome.id: outcome.failures[0] for outcome in outcomes if outcome.failures}

    assert len(outcomes) - len(failed) >= FLOORS[topic], failed


async def test_answers_to_odd_requests_are_given() -> None:
    """All of them."""
    outcomes = [outcome async for outcome in replay(read_cases(EDGES))]
    failed = {outcome.id: outcome.failures[0] for outcome in outcomes if outcome.failures}

    assert not failed
