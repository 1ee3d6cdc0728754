"""The canonical form: what Go writes of what it read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK
from kube_lab_server.patching import merge_patch
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.canonical import canonical, zero_value
from kube_lab_server.schema.types import ListType, MapType, Scalar, ScalarKind, Struct, Type

_SAMPLES: dict[ScalarKind, st.SearchStrategy[Any]] = {
    ScalarKind.STRING: st.sampled_from(["", "a", "b"]),
    ScalarKind.BOOLEAN: st.booleans(),
    ScalarKind.INT32: st.integers(-2, 2),
    ScalarKind.INT64: st.integers(-2, 2),
    ScalarKind.FLOAT: st.sampled_from([0, 1.5, 2.0]),
    ScalarKind.QUANTITY: st.sampled_from(["0", "0.5", "1000m", "1024Mi", 3]),
    ScalarKind.INT_OR_STRING: st.sampled_from([0, 1, "10%"]),
    ScalarKind.TIME: st.sampled_from(["2024-05-01T10:00:00+02:00", "2024-05-01T10:00:00.5Z"]),
    ScalarKind.MICRO_TIME: st.just("2024-05-01T10:00:00.123456+02:00"),
    ScalarKind.BYTES: st.sampled_from(["", "YQ=="]),
}


def _values(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    match kind:
        case Scalar():
            return st.none() | _SAMPLES[kind.kind]
        case Struct():
            return _objects(kind, depth)
        case ListType():
            return st.lists(_values(kind.element, depth), max_size=2)
        case MapType():
            return st.dictionaries(st.sampled_from("xy"), _values(kind.element, depth))
        case _:
            return st.just({"any": [1, {"thing": None}]})


def _objects(struct: Struct, depth: int) -> st.SearchStrategy[Any]:
    if depth == 0 or not struct.fields:
        return st.just({})
    names = st.lists(st.sampled_from(sorted(struct.fields)), max_size=4, unique=True)
    return names.flatmap(
        lambda chosen: st.fixed_dictionaries(
            {name: _values(struct.fields[name].type, depth - 1) for name in chosen}
        )
    )


@given(st.data())
def test_the_canonical_form_of_a_canonical_form_is_itself(data: st.DataObject) -> None:
    """For any object of any built-in kind, defaults included; its type has no complaint."""
    info = BUILTIN[data.draw(st.sampled_from(sorted(BUILTIN)))]
    once = info.canonical(data.draw(_objects(info.root, 4)))
    assert info.canonical(once) == once
    assert info.check(once, strict=True).fatal is None
    defaulted = rules(info.gvk).default(once)
    assert info.canonical(defaulted) == defaulted


@given(st.data())
def test_parts_of_a_canonical_object_are_taken_over_without_a_difference(
    data: st.DataObject,
) -> None:
    """An object that changes fields of a stored one is written as if all of it were new."""
    info = BUILTIN[data.draw(st.sampled_from(sorted(BUILTIN)))]
    stored = info.canonical(data.draw(_objects(info.root, 4)))
    changed = merge_patch(stored, data.draw(_objects(info.root, 4)))
    assert info.canonical(changed, stored) == info.canonical(changed)


@pytest.mark.parametrize(
    ("api_version", "kind", "document", "expected"),
    [
        ("v1", "ConfigMap", {"data": {}, "immutable": False}, {"metadata": {}, "immutable": False}),
        ("v1", "Node", {"spec": {"unschedulable": False, "taints": []}}, {"spec": {}}),
        (
            "v1",
            "Node",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {
                "status": {
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "lastHeartbeatTime": None,
                            "lastTransitionTime": None,
                        }
                    ]
                }
            },
        ),
        (
            "v1",
            "Event",
            {"firstTimestamp": "2024-01-01T00:00:00+01:00"},
            {"firstTimestamp": "2023-12-31T23:00:00Z", "eventTime": None, "reportingInstance": ""},
        ),
        (
            "v1",
            "ResourceQuota",
            {"spec": {"hard": {"cpu": "0.5", "memory": "2048Mi", "pods": 10}}},
            {"spec": {"hard": {"cpu": "500m", "memory": "2Gi", "pods": "10"}}},
        ),
        ("rbac.authorization.k8s.io/v1", "Role", {}, {"rules": None}),
        ("apps/v1", "Deployment", {"spec": {"replicas": 0}}, {"status": {}}),
    ],
)
def test_go_writes_what_its_tags_say(
    api_version: str, kind: str, document: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Pointers keep their zero, structs are always there, other empty fields are left out."""
    info = BUILTIN[GVK.of({"apiVersion": api_version, "kind": kind})]
    found = info.canonical(document)
    assert {name: _part(found[name], part) for name, part in expected.items()} == expected


def _part(found: Any, like: Any) -> Any:
    """Keep of *found* the members that *like* has, unless it is meant to be empty."""
    if isinstance(found, dict) and isinstance(like, dict) and like:
        return {k: _part(found[k], v) for k, v in like.items()}
    return {} if like == {} and isinstance(found, dict) else found


def test_unknown_fields_are_dropped() -> None:
    """They never reach the store."""
    info = BUILTIN[GVK("", "v1", "ConfigMap")]
    assert info.canonical({"bogus": 1, "metadata": {"bogus": 1}}) == {"metadata": {}}


def test_untyped_values_stay_as_they_are() -> None:
    """Nulls included; only whole floats become integers."""
    revision = BUILTIN[GVK("apps", "v1", "ControllerRevision")].root
    data = revision.fields["data"].type
    assert canonical(data, {"a": None, "b": [1.0, 1.5]}) == {"a": None, "b": [1, 1.5]}
    assert zero_value(data) is None
