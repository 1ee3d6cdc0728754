"""Resource names, their kinds, and amounts in base units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.resources import (
    ResourceKind,
    add_amounts,
    amount_of,
    amounts_of,
    container_resource_problems,
    hugepage_bytes,
    hugepage_name,
    is_extended,
    is_overcommit_allowed,
    is_scalar,
    is_whole_hugepages,
    is_whole_number,
    kind_of,
    largest_amounts,
    quantities_of,
    resource_name_problems,
    shortfalls,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cpu", ResourceKind.CPU),
        ("memory", ResourceKind.MEMORY),
        ("ephemeral-storage", ResourceKind.STORAGE),
        ("pods", ResourceKind.PODS),
        ("hugepages-1Gi", ResourceKind.HUGEPAGES),
        ("attachable-volumes-aws-ebs", ResourceKind.ATTACHABLE_VOLUMES),
        ("vendor.example/gpu", ResourceKind.EXTENDED),
        ("requests.vendor.example/gpu", ResourceKind.INVALID),
        ("kubernetes.io/batch-cpu", ResourceKind.OTHER_NATIVE),
        ("gpu", ResourceKind.OTHER_NATIVE),
        ("UPPER.example/gpu", ResourceKind.INVALID),
        ("", ResourceKind.INVALID),
    ],
)
def test_every_name_has_a_kind(name: str, kind: ResourceKind) -> None:
    """Names without a slash or under kubernetes.io are native."""
    assert kind_of(name) is kind


def test_extended_names_leave_room_for_the_quota_prefix() -> None:
    """``requests.`` is put before the domain, whose length is limited."""
    domain = "a" * 60 + "." + "b" * 60 + "." + "c" * 60 + "." + "d" * 60

    assert is_extended(f"{domain}/gpu")
    assert not is_extended(f"{domain}{'d' * 5}/gpu")


def test_scheduler_scalars_whole_numbers_and_overcommit() -> None:
    """The three classes of names that Kubernetes distinguishes further."""
    names = ["cpu", "pods", "hugepages-2Mi", "vendor.example/nic", "attachable-volumes-x"]

    assert [is_scalar(name) for name in names] == [False, False, True, True, True]
    assert [is_whole_number(name) for name in names] == [False, True, False, True, False]
    assert [is_overcommit_allowed(name) for name in names] == [True, True, False, False, True]


@given(st.integers(1, 2**40))
def test_hugepage_size_and_name_are_inverse(page_bytes: int) -> None:
    """Also for sizes that no processor has."""
    assert hugepage_bytes(hugepage_name(page_bytes)) == page_bytes


def test_hugepage_names_are_canonical() -> None:
    """2048 KiB are 2Mi."""
    assert hugepage_name(2048 * 1024) == "hugepages-2Mi"
    assert hugepage_bytes("hugepages-1048576Ki") == 1 << 30


@pytest.mark.parametrize("name", ["memory", "hugepages-", "hugepages-x"])
def test_names_without_a_page_size_are_refused(name: str) -> None:
    """There is nothing to guess."""
    with pytest.raises(InvalidValue):
        hugepage_bytes(name)


def test_hugepage_requests_are_whole_pages() -> None:
    """A page size that is no size divides nothing."""
    assert is_whole_hugepages("hugepages-2Mi", "1Gi")
    assert not is_whole_hugepages("hugepages-2Mi", "1Mi")
    assert not is_whole_hugepages("hugepages-0", "1Mi")
    assert not is_whole_hugepages("hugepages-x", "1Mi")


def test_refused_names_are_explained_in_kubernetes_words() -> None:
    """The texts of the API server."""
    assert resource_name_problems("cpu") == []
    assert resource_name_problems("gpu") == ["must be a standard resource type or fully qualified"]
    assert container_resource_problems("vendor.example/gpu") == []
    assert container_resource_problems("hugepages-2Mi") == []
    assert container_resource_problems("pods") == ["must be a standard resource for containers"]
    assert container_resource_problems("requests.vendor.example/gpu") == [
        "doesn't follow extended resource name standard"
    ]


def test_amounts_are_in_base_units_and_print_canonically() -> None:
    """Thousandths of CPU, bytes, counts."""
    quantities = {"cpu": "1.5", "memory": "1Gi", "hugepages-2Mi": "4Mi", "vendor.example/nic": "2"}

    amounts = amounts_of(quantities)

    assert amounts == {
        "cpu": 1500,
        "memory": 1 << 30,
        "hugepages-2Mi": 4 << 20,
        "vendor.example/nic": 2,
    }
    assert quantities_of(amounts) == {
        "cpu": "1500m",
        "memory": "1Gi",
        "hugepages-2Mi": "4Mi",
        "vendor.example/nic": "2",
    }
    assert amounts_of(None) == {}
    assert amount_of("memory", "1.5") == 2


def test_vector_arithmetic() -> None:
    """A missing resource is zero."""
    one, other = {"cpu": 5, "memory": 2}, {"cpu": 3, "pods": 1}

    assert add_amounts(one, other) == {"cpu": 8, "memory": 2, "pods": 1}
    assert largest_amounts(one, other) == {"cpu": 5, "memory": 2, "pods": 1}
    assert shortfalls(one, other) == {"cpu": 2, "memory": 2}
    assert shortfalls({"cpu": 3}, one) == {}
