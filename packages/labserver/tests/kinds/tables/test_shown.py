"""What tables show of an object of each kind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json
from kube_lab_server.catalogue.tables import BuiltinColumns

CASES = yaml.safe_load(Path(__file__).with_name("shown.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_an_object_is_shown_in_cells(case: Json) -> None:
    """The cells are those that kubectl prints."""
    obj = case["object"]
    obj["metadata"]["creationTimestamp"] = "2024-05-01T11:00:00Z"
    row = BuiltinColumns(rules(GVK.of(obj)).table).row(obj, datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert row.cells == case["cells"]
