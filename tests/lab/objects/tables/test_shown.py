"""What tables show of an object of each kind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from numakube_lab.kinds import GVK, Json
from numakube_lab.objects.tables import table_row

CASES = yaml.safe_load(Path(__file__).with_name("shown.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_an_object_is_shown_in_cells(case: Json) -> None:
    """The cells are those that kubectl prints."""
    obj = case["object"]
    obj["metadata"]["creationTimestamp"] = "2024-05-01T11:00:00Z"
    row = table_row(GVK.of(obj), obj, datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert row.cells == case["cells"]
