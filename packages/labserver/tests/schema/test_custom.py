"""Types of custom kinds: pruning, defaults, lists with keys, embedded objects and rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server import GVK
from kube_lab_server.patching.typed_values import shape_of
from kube_lab_server.schema.custom.custom_type import CustomType
from kube_lab_server.schema.custom.value_validation import pattern_problem
from kube_lab_server.schema.jsontext import parse_json
from kube_lab_server.schema.types import ListType, MapType, Relation, Struct

_GVK = GVK("example.com", "v1", "Widget")


def _type(**spec: Any) -> CustomType:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return CustomType.of(_GVK, schema)


def _widget(spec: Any, **more: Any) -> dict[str, Any]:
    meta = {"name": "w"}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": meta,
        "spec": spec,
        **more,
    }


def _errors(info: CustomType, spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else _widget(old)
    return [str(error) for error in info.validate(_widget(spec), before)]


_RICH = _type(
    properties={
        "n": {"type": "integer", "default": 3},
        "o": {
            "type": "object",
            "default": {},
            "properties": {"a": {"type": "string", "default": "x"}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "l": {
            "type": "array",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
        },
        "m": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
    }
)
_JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from(["a", "k", "zz"]), v),
    max_leaves=5,
)
_SPECS = st.dictionaries(st.sampled_from(["n", "o", "free", "l", "m", "zz"]), _JSON)


@given(_SPECS)
def test_pruning_and_defaulting_settle(spec: dict[str, Any]) -> None:
    """Doing either again changes nothing, and nothing that was defaulted is pruned."""
    obj = _RICH.default(_RICH.prune(_widget(spec)))
    assert _RICH.prune(_RICH.default(obj)) == obj
    assert _RICH.check(obj, strict=True).strict == ()


def test_repeated_keys_are_reported_before_unknown_ones() -> None:
    """Anywhere in the object."""
    text = (
        '{"kind":"Widget","metadata":{"name":"a","bogus":1},"spec":{"n":1,"n":2,"zz":1},"extra":1}'
    )
    problems = _RICH.check(parse_json(text), strict=True)
    assert problems.strict == (
        'duplicate field "spec.n"',
        'unknown field "metadata.bogus"',
        'unknown field "extra"',
        'unknown field "spec.zz"',
    )
    assert _RICH.check(parse_json(text), strict=False).strict == ()


def test_elements_of_sets_and_keyed_lists_are_unique() -> None:
    """Each repetition is reported once."""
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    unique = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    info = _type(properties={"keyed": keyed, "unique": unique})
    spec = {"unique": ["a", "a", "a"], "keyed": [{"name": "x"}, {"name": "x"}]}
    assert _errors(info, spec) == [
        'spec.unique[1]: Duplicate value: "a"',
        'spec.keyed[1]: Duplicate value: {"name":"x"}',
    ]


def test_an_embedded_object_needs_kind_and_good_metadata() -> None:
    """As it is an object of its own."""
    info = _type(
        properties={
            "o": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        }
    )
    wrong = {"o": {"apiVersion": "a/b/c", "kind": "", "metadata": {"name": "a/b"}}}
    assert [text.partition(": ")[0] for text in _errors(info, wrong)] == [
        "spec.o.apiVersion",
        "spec.o.kind",
        "spec.o.metadata.name",
    ]
    right = {"o": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}
    assert _errors(info, right) == []


def test_a_transition_is_judged_by_the_old_value() -> None:
    """Only where there is one."""
    rule = {"rule": "self >= oldSelf", "message": "may not shrink"}
    info = _type(properties={"n": {"type": "integer", "x-kubernetes-validations": [rule]}})
    assert _errors(info, {"n": 1}) == []
    assert _errors(info, {"n": 2}, {"n": 1}) == []
    assert _errors(info, {"n": 0}, {"n": 1}) == ["spec.n: Invalid value: 0: may not shrink"]


def test_a_rule_may_ask_for_the_old_value_if_there_is_one() -> None:
    """Then it is applied to new objects too."""
    rule = {
        "rule": "oldSelf.hasValue() || self == 0",
        "message": "must start at 0",
        "optionalOldSelf": True,
    }
    info = _type(properties={"n": {"type": "integer", "x-kubernetes-validations": [rule]}})
    assert _errors(info, {"n": 1}) == ["spec.n: Invalid value: 1: must start at 0"]
    assert _errors(info, {"n": 5}, {"n": 1}) == []


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"rule": "self.n > 1"}, "spec: Invalid value: failed rule: self.n > 1"),
        ({"rule": "self.n > 1", "message": " m "}, "spec: Invalid value: m"),
        (
            {"rule": "self.n > 1", "messageExpression": "'n is ' + string(self.n)"},
            "spec: Invalid value: n is 1",
        ),
        (
            {"rule": "self.n > 1", "message": "m", "messageExpression": "''"},
            "spec: Invalid value: m",
        ),
        (
            {"rule": "self.n > 1", "reason": "FieldValueRequired"},
            "spec: Required value: failed rule: self.n > 1",
        ),
        (
            {"rule": "self.n > 1", "fieldPath": ".n"},
            "spec.n: Invalid value: failed rule: self.n > 1",
        ),
        (
            {"rule": "self.n / 0 == 1"},
            'spec: Invalid value: "object": division by zero evaluating rule: self.n / 0 == 1',
        ),
        (
            {"rule": "self.m == 'x'"},
            "spec: Invalid value: \"object\": no such key: m evaluating rule: self.m == 'x'",
        ),
    ],
)
def test_a_broken_rule_is_reported_as_it_asks(rule: dict[str, Any], error: str) -> None:
    """Message, reason and place."""
    properties = {"n": {"type": "integer"}, "m": {"type": "string"}}
    info = _type(properties=properties, **{"x-kubernetes-validations": [rule]})
    assert _errors(info, {"n": 1}) == [error]


def test_rules_wait_until_the_values_are_in_order() -> None:
    """No problem is reported twice."""
    rule = {"rule": "self.n > 1"}
    info = _type(properties={"n": {"type": "integer"}}, **{"x-kubernetes-validations": [rule]})
    errors = _errors(info, {"n": "x"})
    assert len(errors) == 2
    assert errors[1].startswith(
        "<nil>: Invalid value: null: some validation rules were not checked"
    )


def test_names_that_are_no_identifiers_are_escaped_in_rules() -> None:
    """So that every field can be reached."""
    rule = {"rule": "self.a__dash__b == 1 && self.__namespace__ == 2 && self.c__dot__d == 3"}
    properties = {name: {"type": "integer"} for name in ("a-b", "namespace", "c.d")}
    info = _type(properties=properties, **{"x-kubernetes-validations": [rule]})
    assert _errors(info, {"a-b": 1, "namespace": 2, "c.d": 3}) == []


def test_formatted_texts_are_times_and_durations_in_rules() -> None:
    """And bytes."""
    rule = {"rule": "self.t.getFullYear() == 2024 && self.d > duration('1m') && size(self.b) == 1"}
    properties = {
        "t": {"type": "string", "format": "date-time"},
        "d": {"type": "string", "format": "duration"},
        "b": {"type": "string", "format": "byte"},
    }
    info = _type(properties=properties, **{"x-kubernetes-validations": [rule]})
    assert _errors(info, {"t": "2024-05-01T00:00:00Z", "d": "2m", "b": "YQ=="}) == []


def test_the_type_for_apply_follows_the_schema() -> None:
    """Which lists have keys, what is owned as a whole."""
    info = _type(
        properties={
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object"},
            },
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
        }
    )
    spec = info.root.fields["spec"].type
    assert isinstance(spec, Struct)
    keyed, plain, whole = (spec.fields[name].type for name in ("keyed", "plain", "whole"))
    assert isinstance(keyed, ListType)
    assert (keyed.relation, keyed.keys) == (Relation.MAP, ("id",))
    assert isinstance(plain, ListType)
    assert plain.relation is Relation.ATOMIC
    assert isinstance(whole, MapType)
    assert whole.atomic
    assert spec.unknown is None
    assert shape_of(info.root.fields["metadata"].type, {}) is info.root.fields["metadata"].type


def test_metadata_of_another_type_is_refused() -> None:
    """Before anybody looks into it."""
    problems = _RICH.check({"metadata": "x"}, strict=False)
    assert problems.fatal == "json: cannot unmarshal string into Go value of type v1.ObjectMeta"


def test_integers_beyond_64_bits_become_floats() -> None:
    """As Go has no others."""
    assert _RICH.canonical({"n": 10**30, "m": 2**63 - 1}) == {"n": 1e30, "m": 2**63 - 1}


def test_what_was_valid_once_says_nothing_of_other_contents() -> None:
    """Equal contents are not checked twice; to Python true is 1 and 1.0 is 1, to a schema not."""
    info = _type(properties={"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 2}})
    assert _errors(info, {"n": 1, "s": "ab"}) == []
    assert _errors(info, {"n": 1, "s": "ab"}) == []
    assert "must be of type integer" in _errors(info, {"n": True, "s": "ab"})[0]
    assert "Too long" in _errors(info, {"n": 1, "s": "abc"})[0]


def test_contents_that_only_an_update_may_keep_are_refused_in_new_objects() -> None:
    """An update may leave as it is what an older schema allowed."""
    info = _type(properties={"s": {"type": "string", "maxLength": 2}})
    assert _errors(info, {"s": "abc"}, {"s": "abc"}) == []
    assert "Too long" in _errors(info, {"s": "abc"})[0]


def test_metadata_are_checked_in_each_object_where_the_schema_speaks_of_them() -> None:
    """Although the contents are equal."""
    named = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^w"}}}
    info = CustomType.of(_GVK, {"type": "object", "properties": {"metadata": named}})
    plain = {"apiVersion": "example.com/v1", "kind": "Widget"}
    assert info.validate({**plain, "metadata": {"name": "w"}}, None) == []
    assert info.validate({**plain, "metadata": {"name": "v"}}, None) != []


def test_rules_that_cost_too_much_are_not_run_to_the_end() -> None:
    """Neither one that never ends, nor many for which the whole object is too big."""
    endless = "lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))"
    rules = [{"rule": "self.n < 5"}, {"rule": endless}, {"rule": "self.n < 4"}]
    fields = {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}}}
    info = _type(properties=fields, **{"x-kubernetes-validations": rules})
    first, stopped = _errors(info, {"n": 7})
    assert "failed rule: self.n < 5" in first
    assert (
        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run"
        " due to call cost exceeds limit for rule: " + endless
    ) in stopped
    long = [{"rule": "lists.range(2000).all(x, x >= 0)"}]
    items = {"type": "integer", "x-kubernetes-validations": long}
    info = _type(properties={"l": {"type": "array", "items": items}})
    assert _errors(info, {"l": [1, 2]}) == []
    (stopped,) = _errors(info, {"l": list(range(2000))})
    assert "validation failed due to running out of cost budget" in stopped


def test_a_pattern_takes_linear_time_and_is_refused_as_go_refuses_it() -> None:
    """Those who define a kind write it, and those who create objects the text."""
    info = _type(properties={"s": {"type": "string", "pattern": "^(a|aa)+$"}})
    assert _errors(info, {"s": "a" * 500}) == []
    (error,) = _errors(info, {"s": "a" * 500 + "!"})
    assert error.endswith("should match '^(a|aa)+$'")
    assert pattern_problem("(?=a)b") == (
        "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"
    )
    assert pattern_problem(r"\Qa.b\E\z") == ""
