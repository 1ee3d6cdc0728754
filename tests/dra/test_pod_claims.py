"""Devices that a driver prepares before a pod may be bound."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.pod_claims import (
    failed_condition,
    has_conditions,
    is_late,
    is_ready,
    without_user,
)


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


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "conditions", "late"),
    [
        ("2026-03-01T11:50:00Z", ["wired"], False),
        ("2026-03-01T11:49:59Z", ["wired"], True),
        ("2026-03-01T11:49:59Z", [], False),
        ("long ago", ["wired"], False),
        (None, ["wired"], False),
    ],
)
def test_a_driver_is_late_when_its_devices_have_had_longer_than_they_may(
    since: str | None, conditions: list[str], late: bool
) -> None:
    """Only if there are conditions, and if it is known since when."""
    device = {"driver": "d", "pool": "n1", "device": "a", "request": "r"}
    result = {**device, "bindingConditions": conditions}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": since}
    claim = convert(ResourceClaim, {"status": {"allocation": allocation}})
    assert is_late(claim, NOW, 600.0) is late
    assert has_conditions(claim) is bool(conditions)


def test_a_claim_without_an_allocation_is_neither_late_nor_ready() -> None:
    """Nothing was asked of a driver."""
    claim = convert(ResourceClaim, {"metadata": {"name": "c"}})
    assert not is_late(claim, NOW, 0.0)
    assert not is_ready(claim)
    assert failed_condition(claim) == ""
    assert not has_conditions(claim)


@pytest.mark.parametrize(
    ("users", "gone", "left", "keeps"),
    [
        (("p", "q"), "p", ["q"], True),
        (("p",), "p", [], False),
        (("p",), "x", ["p"], True),
        ((), "p", [], False),
    ],
)
def test_a_claim_without_users_gives_its_devices_back(
    users: tuple[str, ...], gone: str, left: list[str], *, keeps: bool
) -> None:
    """When its last pod is gone."""
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    status = {"reservedFor": reserved, "allocation": {"devices": {"results": []}}}
    after = without_user(convert(ResourceClaim, {"status": status}), gone)
    assert [user.uid for user in after.status.reserved_for] == left
    assert (after.status.allocation is not None) is keeps
