"""The recorded rows about values: every one is answered as Kubernetes did."""

import gzip
import json
from typing import Any

import pytest
from tests.docs.pages import ROOT

from numakube.errors import MalformedObject
from numakube_conformance.values_replay import values_answer

VECTORS = ROOT / "tests" / "vectors" / "values.jsonl.gz"


def rows() -> list[dict[str, Any]]:
    """Return all recorded rows."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["quantity", "cpuset", "pod"])
def test_every_recorded_row_is_answered_as_kubernetes_does(kind: str) -> None:
    """The answers equal the rows, which contain both question and answer."""
    recorded = [row for row in rows() if row["kind"] == kind]

    assert recorded
    assert [values_answer(row) for row in recorded] == recorded


def test_an_unknown_kind_of_row_is_refused() -> None:
    """A newer file is not silently passed."""
    with pytest.raises(MalformedObject, match="no such kind"):
        values_answer({"kind": "cookie", "s": ""})
