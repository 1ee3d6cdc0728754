"""Taints of devices, their own and those of rules, keep requests away that do not tolerate them."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import DeviceToleration
from numakube.api.resource_slices import Device, DeviceTaintRule, ResourceSlice
from numakube.dra.device_taints import repelling_taint, with_taints


def taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    """Return a taint."""
    return {"key": key, "value": "v", "effect": effect}


def device(*taints: dict[str, str]) -> Device:
    """Return a device."""
    return convert(Device, {"name": "a", "taints": list(taints)})


@pytest.mark.parametrize(
    ("taints", "tolerated", "repelled_by"),
    [
        ([], [], None),
        ([taint("x")], [], "x"),
        ([taint("x", "NoExecute")], [], "x"),
        ([taint("x", "None")], [], None),
        ([taint("x")], ["x"], None),
        ([taint("x")], ["y"], "x"),
        ([taint("x"), taint("y")], ["x"], "y"),
        ([taint("x"), taint("y")], ["y", "x"], None),
        ([taint("x", "None"), taint("y")], [], "y"),
    ],
)
def test_the_first_taint_that_is_not_tolerated_repels(
    taints: list[dict[str, str]], tolerated: list[str], repelled_by: str | None
) -> None:
    """Any of the tolerations will do; other effects keep nobody away."""
    tolerations = [
        convert(DeviceToleration, {"key": key, "operator": "Exists"}) for key in tolerated
    ]
    found = repelling_taint(device(*taints), tolerations)
    assert (None if found is None else found.key) == repelled_by


def tainted(selector: dict[str, Any] | None) -> dict[str, list[str]]:
    """Return the taints of the devices of a slice after a rule."""
    devices = [{"name": "a", "taints": [taint("own")]}, {"name": "b"}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    tree = {"driver": "d", "pool": pool, "nodeName": "n", "devices": devices}
    one = convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": tree})
    spec: dict[str, Any] = {"taint": taint("rule")}
    if selector is not None:
        spec["deviceSelector"] = selector
    rule = convert(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})
    (found,) = with_taints([one], [rule])
    assert with_taints([one], []) == [one]
    return {each.name: [taint.key for taint in each.taints] for each in found.spec.devices}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, "ab"),
        ({}, "ab"),
        ({"driver": "d"}, "ab"),
        ({"driver": "other"}, ""),
        ({"pool": "p"}, "ab"),
        ({"pool": "other"}, ""),
        ({"driver": "d", "pool": "other"}, ""),
        ({"driver": "other", "pool": "p"}, ""),
        ({"device": "b"}, "b"),
        ({"driver": "d", "pool": "p", "device": "a"}, "a"),
        ({"driver": "d", "pool": "p", "device": "other"}, ""),
    ],
)
def test_a_rule_taints_the_devices_that_all_of_its_selector_names(
    selector: dict[str, Any] | None, selected: str
) -> None:
    """After their own taints; without a selector all, as kube-scheduler takes it."""
    before = {"a": ["own"], "b": []}
    after = {name: [*keys, "rule"] if name in selected else keys for name, keys in before.items()}
    assert tainted(selector) == after
