"""The plugins agree with a real kube-scheduler on every recorded case."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.docs.pages import ROOT

from numakube_conformance.formats import scheduler as command
from numakube_conformance.scheduler_replay import answer

VECTORS = ROOT / "tests" / "vectors" / "scheduler.jsonl.gz"


def test_every_recorded_verdict_and_score_is_ours_too() -> None:
    """Fits, first refusing plugin, code, reasons and scores, for 400 clusters of 5 pods each."""
    result = CliRunner().invoke(command, [str(VECTORS), "--check"])
    assert result.output.splitlines()[-1] == "400 passed, 0 failed", result.output[-2000:]


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    """The first recorded case."""
    with gzip.open(VECTORS) as stream:
        row: dict[str, Any] = json.loads(stream.readline())
    return row


def test_a_pod_whose_resource_claim_is_missing_is_told_which(case: dict[str, Any]) -> None:
    """Placing it without its devices would be worse than not placing it."""
    pod = case["pods"][0]
    pod["spec"] = {
        "containers": [{"name": "c"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    }
    refusal = answer({**case, "pods": [pod]})["expect"][pod["metadata"]["name"]]["preFilter"]
    assert refusal["plugin"] == "DynamicResources"
    assert refusal["code"] == "UnschedulableAndUnresolvable"
    namespace = pod["metadata"]["namespace"]
    assert refusal["reasons"] == [f'could not find ResourceClaim "{namespace}/gpu"']
