"""Which CPUs a claim gets, and why it gets none."""

from __future__ import annotations

from typing import Any

import pytest
from dra_bed import offer_of, parameters, result
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.resource_claims import DeviceAllocationResult
from numakube.kubelet import KubeletNode, KubeletSettings
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod
from numakube.values.cpuset import CpuMask, CpuSet
from numakube_dra_driver.assignment import ClaimRefusal, assign
from numakube_dra_driver.devices import Grouping
from numakube_dra_driver.ledger import GivenDevice, Held

FEW = "2 sockets, 4 cores, smt 2, 16Gi"


def assigned(
    *results: dict[str, Any],
    config: tuple[dict[str, Any], ...] = (),
    held: str = "",
    **options: Any,
) -> list[str] | str:
    """Return the CPUs of each result, or why there are none."""
    offer = offer_of(**options)
    allocation = convert(DeviceAllocationResult, {"results": list(results), "config": list(config)})
    found = assign(allocation, offer, Held(cpus=CpuSet.parse(held).mask))
    return found.why if isinstance(found, ClaimRefusal) else [given.cpus for given in found]


def what(
    *results: dict[str, Any],
    config: tuple[dict[str, Any], ...] = (),
    amounts: dict[str, int] | None = None,
    **options: Any,
) -> tuple[GivenDevice, ...]:
    """Return what each result has."""
    allocation = convert(DeviceAllocationResult, {"results": list(results), "config": list(config)})
    found = assign(allocation, offer_of(**options), Held(amounts=amounts or {}))
    assert not isinstance(found, ClaimRefusal), found.why
    return found


def test_cpus_come_from_the_group_that_the_scheduler_has_chosen() -> None:
    assert assigned(result("cpu-numa1", "4")) == ["4-5,12-13"]


def test_cpus_that_others_hold_are_not_given() -> None:
    assert assigned(result("cpu-numa0", "4"), held="0,8") == ["1-2,9-10"]


def test_the_largest_request_of_a_claim_finds_the_most_whole_cores() -> None:
    few, many = result("cpu-numa0", "1", request="few"), result("cpu-numa0", "6", request="many")
    assert assigned(few, many, whole_cores=False) == ["3", "0-2,8-10"]


def test_requests_of_a_claim_have_cpus_of_their_own() -> None:
    found = assigned(*(result("cpu-numa0", "2", request=f"c{n}") for n in range(4)))
    assert sorted(found) == ["0,8", "1,9", "2,10", "3,11"]


def test_a_core_is_given_as_a_whole() -> None:
    assert assigned(result("core-0003"), grouping=Grouping.CORE) == ["3,11"]
    assert assigned(result("cpu-0003"), grouping=Grouping.CPU, whole_cores=False) == ["3"]


@pytest.mark.parametrize(
    ("results", "options", "words"),
    [
        ([result("cpu-numa9", "2")], {}, "device cpu-numa9 is not offered by this node"),
        ([result("cpu-numa0", "9")], {}, "cpu-numa0 has 8 of 8 CPUs free, and 9 are allocated"),
        ([result("cpu-numa0", "2")], {"held": "0-3,8-10"}, "has 1 of 8 CPUs free, and 2 are"),
        ([result("cpu-numa0", "1500m")], {}, "1500m is not a whole number of CPUs"),
        ([result("cpu-numa0", "0")], {}, "0 is not a whole number of CPUs"),
        ([result("cpu-numa0", "-2")], {}, "-2 is not a whole number of CPUs"),
        ([result("cpu-numa0")], {}, "the allocation of cpu-numa0 says no numakube.dev/cpu"),
        ([result("cpu-numa0", "2", adminAccess=True)], {}, "no administrative access"),
    ],
)
def test_a_claim_that_cannot_be_true_is_refused_with_the_reason(
    results: list[dict[str, Any]], options: dict[str, Any], words: str
) -> None:
    found = assigned(*results, **options)
    assert isinstance(found, str)
    assert words in found


def test_a_claim_may_name_its_cpus() -> None:
    config = (parameters("b", cpus={"cpuset": "0,8"}),)
    two = result("cpu-numa0", "2", request="a"), result("cpu-numa0", "2", request="b")
    assert assigned(*two, config=config) == ["1,9", "0,8"]


@pytest.mark.parametrize(
    ("cpuset", "words"),
    [
        ("0-3", "cpuset 0-3: 4 CPUs, and 2 are allocated"),
        ("4,12", "cpu-numa0 does not offer CPUs 4,12"),
        ("3,11", "CPUs 3,11 belong to others"),
        ("1-x", "cpuset '1-x'"),
        ("0-9999999", "is above the limit"),
    ],
)
def test_cpus_that_are_named_are_checked(cpuset: str, words: str) -> None:
    config = (parameters(cpus={"cpuset": cpuset}),)
    found = assigned(result("cpu-numa0", "2"), config=config, held="3,11")
    assert isinstance(found, str)
    assert words in found


