"""Changes of objects of all kinds: what is refused, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server.kind_names import GVK, Json, JsonValue
from kube_lab_server.kinds.all_kinds import rules_of
from kube_lab_server.schema.builtin_types import BUILTIN

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
    return rules(kind).default(found)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_a_change_is_refused_for_every_field_that_is_wrong(case: Json) -> None:
    """Every problem is reported, with its field, and in order."""
    kind, part = GVK.of(case["object"]), case.get("part", "")
    old = rules(kind).prepare_create(complete(kind, case["object"]))
    new = rules(kind).prepare_update(
        complete(kind, merged(old, case["change"])),
        old,
        subresource=part,
    )
    errors = rules(kind).validate_update(new, old, subresource=part)
    assert [f"{error.type.name.lower()} {error.field}" for error in errors] == case["wrong"]
