"""Changes of objects of all kinds: what is refused, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from numakube_lab import objects
from numakube_lab.kinds import GVK, Json, JsonValue
from numakube_lab.objects.rules_by_kind import rules_of
from numakube_lab.schema.builtin_types import BUILTIN

CASES = yaml.safe_load(Path(__file__).with_name("changed.yaml").read_text(encoding="utf-8"))


def merged(value: JsonValue, change: JsonValue) -> JsonValue:
    """Apply a merge patch."""
    if not isinstance(change, dict):
        return change
    base = value if isinstance(value, dict) else {}
    kept = {key: item for key, item in base.items() if key not in change}
    changed = {key: merged(base.get(key), item) for key, item in change.items() if item is not None}
    return kept | changed


def complete(kind: GVK, obj: Json) -> Json:
    """Return an object as it is after decoding."""
    found = BUILTIN[kind].canonical(obj)
    found["metadata"]["resourceVersion"] = "1"
    if rules_of(kind).namespaced:
        found["metadata"]["namespace"] = "n"
    return objects.default(kind, found)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_a_change_is_refused_for_every_field_that_is_wrong(case: Json) -> None:
    """Every problem is reported, with its field, and in order."""
    kind, part = GVK.of(case["object"]), case.get("part", "")
    old = objects.prepare_create(kind, complete(kind, case["object"]))
    new = objects.prepare_update(
        kind,
        complete(kind, merged(old, case["change"])),
        old,
        subresource=part,
        now="2024-05-01T10:00:00Z",
    )
    errors = objects.validate_update(kind, new, old, subresource=part)
    assert [f"{error.type.name.lower()} {error.field}" for error in errors] == case["wrong"]
