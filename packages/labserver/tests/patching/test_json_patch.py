"""JSON patch: the standard, and the habits of the server's library."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.kind_names import Problems
from kube_lab_server.patching import (
    InapplicablePatch,
    MalformedPatch,
    TooManyOperations,
    check_operations,
    json_patch,
)
from kube_lab_server.schema.jsontext import parse_json

_SCALARS = st.none() | st.booleans() | st.integers() | st.text("ab~/", max_size=3)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=3), inner),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.text("ab~/", max_size=3), _JSON, max_size=4)


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")


def _difference(one: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    removals = [{"op": "remove", "path": _pointer(k)} for k in one if k not in other]
    additions = [{"op": "add", "path": _pointer(k), "value": v} for k, v in other.items()]
    return removals + additions


@given(_OBJECTS, _OBJECTS)
def test_a_patch_made_of_a_difference_turns_one_document_into_the_other(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Removing and adding members leads from any object to any other, whatever their keys."""
    before = copy.deepcopy(one)
    assert json_patch(one, _difference(one, other)) == other
    assert one == before


@given(_OBJECTS)
def test_every_member_passes_its_own_test(document: dict[str, Any]) -> None:
    """``test`` accepts the value that is there."""
    tests = [{"op": "test", "path": _pointer(k), "value": v} for k, v in document.items()]
    assert json_patch(document, tests) == document


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/0", "value": 3}, {"a": [3, 1, 2]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-1", "value": 3}, {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/-2"}, {"a": [2]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/+1", "value": 3}, {"a": [1, 3]}),
        ({"a": 1}, {"op": "replace", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"z": 1}}, {"z": 1}),
        ({"a": 1}, {"op": "copy", "from": "/x", "path": "/b"}, {"a": 1, "b": None}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"a": 1}, {"op": "add", "path": "ignored/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a/b": 1}, {"op": "remove", "path": "/a~1b"}, {}),
        ({"a~b": 1}, {"op": "remove", "path": "/a~0b"}, {}),
        ({}, {"op": "add", "path": "/a"}, {"a": None}),
        ({}, {"op": "test", "path": "/a"}, {}),
    ],
)
def test_an_operation_does_what_the_server_does(
    document: dict[str, Any], operation: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Including where that is more than the standard asks for."""
    assert json_patch(document, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": "/l/3"},
        {"op": "remove", "path": "/l/-4"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "move", "from": "/b", "path": "/c"},
        {"op": "move", "path": "/c"},
        {"op": "copy", "from": "/b/c", "path": "/c"},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/a", "value": 1.0},
        {"op": "test", "path": "/a"},
        {"op": "frobnicate", "path": "/a"},
        {},
    ],
)
def test_an_operation_that_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    """All of them get the same answer from the server; none changes anything."""
    with pytest.raises(InapplicablePatch):
        json_patch({"a": 1, "l": [1, 2, 3]}, [operation])


def test_what_is_no_list_of_operations_is_refused() -> None:
    """The words are those of Go's decoder."""
    with pytest.raises(MalformedPatch, match=r"object into Go value of type jsonpatch\.Patch"):
        json_patch({}, {"op": "add"})
    with pytest.raises(MalformedPatch, match=r"string into Go value of type jsonpatch\.Operation"):
        json_patch({}, ["add"])


def test_too_many_operations_are_refused() -> None:
    """A patch is bounded, so that one request cannot keep the server busy."""
    with pytest.raises(TooManyOperations, match="is 10000, got 10001"):
        json_patch({}, [{"op": "test", "path": "/a"}] * 10_001)


def test_what_is_unknown_or_repeated_in_an_operation_is_reported() -> None:
    """Strictly, the server reads operations into a type of its own."""
    text = '[{"op": "add", "op": "add", "path": "/a", "foo": 1}, null]'
    assert check_operations(parse_json(text)) == Problems(
        strict=(
            'json patch duplicate field "[0].op"',
            'json patch unknown field "[0].foo"',
        )
    )


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (["x"], "json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": 1}],
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ],
)
def test_operations_of_the_wrong_shape_are_named_as_go_names_them(
    operations: Any, message: str
) -> None:
    """Before any is applied."""
    assert check_operations(operations) == Problems(fatal=message)
