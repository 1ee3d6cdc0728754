"""The NUMA nodes of PCI functions fit into a short text, from which they can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.topology.pci_places import read_places, write_places

ADDRESSES = st.builds(
    "{:04x}:{:02x}:{:02x}.{}".format,
    st.sampled_from([0, 1, 0x10000]),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
)


def test_a_server_takes_a_few_words() -> None:
    """However many functions it has."""
    buses = {0: range(0x80), 1: range(0x80, 0x100)}
    functions: dict[str, int | None] = {
        f"0000:{bus:02x}:00.{function}": numa
        for numa, some in buses.items()
        for bus in some
        for function in range(8)
    }
    assert write_places(functions) == "0000:00=0 0000:80=1"


def test_a_function_that_comes_later_is_where_its_neighbours_are() -> None:
    """But only within its PCI domain."""
    places = read_places(write_places({"0000:3b:00.0": 0, "0000:d8:00.0": 1}))
    assert places.numa_node("0000:3b:02.1") == 0
    assert places.numa_node("0000:d9:00.0") == 1
    assert places.numa_node("0001:d9:00.0") is None
    assert places.numa_node("0000:01:00.0") is None


def test_addresses_are_read_in_any_spelling() -> None:
    """NVIDIA's library writes the domain with eight digits, and letters in upper case."""
    places = read_places("0000:3b=1")
    assert places.numa_node("00000000:3B:00.0") == 1
    assert places.numa_node("GPU-0") is None


def test_machines_that_tell_no_place_need_no_text() -> None:
    """As most virtual ones."""
    assert not write_places({"0000:00:00.0": None, "0000:00:01.0": None})
    assert not write_places({})


@pytest.mark.parametrize("text", ["0000:00", "0000:00=x", "=0", "0000:zz=1", "0000:00=-2"])
def test_a_text_of_another_kind_is_refused(text: str) -> None:
    """With the word that is wrong."""
    with pytest.raises(InvalidValue, match="is not an address and a NUMA node"):
        read_places(text)


@given(functions=st.dictionaries(ADDRESSES, st.none() | st.integers(0, 3)))
def test_every_function_is_found_again(functions: dict[str, int | None]) -> None:
    """Whatever the order of buses and NUMA nodes."""
    places = read_places(write_places(functions))
    assert {address: places.numa_node(address) for address in functions} == functions
