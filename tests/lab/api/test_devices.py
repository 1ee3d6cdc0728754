"""Claims of devices, classes and slices."""

from __future__ import annotations

from typing import Any

import pytest
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, ApiServer, Json
from numakube.errors import Invalid
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import Resource
from numakube_lab.inprocess_transport import InProcess

CLAIM = GVK("resource.k8s.io", "v1", "ResourceClaim")
SLICE = GVK("resource.k8s.io", "v1", "ResourceSlice")
CLASS = GVK("resource.k8s.io", "v1", "DeviceClass")
RULE = GVK("resource.k8s.io", "v1", "DeviceTaintRule")


def claim(*requests: Json, **parts: Any) -> Json:
    """Return a claim with requests."""
    obj = {
        "metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"},
        "spec": {"devices": {"requests": list(requests), **parts}},
    }
    return rules(CLAIM).default(obj)


def exactly(name: str = "g", **more: Any) -> Json:
    """Return a request."""
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **more}}


def problems(gvk: GVK, obj: Json) -> list[str]:
    """Return what is wrong with an object."""
    return [str(error) for error in rules(gvk).validate_create(obj)]


def slice_of(*devices: Json, **spec: Any) -> Json:
    """Return a slice with devices."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": "gpu.example.com", "pool": pool, "devices": list(devices), **spec}
    return {"metadata": {"name": "s"}, "spec": whole}


def test_a_request_is_for_one_device_unless_it_says_how_many() -> None:
    """A request is for one device unless it says how many."""
    alternatives = {"name": "h", "firstAvailable": [{"name": "a", "deviceClassName": "x"}]}
    requests = claim(exactly(), exactly("all", allocationMode="All"), alternatives)["spec"][
        "devices"
    ]["requests"]
    assert requests[0]["exactly"]["count"] == 1
    assert "count" not in requests[1]["exactly"]
    assert requests[2]["firstAvailable"][0]["allocationMode"] == "ExactCount"


def test_a_good_claim_is_accepted() -> None:
    """A good claim is accepted."""
    constraint = {"requests": ["g"], "matchAttribute": "gpu.example.com/numa"}
    assert problems(CLAIM, claim(exactly(), constraints=[constraint])) == []


@pytest.mark.parametrize(
    ("request_", "wrong"),
    [
        (exactly(count=-1), "spec.devices.requests[0].exactly.count"),
        (exactly(allocationMode="All", count=1), "spec.devices.requests[0].exactly.count"),
        (exactly(allocationMode="Some"), "spec.devices.requests[0].exactly.allocationMode"),
        (exactly(selectors=[{}]), "spec.devices.requests[0].exactly.selectors[0].cel"),
        ({"name": "g"}, "spec.devices.requests[0]"),
        ({"name": "g", "exactly": {}}, "spec.devices.requests[0].exactly.deviceClassName"),
        (exactly("G"), "spec.devices.requests[0].name"),
    ],
)
def test_a_wrong_request_is_refused(request_: Json, wrong: str) -> None:
    """A wrong request is refused."""
    errors = rules(CLAIM).validate_create(claim(request_))
    assert [error.field for error in errors] == [wrong]


def test_requests_have_different_names() -> None:
    """Requests have different names."""
    assert problems(CLAIM, claim(exactly(), exactly())) == [
        'spec.devices.requests[1]: Duplicate value: "g"'
    ]


def test_a_constraint_is_about_requests_of_the_claim() -> None:
    """A constraint is about requests of the claim."""
    constraint = {"requests": ["other"], "matchAttribute": "gpu.example.com/numa"}
    (error,) = rules(CLAIM).validate_create(claim(exactly(), constraints=[constraint]))
    assert error.field == "spec.devices.constraints[0].requests[0]"


def test_what_a_claim_asks_for_does_not_change() -> None:
    """What a claim asks for does not change."""
    old, new = claim(exactly()), claim(exactly("h"))
    (error,) = rules(CLAIM).validate_update(new, old)
    assert (error.field, error.detail) == ("spec", "field is immutable")


def test_a_claim_is_reserved_once_it_is_allocated() -> None:
    """A claim is reserved once it is allocated."""
    new = claim(exactly())
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    new["status"] = {"reservedFor": [consumer]}
    (error,) = rules(CLAIM).validate_update(new, claim(exactly()), subresource="status")
    assert error.field == "status.reservedFor"
    result = {"request": "g", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    new["status"]["allocation"] = {"devices": {"results": [result]}}
    assert rules(CLAIM).validate_update(new, claim(exactly()), subresource="status") == []


def test_an_allocation_is_for_requests_of_the_claim() -> None:
    """An allocation is for requests of the claim."""
    new = claim(exactly())
    result = {"request": "x", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    new["status"] = {"allocation": {"devices": {"results": [result]}}}
    (error,) = rules(CLAIM).validate_update(new, claim(exactly()), subresource="status")
    assert error.field == "status.allocation.devices.results[0].request"


def test_a_slice_says_in_one_way_where_its_devices_are() -> None:
    """A slice says in one way where its devices are."""
    assert problems(SLICE, slice_of(nodeName="n")) == []
    assert [error.field for error in rules(SLICE).validate_create(slice_of())] == ["spec"]
    both = slice_of(nodeName="n", allNodes=True)
    assert [error.field for error in rules(SLICE).validate_create(both)] == ["spec"]


@pytest.mark.parametrize(
    ("attributes", "wrong"),
    [
        ({"model": {}}, "attributes[model]"),
        ({"model": {"int": 1, "bool": True}}, "attributes[model]"),
        ({"model": {"version": "1.2"}}, "attributes[model].version"),
        ({"model": {"string": "x" * 65}}, "attributes[model].string"),
        ({"a-b": {"int": 1}}, "attributes[a-b]"),
    ],
)
def test_an_attribute_has_a_name_and_one_value(attributes: Json, wrong: str) -> None:
    """An attribute has a name and one value."""
    device = {"name": "d", "attributes": attributes}
    errors = rules(SLICE).validate_create(slice_of(device, nodeName="n"))
    assert [error.field for error in errors] == [f"spec.devices[0].{wrong}"]


def test_changes_of_slices_and_classes_are_counted() -> None:
    """Changes of slices and classes are counted."""
    for gvk, obj in ((SLICE, slice_of(nodeName="n")), (CLASS, {"metadata": {"name": "c"}})):
        old = rules(gvk).prepare_create(obj)
        assert old["metadata"]["generation"] == 1
        new = rules(gvk).prepare_update(old | {"spec": {"config": []}}, old)
        assert new["metadata"]["generation"] == 2


def test_fields_of_features_that_are_off_are_dropped() -> None:
    """Fields of features that are off are dropped."""
    device = {"name": "d", "taints": [{"key": "k", "effect": "NoSchedule"}]}
    kept = rules(SLICE).prepare_create(slice_of(device, nodeName="n"))
    assert kept["spec"]["devices"] == [{"name": "d"}]


def taint_rule(taint: Json, **selector: str) -> Json:
    """Return a rule for the devices that *selector* names."""
    return {"metadata": {"name": "r"}, "spec": {"taint": taint, "deviceSelector": selector}}


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        (taint_rule({"key": "broken", "effect": "NoExecute"}), []),
        (taint_rule({"key": "a.example/b", "value": "c", "effect": "None"}, pool="p/q"), []),
        (taint_rule({"key": "", "effect": "NoExecute"}), ["spec.taint.key"]),
        (taint_rule({"key": "a"}), ["spec.taint.effect"]),
        (taint_rule({"key": "a", "effect": "PreferNoSchedule"}), ["spec.taint.effect"]),
        (taint_rule({"key": "a", "value": "!", "effect": "None"}), ["spec.taint.value"]),
        (
            taint_rule({"key": "a", "effect": "None"}, driver="_", pool="", device="D"),
            [f"spec.deviceSelector.{field}" for field in ("driver", "pool", "device")],
        ),
    ],
)
def test_a_taint_rule_names_a_taint_and_devices(rule: Json, wrong: list[str]) -> None:
    """As kube-apiserver 1.37 checks them."""
    found = {error.field for error in rules(RULE).validate_create(rule)}
    assert sorted(found) == sorted(wrong)


async def test_taint_rules_are_served_as_by_a_server_of_1_37() -> None:
    """A kube-scheduler of that version does nothing before it has listed them."""
    rules: Resource[dict[str, Any]] = Resource(
        group=RULE.group,
        version=RULE.version,
        plural="devicetaintrules",
        kind=RULE.kind,
        namespaced=False,
        object_type=dict,
    )
    async with Client(InProcess(ApiServer()), rate=0) as client:
        sent = {**taint_rule({"key": "a", "effect": "None"}), "status": {"conditions": []}}
        made = await client.create(rules, sent)
        assert made["spec"]["taint"]["timeAdded"] == made["metadata"]["creationTimestamp"]
        assert made["metadata"]["generation"] == 1
        made["spec"]["taint"]["effect"] = "NoExecute"
        changed = await client.update(rules, made)
        assert changed["metadata"]["generation"] == 2
        with pytest.raises(Invalid, match=r"metadata\.resourceVersion"):
            await client.update(rules, {**sent, "metadata": {"name": "r"}})
        assert await client.delete(rules, "r") is None
        listed = await client.request(Request(method="GET", path="/apis/resource.k8s.io/v1"))
        assert b"devicetaintrules" not in listed.body, "the server is one of 1.35"
