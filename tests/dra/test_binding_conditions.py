"""Devices that a driver prepares before a pod may be bound."""

from __future__ import annotations

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.binding_conditions import failed_condition, is_ready


@pytest.mark.parametrize(
    ("conditions", "ready", "failure"),
    [
        (None, False, ""),
        ([], False, ""),
        ([("wired", "True")], False, ""),
        ([("wired", "True"), ("powered", "False")], False, ""),
        ([("wired", "True"), ("powered", "True")], True, ""),
        (
            [("wired", "True"), ("powered", "True"), ("burnt", "True")],
            False,
            'device binding failed: claim=c, reason=Smoke, message="it \\"smells\\""',
        ),
        ([("wired", "True"), ("powered", "True"), ("burnt", "False")], True, ""),
    ],
)
def test_a_claim_is_ready_when_all_conditions_of_its_devices_hold(
    conditions: list[tuple[str, str]] | None,
    ready: bool,
    failure: str,
) -> None:
    """And none that means failure; a driver that has said nothing yet is waited for."""
    device = {"driver": "d", "pool": "n1", "device": "a"}
    result = {
        **device,
        "request": "r",
        "bindingConditions": ["wired", "powered"],
        "bindingFailureConditions": ["burnt"],
    }
    told = [
        {"type": kind, "status": status, "reason": "Smoke", "message": 'it "smells"'}
        for kind, status in conditions or ()
    ]
    status = {
        "allocation": {"devices": {"results": [result]}},
        "devices": [] if conditions is None else [{**device, "conditions": told}],
    }
    claim = convert(ResourceClaim, {"metadata": {"name": "c"}, "status": status})
    assert (is_ready(claim), failed_condition(claim)) == (ready, failure)
