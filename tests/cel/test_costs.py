"""What Kubernetes says that an expression costs, where sizes of addresses matter."""

from __future__ import annotations

import pytest

from numakube.cel import compile_expression


def cost(text: str) -> int:
    """Return the cost of an expression."""
    return compile_expression(text, {}).measure({})[1]


@pytest.mark.parametrize("text", ["10.0.0.0/8", "2001:db8::/32", "2001:db8::1/128", "::/0"])
def test_the_address_of_a_network_costs_one_however_long_it_is(text: str) -> None:
    """It is there already; to read one from text costs by its length."""
    network = f"cidr('{text}')"
    assert cost(f"{network}.ip()") - cost(network) == 1


def test_an_address_costs_by_its_text() -> None:
    """A tenth of each character, rounded up."""
    assert cost("ip('10.0.0.1')") == 1
    assert cost("ip('2001:db8::1234:5678')") == 2
