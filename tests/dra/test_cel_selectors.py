"""Expressions about devices: what selectors say of them, and attributes derived from them."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.resource_slices import Device, DeviceAttribute, DeviceSelector
from numakube.dra.cel_selectors import (
    derived_attribute,
    derived_program,
    is_selected,
    selector_program,
    variables_of,
    with_hint,
)
from numakube.dra.device_ids import AllocationError

DEVICE = convert(
    Device,
    {
        "name": "a",
        "attributes": {
            "model": {"string": "x"},
            "other.example/count": {"int": 3},
            "sizes": {"ints": [1, 2]},
            "firmware": {"version": "1.2.0"},
        },
        "capacity": {"memory": {"value": "2Gi"}},
    },
)
SEEN = variables_of(DEVICE, "d.example")


def selected(*expressions: str) -> bool:
    """Tell whether all expressions select the device."""
    selectors = [convert(DeviceSelector, {"cel": {"expression": one}}) for one in expressions]
    return is_selected(selectors, DEVICE, "d.example")


@pytest.mark.parametrize(
    ("expressions", "answer"),
    [
        ([], True),
        (["device.driver == 'd.example'", "true"], True),
        (["true", "device.driver == 'other'"], False),
        (["device.attributes['d.example'].model == 'x'"], True),
        (["device.attributes['other.example'].count > 2"], True),
        (["device.attributes['d.example'].firmware.compareTo(semver('1.1.0')) > 0"], True),
        (["device.capacity['d.example'].memory.compareTo(quantity('1Gi')) > 0"], True),
        (["device.allowMultipleAllocations"], False),
        (["has(device.attributes['nobody'].x)"], False),
    ],
)
def test_a_device_is_selected_if_all_expressions_are_true(
    expressions: list[str], answer: bool
) -> None:
    """Names without a domain are in that of the driver."""
    assert selected(*expressions) is answer


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("dyn(1)", "int could not be converted to bool: unsupported type conversion from 'int'"),
        ("dyn(1u)", "uint could not be converted to bool: unsupported type conversion from 'uint'"),
        ("dyn(1.5)", "double could not be converted to bool: type conversion error from Double"),
        ("dyn('x')", "string could not be converted to bool: unsupported native conversion from"),
        ("dyn([])", "list could not be converted to bool: type conversion error from list"),
        ("dyn(duration('1s'))", "type conversion error from 'Duration' to 'bool'"),
        ("dyn(optional.none())", "optional.none() dereference"),
        ("device.attributes['d.example'].nope", "no such key: nope"),
    ],
)
def test_what_is_neither_true_nor_false_is_an_error(value: str, problem: str) -> None:
    with pytest.raises(AllocationError) as told:
        selected(value)
    assert problem in str(told.value)
    hinted = "consider using CEL optional chaining" in str(with_hint(told.value))
    assert hinted is ("no such key" in problem)


def test_an_expression_that_has_another_type_is_no_selector() -> None:
    with pytest.raises(AllocationError, match="must evaluate to bool or the unknown type, not int"):
        selector_program("1 + 1")


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ("1 + 2", {"int": 3}),
        ("true", {"bool": True}),
        ("'x' + 'y'", {"string": "xy"}),
        ("semver('1.2.3')", {"version": "1.2.3"}),
        ("[1, 2]", {"ints": [1, 2]}),
        ("['a']", {"strings": ["a"]}),
        ("[semver('1.2.3')]", {"versions": ["1.2.3"]}),
        ("device.attributes['d.example'].sizes.map(x, x + 1)", {"ints": [2, 3]}),
    ],
)
def test_an_attribute_is_derived_with_its_type(expression: str, attribute: dict[str, Any]) -> None:
    derived = derived_attribute(derived_program(expression, lists=True), SEEN)
    assert derived == convert(DeviceAttribute, attribute)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ("dyn(null)", "unsupported CEL return type: structpb.NullValue"),
        ("dyn([1.5])", "unsupported list element type: float64"),
        ("dyn([[1]])", "unsupported list element type: []ref.Val"),
        ("[dyn(1), dyn('a')]", "expected list element at index 1 to be int, got string"),
        ("[dyn('a'), dyn(true)]", "expected list element at index 1 to be string, got bool"),
        (
            "[dyn(semver('1.0.0')), dyn(1)]",
            "expected list element at index 1 to be semver, got int64",
        ),
    ],
)
def test_an_attribute_of_no_type_or_of_several_is_an_error(expression: str, problem: str) -> None:
    with pytest.raises(AllocationError) as told:
        derived_attribute(derived_program(expression, lists=True), SEEN)
    assert str(told.value) == problem


@pytest.mark.parametrize(
    ("expression", "lists", "problem"),
    [
        ("1.5", True, "or a list of these scalars, not double"),
        ("[1.5]", True, "or a list of these scalars, not list(double)"),
        ("[1]", False, "a primitive scalar (string, integer, boolean, semver), not list(int)"),
    ],
)
def test_an_expression_that_can_be_no_attribute_is_refused(
    expression: str, lists: bool, problem: str
) -> None:
    with pytest.raises(AllocationError) as told:
        derived_program(expression, lists=lists)
    assert str(told.value).endswith(problem)
