"""Devices that are parts of the node count as its resources."""

from __future__ import annotations

import pytest

from numakube.api.resource_slices import Device, DeviceAttribute
from numakube.dra.node_parts import resource_of

KIND, PAGE = "numakube.dev/kind", "numakube.dev/pageSize"


@pytest.mark.parametrize(
    ("driver", "attributes", "resource"),
    [
        ("dra.cpu", {}, "cpu"),
        ("dra.cpu", {KIND: "memory"}, "cpu"),
        ("another.driver", {}, ""),
        ("another.driver", {KIND: "cpu"}, "cpu"),
        ("another.driver", {KIND: "memory"}, "memory"),
        ("another.driver", {KIND: "gpu"}, ""),
        ("another.driver", {KIND: "hugepages"}, ""),
        ("another.driver", {KIND: "hugepages", PAGE: "2m"}, "hugepages-2Mi"),
        ("another.driver", {KIND: "hugepages", PAGE: "1g"}, "hugepages-1Gi"),
        ("another.driver", {KIND: "memory", PAGE: "1g"}, "memory"),
    ],
)
def test_a_device_that_says_so_is_a_part_of_the_node(
    driver: str, attributes: dict[str, str], resource: str
) -> None:
    """By its attributes; the driver of CPUs needs none."""
    told = {name: DeviceAttribute(string=value) for name, value in attributes.items()}
    assert resource_of(Device(name="d", attributes=told), driver) == resource


def test_a_kind_that_is_no_text_is_none() -> None:
    """Attributes may be numbers."""
    number = {KIND: DeviceAttribute(integer=1), PAGE: DeviceAttribute(integer=1)}
    assert resource_of(Device(name="d", attributes=number), "another.driver") == ""
