"""Schemas of definitions: what cannot be used is refused, with the place and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server.schema.custom.schema_checks import check_schema, unrecognized_formats

_STRING = {"type": "string"}


def _root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _errors(schema: dict[str, Any], *, status: bool = False) -> list[str]:
    return [str(error) for error in check_schema(schema, "s", status=status)]


def _rule(rule: str, **more: Any) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, **more}]}


_LIST = {"type": "array", "items": _STRING}
_KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "required": ["name"], "properties": {"name": _STRING}},
}


@pytest.mark.parametrize(
    ("schema", "errors"),
    [
        ({}, ["s.type: Required value: must not be empty at the root"]),
        (
            {"type": "array", "items": _STRING},
            ['s.type: Invalid value: "array": must be object at the root'],
        ),
        (
            _root(a={}),
            ["s.properties[a].type: Required value: must not be empty for specified object fields"],
        ),
        (_root(a={"type": "array"}), ["s.properties[a].items: Required value: must be specified"]),
        (
            _root(a={"type": "array", "items": {}}),
            [
                "s.properties[a].items.type: Required value: "
                "must not be empty for specified array items"
            ],
        ),
        (
            _root(a={"type": "text"}),
            [
                's.properties[a].type: Unsupported value: "text": supported values: '
                '"array", "boolean", "integer", "number", "object", "string"'
            ],
        ),
        (
            {"type": "object", "additionalProperties": _STRING},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            _root(
                a={"type": "object", "properties": {"b": _STRING}, "additionalProperties": _STRING}
            ),
            [
                "s.properties[a].additionalProperties: Forbidden: "
                "additionalProperties and properties are mutual exclusive"
            ],
        ),
        (
            _root(a={**_STRING, "anyOf": [{"type": "string"}]}),
            ["s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            _root(a={"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]}),
            [
                "s.properties[a].properties[b]: Required value: "
                "because it is defined in s.properties[a].allOf[0].properties[b]"
            ],
        ),
        (
            _root(
                a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}
            ),
            [
                "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: "
                "must be false if x-kubernetes-int-or-string is true"
            ],
        ),
        (
            _root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            [
                "s.properties[metadata]: Forbidden: must not specify anything other than name and "
                "generateName, but metadata is implicitly specified"
            ],
        ),
        (
            _root(a={"type": "object", "x-kubernetes-embedded-resource": True}),
            [
                "s.properties[a].properties: Required value: must not be empty if "
                "x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            ],
        ),
        (
            _root(a={"type": "array", "items": _STRING, "uniqueItems": True}),
            [
                "s.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true "
                "since the runtime complexity becomes quadratic"
            ],
        ),
        (
            _root(a={**_STRING, "$ref": "#/x"}),
            ["s.properties[a].$ref: Forbidden: $ref is not supported"],
        ),
        (
            _root(a={**_STRING, "x-kubernetes-preserve-unknown-fields": False}),
            [
                "s.properties[a].x-kubernetes-preserve-unknown-fields: "
                "Invalid value: false: must be true or undefined"
            ],
        ),
        (
            _root(a={**_LIST, "x-kubernetes-list-type": "bag"}),
            [
                's.properties[a].x-kubernetes-list-type: Unsupported value: "bag": '
                'supported values: "atomic", "set", "map"'
            ],
        ),
        (
            _root(a={**_KEYED, "x-kubernetes-list-map-keys": ["id"]}),
            [
                's.properties[a].x-kubernetes-list-map-keys: Invalid value: ["id"]: '
                "entries must all be names of item properties"
            ],
        ),
        (
            _root(a={**_KEYED, "items": {"type": "object", "properties": {"name": _STRING}}}),
            [
                "s.properties[a].items.properties[name].default: "
                "Required value: this property is in "
                "x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ],
        ),
        (
            _root(a={"type": "object", "default": {"x": 1}, "properties": {"b": _STRING}}),
            ['s.properties[a].default: Invalid value: {"x":1}: must not have unknown fields'],
        ),
        (
            _root(a={**_STRING, "default": "x", "maxLength": 0}),
            ["s.properties[a].default: Too long: may not be more than 0 bytes"],
        ),
        (
            _root(kind={**_STRING, "default": "x"}),
            ["s.properties[kind].default: Forbidden: must not be set in top-level kind"],
        ),
        (
            {"type": "object", "nullable": True},
            ["s.nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (
            _root(a={**_STRING, **_rule("self == 'x'", reason="Whim")}),
            [
                's.properties[a].x-kubernetes-validations[0].reason: Unsupported value: "Whim": '
                'supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"'
            ],
        ),
        (
            _root(a={"type": "object", **_rule("true", fieldPath=".b")}),
            [
                's.properties[a].x-kubernetes-validations[0].fieldPath: Invalid value: ".b": '
                "must be a valid path"
            ],
        ),
        (
            _root(a={**_STRING, **_rule(" ")}),
            [
                "s.properties[a].x-kubernetes-validations[0].rule: "
                "Required value: rule is not specified"
            ],
        ),
        (
            _root(a={"type": "array", "items": {**_STRING, **_rule("self == oldSelf")}}),
            [
                "s.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "
                '"self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the '
                "schema within s.properties[a]"
            ],
        ),
        (
            _root(a={**_STRING, **_rule("self == 'x'", optionalOldSelf=True)}),
            [
                "s.properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: "
                "may not be set if oldSelf is not used in rule"
            ],
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: dict[str, Any], errors: list[str]) -> None:
    """With the words of a real server."""
    assert _errors(schema) == errors


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("self.size() >", "Syntax error: mismatched input '<EOF>' expecting"),
        ("self.foo == 1", "type 'string' does not support field selection"),
        ("self > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("other == 1", "undeclared reference to 'other' (in container '')"),
        ("self.frobnicate()", "undeclared reference to 'frobnicate' (in container '')"),
        ("self", "cel expression must evaluate to a bool"),
    ],
)
def test_a_rule_that_cannot_be_compiled_is_refused(rule: str, problem: str) -> None:
    """When the definition is created, not when an object is checked."""
    (error,) = _errors(_root(a={**_STRING, **_rule(rule)}))
    assert error.startswith("s.properties[a].x-kubernetes-validations[0].rule: Invalid value: ")
    assert problem in error


def test_a_message_must_be_a_string() -> None:
    """As it is shown to the user."""
    (error,) = _errors(_root(a={**_STRING, **_rule("self == 'x'", messageExpression="1")}))
    assert error.endswith("messageExpression must evaluate to a string")


def test_little_may_stand_at_the_root_next_to_a_status() -> None:
    """So that spec and status can be told apart."""
    assert _errors(_root(a=_STRING), status=True) == []
    (error,) = _errors({"type": "object", "minProperties": 1}, status=True)
    assert "fields are allowed at the root of the schema if the status subresource" in error


def test_formats_of_strings_that_nobody_checks_are_found() -> None:
    """At any depth; those of numbers are never checked anyway."""
    schema = _root(
        a={"type": "array", "items": {"type": "string", "format": "foo"}},
        b={"type": "integer", "format": "int64"},
        c={"type": "string", "format": "date-time"},
    )
    assert unrecognized_formats(schema) == ["foo"]