def test_cpus_are_spread_over_cores_if_the_claim_says_so() -> None:
    config = (parameters(cpus={"take": "spread"}),)
    found = assigned(result("cpu-numa0", "4"), config=config, whole_cores=False)
    assert found == ["0-3"]


def test_a_claim_may_have_one_cpu_of_each_core_and_no_more() -> None:
    config = (parameters(cpus={"take": "one-per-core"}),)
    found = assigned(result("cpu-numa0", "3"), config=config, whole_cores=False, held="0")
    assert found == ["1-3"]
    found = assigned(result("cpu-numa0", "5"), config=config, whole_cores=False)
    assert "has free CPUs in 4 cores, and 5 are allocated, one-per-core" in found


def test_a_claim_may_stand_for_a_place_that_others_run_on_too() -> None:
    config = (parameters("near", cpus={"exclusive": False}),)
    shared = result("cpu-numa0", "6", request="near")
    found = what(shared, result("cpu-numa1", "2"), config=config)
    assert [(one.cpus, one.near, one.amount) for one in found] == [
        ("", "0", 6000),
        ("4,12", "", 2000),
    ]
    more = result("cpu-numa0", "4", request="near")
    words = assigned(shared, more, config=config)
    assert "cpu-numa0 has 2 of 8 CPUs free, and 4 are allocated" in words


def test_a_claim_overrides_its_class_word_by_word() -> None:
    config = (
        parameters(cpus={"cpuset": "1,9"}),
        parameters(source="FromClass", cpus={"take": "spread", "cpuset": "0,8"}),
    )
    assert assigned(result("cpu-numa0", "2"), config=config) == ["1,9"]


def test_parameters_of_other_requests_and_drivers_do_not_count() -> None:
    other = parameters(cpus={"cpuset": "0,8"})
    other["opaque"]["driver"] = "gpu.example"
    config = (other, parameters("else", cpus={"cpuset": "1,9"}))
    assert assigned(result("cpu-numa0", "2"), config=config, held="0-2,8-10") == ["3,11"]


def test_half_taken_cores_of_odd_machines_are_not_given_twice() -> None:
    """The kubelet takes a core for free that has as many free CPUs as cores have on average."""
    machine = from_shape("1 socket, 2p+6e cores, 16Gi")
    offer = offer_of(machine, whole_cores=False)
    held = CpuMask(0b10)
    allocation = convert(DeviceAllocationResult, {"results": [result("cpu-numa0", "3")]})
    found = assign(allocation, offer, Held(cpus=held))
    assert not isinstance(found, ClaimRefusal)
    assert not found[0].mask & held
    assert found[0].mask.bit_count() == 3


SHAPES = (
    FEW,
    "2 sockets, 2 numa each, 8 cores, smt 2, l3 4, 64Gi",
    "1 socket, 4 numa each, 6 cores, 64Gi",
    "4 sockets, 5 cores, smt 2, 64Gi",
)


@settings(max_examples=150)
@given(
    shape=st.sampled_from(SHAPES),
    steps=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=12),
)
def test_claims_get_what_the_kubelet_would_give_to_pods(
    shape: str, steps: list[tuple[int, bool]]
) -> None:
    """Whatever came and went before, with single-numa-node; the model is the kubelet's."""
    machine = from_shape(shape)
    wanted = KubeletSettings(
        cpu_policy="static",
        topology_policy="single-numa-node",
        reserved_cpus=CpuSet.parse("0"),
    )
    kubelet = KubeletNode(machine, wanted)
    offer = offer_of(machine, reserved=CpuSet.parse("0"), whole_cores=False)
    held: dict[str, CpuMask] = {}
    for number, (count, ends) in enumerate(steps):
        name = f"p{number}"
        outcome = kubelet.admit(pod(name, cpu=str(count), memory="64Mi"))
        if not isinstance(outcome, Rejected):
            theirs = kubelet.placement(name, "main").cpus
            (node,) = [n for n, cpus in offer.manager.topology.numa.items() if cpus & theirs.mask]
            taken = CpuMask(sum(held.values()))
            document = {"results": [result(f"cpu-numa{node}", str(count))]}
            allocation = convert(DeviceAllocationResult, document)
            ours = assign(allocation, offer, Held(cpus=taken))
            assert not isinstance(ours, ClaimRefusal)
            assert ours[0].cpus == str(theirs)
            held[name] = ours[0].mask
        if ends and held:
            gone = next(iter(held))
            del held[gone]
            kubelet.remove(gone)
