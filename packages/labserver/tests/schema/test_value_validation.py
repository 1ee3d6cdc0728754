"""Values against schemas, and what an update is not blamed for."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server.schema.custom.value_validation import validate_value


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({"type": "integer"}, 1.0, []),
        ({"type": "number"}, 1, []),
        ({"type": "string", "nullable": True}, None, []),
        (
            {"type": "string"},
            None,
            ['v: Invalid value: "null": v in body must be of type string: "null"'],
        ),
        ({"x-kubernetes-int-or-string": True}, "a", []),
        (
            {"type": "integer", "maximum": 3},
            4,
            ["v: Invalid value: 4: v in body should be less than or equal to 3"],
        ),
        (
            {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
            1.5,
            ["v: Invalid value: 1.5: v in body should be less than 1.5"],
        ),
        ({"type": "number", "multipleOf": 0.5}, 1.5, []),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            ['v: Unsupported value: 3: supported values: "1", "2"'],
        ),
        (
            {"type": "boolean", "enum": [True]},
            False,
            ['v: Unsupported value: false: supported values: "true"'],
        ),
        ({"type": "string", "maxLength": 2}, "äöü", ["v: Too long: may not be more than 2 bytes"]),
        (
            {"type": "object", "maxProperties": 1},
            {"a": 1, "b": 2},
            ["v: Too many: 2: must have at most 1 item"],
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            ["v: Invalid value: 0: v in body should have at least 1 properties"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"x": 1},
            ['v.x: Invalid value: "integer": v.x in body must be of type string: "integer"'],
        ),
        (
            {"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]},
            4,
            [
                '<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            ],
        ),
        (
            {"type": "integer", "oneOf": [{"minimum": 3}, {"minimum": 4}]},
            1,
            [
                '<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). '
                "Found none valid",
                "v: Invalid value: 1: v in body should be greater than or equal to 3",
            ],
        ),
        (
            {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 9}]},
            1,
            [
                "v: Invalid value: 1: v in body should be greater than or equal to 3",
                '<nil>: Invalid value: "": "v" must validate all the schemas (allOf)',
            ],
        ),
        ({"type": "string", "format": "ipv4"}, "10.0.0.1", []),
        (
            {"type": "string", "format": "ipv4"},
            "10.0.0",
            ['v: Invalid value: "10.0.0": v in body must be of type ipv4: "10.0.0"'],
        ),
        ({"type": "string", "format": "no-such-format"}, "x", []),
        ({"type": "string", "pattern": r"^\d+\z"}, "12", []),
    ],
)
def test_a_value_is_judged_as_by_a_real_server(
    schema: dict[str, Any], value: Any, errors: list[str]
) -> None:
    """Types, ranges, sizes, formats and combinations."""
    assert [str(error) for error in validate_value(schema, value, path="v")] == errors


_LIST = {
    "type": "array",
    "items": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}},
}
_KEYED = {**_LIST, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}


@pytest.mark.parametrize(
    ("schema", "old", "new", "wrong"),
    [
        (_KEYED, [{"id": 1, "n": -1}], [{"id": 2, "n": 0}, {"id": 1, "n": -1}], 0),
        (_KEYED, [{"id": 1, "n": -1}], [{"id": 1, "n": -2}], 1),
        (_LIST, [{"n": -1}], [{"n": -1}], 0),
        (_LIST, [{"n": -1}], [{"n": -1}, {"n": 0}], 1),
    ],
)
def test_an_update_is_not_blamed_for_what_it_leaves(
    schema: dict[str, Any], old: Any, new: Any, wrong: int
) -> None:
    """Elements of a list are recognised by their keys, if they have any."""
    assert len(validate_value(schema, new, path="v", old=old)) == wrong


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01"),
        ("duration", "1h30m", "1 fortnight"),
        ("byte", "YQ==", "?"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("email", "a@b.example", "a"),
        ("hostname", "a.example", "-a"),
        ("ipv6", "::1", "10.0.0.1"),
        ("isbn", "0-306-40615-2", "0-306-40615-3"),
        ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
        ("creditcard", "4012888888881881", "4012888888881882"),
        ("mac", "01:02:03:04:05:ab", "01:02"),
        ("uri", "https://a.example/b", "a b"),
        ("uuid", "7b2a3c1e-0000-4000-8000-000000000000", "x"),
        ("hexcolor", "#fff", "#ff"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
        ("ssn", "111-22-3333", "111"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A"),
    ],
)
def test_formats_are_checked(name: str, good: str, bad: str) -> None:
    """Those that a real server checks."""
    schema = {"type": "string", "format": name}
    assert validate_value(schema, good) == []
    assert len(validate_value(schema, bad)) == 1
