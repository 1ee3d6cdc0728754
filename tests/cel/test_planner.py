"""Short cuts of evaluation give what the long way gives."""

from __future__ import annotations

import pytest

from numakube.cel import compile_expression
from numakube.cel.value_types import CelType

DYN = CelType("dyn")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 in [1, 2]", True),
        ("3 in [1, 2]", False),
        ("x in []", False),
        ("dyn(1.0) in [1, 2]", True),
        ("dyn(true) in [1, 2]", False),
        ("dyn(1) in [true]", False),
        ("dyn(b'a') in ['a']", False),
        ("b'a' in [b'a', b'b']", True),
        ("b'c' in [b'a', b'b']", False),
        ("[1] in [[1], [2]]", True),
        ("[3] in [[1], [2]]", False),
        ("duration('60s') in [duration('1m')]", True),
        ("x in ['a', 'b']", False),
        ("{'a': 1} in [{'a': 1}]", True),
    ],
)
def test_membership_in_a_constant_list_is_that_in_any_list(text: str, value: bool) -> None:
    """Whatever its elements are; Python takes true for 1, CEL does not."""
    program = compile_expression(text, {"x": DYN})
    assert program.measure({"x": 7})[0] is value
    # The same with a list that is known only when it is evaluated.
    left, _, right = text.rpartition(" in ")
    assert compile_expression(f"{left} in y", {"x": DYN, "y": DYN}).measure(
        {"x": 7, "y": compile_expression(right, {}).measure({})[0]}
    )[0] is (value)
