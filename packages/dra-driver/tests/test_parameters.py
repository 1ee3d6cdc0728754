"""What users may say, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from dra_bed import parameters

from numakube.api.codec import convert
from numakube.api.resource_claims import DeviceAllocationResult
from numakube.errors import InvalidValue
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.parameters import Take, parameters_of


def read(*config: dict[str, Any], request: str = "cpus") -> Any:
    """Return the parameters of a request."""
    allocation = convert(DeviceAllocationResult, {"config": list(config)})
    return parameters_of(allocation, request, DRIVER)


def test_without_parameters_nothing_is_said() -> None:
    assert read().cpus.take is None


def test_what_the_class_says_holds_where_the_claim_says_nothing() -> None:
    of_class = parameters(source="FromClass", cpus={"take": "spread", "preferL3": True})
    found = read(parameters(cpus={"preferL3": False}), of_class).cpus
    assert (found.take, found.prefer_l3) == (Take.SPREAD, False)


def test_parameters_of_a_request_are_those_of_its_alternatives() -> None:
    assert read(parameters("cpus", cpus={"take": "spread"}), request="cpus/few").cpus.take
    assert read(parameters("cpus/few", cpus={"take": "spread"}), request="cpus/few").cpus.take
    assert not read(parameters("cpus/few", cpus={"take": "spread"}), request="cpus/many").cpus.take


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cpu": {}}, "parameters of claim: Object contains unknown field `cpu`"),
        ({"cpus": {"take": "random"}}, "Invalid enum value 'random'"),
        ({"cpus": {"takes": "spread"}}, "unknown field `takes` - at `$.cpus`"),
        ({"cpus": {"preferL3": "yes"}}, "Expected `bool | null`, got `str`"),
        ({"kind": "Parameters"}, "numakube.dev/v1alpha1 Parameters is not known"),
        ({"apiVersion": ""}, "(none) ClaimParameters is not known"),
        ({"cpus": {"cpuset": "," * (10 << 10)}}, "more than 10240 bytes"),
        ({"cpus": {"cpuset": "1-"}}, "cpuset '1-'"),
        ({"cpus": []}, "Expected `object`, got `array`"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    config = parameters()
    config["opaque"]["parameters"] |= change
    with pytest.raises(InvalidValue) as refused:
        read(config)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("tree", [None, 7, "text", [], {"a": "b"}])
def test_anything_else_is_refused(tree: object) -> None:
    config = parameters()
    config["opaque"]["parameters"] = tree
    with pytest.raises(InvalidValue, match="parameters of claim"):
        read(config)
