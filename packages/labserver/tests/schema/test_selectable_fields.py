"""Fields to select custom objects by: which ones a definition may name."""

from __future__ import annotations

import pytest

from kube_lab_server.schema.custom.structural import check_selectable_fields

_SCHEMA = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        "spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "list": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
    },
}
_WRONG_TYPE = (
    "must point to a field of type string, boolean or integer. "
    "Enum string fields and strings with formats are allowed."
)


def _errors(*paths: str) -> list[str]:
    fields = [{"jsonPath": path} for path in paths]
    return [str(error) for error in check_selectable_fields(fields, _SCHEMA, "f")]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "Required value"),
        (
            ".spec.other",
            'Invalid value: ".spec.other": is an invalid path: does not refer to a valid field',
        ),
        (
            "spec.text",
            'Invalid value: "spec.text": is an invalid path: expected [ or . but got: spec',
        ),
        (".spec.", 'Invalid value: ".spec.": is an invalid path: unexpected end of JSON path'),
        (
            ".spec['text']",
            "Invalid value: \".spec['text']\": is an invalid path: array notation is not allowed",
        ),
        (".metadata.name", 'Invalid value: ".metadata.name": must not point to fields in metadata'),
        (".spec.list", f'Invalid value: ".spec.list": {_WRONG_TYPE}'),
    ],
)
def test_a_field_that_cannot_be_selected_by_is_refused(path: str, problem: str) -> None:
    """With the reason."""
    assert _errors(path) == [f"f[0].jsonPath: {problem}"]


def test_scalars_can_be_selected_by_once_each() -> None:
    """Also those under keys of a map."""
    assert _errors(".spec.text", ".spec.map.any") == []
    assert _errors(".spec.text", ".spec.text") == ['f[1].jsonPath: Duplicate value: ".spec.text"']


def test_there_are_not_too_many() -> None:
    """Each costs the server something."""
    paths = [f".spec.map.k{number}" for number in range(9)]
    assert _errors(*paths) == ["f: Too many: 9: must have at most 8 items"]
