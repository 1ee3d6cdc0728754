"""Refusals read well and add up."""

from __future__ import annotations

import pytest

from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    Kind,
    closeness,
)

GIB = 1 << 30


def short(
    free: int, *, wanted: int = 8000, resource: str = "cpu", kind: Kind = Kind.ALIGN
) -> AlignmentRefusal:
    """A container that did not find enough of a resource."""
    return AlignmentRefusal(
        kind=kind,
        container="main",
        role=ContainerRole.APP,
        resource=resource,
        zones=(1,),
        wanted=wanted,
        free=free,
        policy="single-numa-node",
        scope="container",
    )


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (short(6000), "cannot align container (cpu: best zone has 6 of 8)"),
        (short(6500), "cannot align container (cpu: best zone has 6500m of 8)"),
        (
            short(12 * GIB, wanted=16 * GIB, resource="memory"),
            "cannot align container (memory: best zone has 12Gi of 16Gi)",
        ),
        (
            short(0, wanted=1, resource="vendor.example/gpu"),
            "cannot align container (vendor.example/gpu: best zone has 0 of 1)",
        ),
        (
            short(4000, kind=Kind.NODE),
            "cannot align container (cpu: all zones have 4 of 8)",
        ),
        (
            AlignmentRefusal(kind=Kind.ALIGN, resource="cpu", zones=(0, 1), wanted=4000, free=3000),
            "cannot align pod (cpu: best 2 zones have 3 of 4)",
        ),
        (
            AlignmentRefusal(kind=Kind.BLOCKED, reason="waits for a report"),
            "waits for a report",
        ),
        (
            AlignmentRefusal(kind=Kind.UNREPORTED, resource="memory"),
            "no zone reports memory",
        ),
    ],
)
def test_messages_are_short_and_in_human_units(refusal: AlignmentRefusal, message: str) -> None:
    """They say what, where and how much."""
    assert refusal.message == message


def test_refusals_that_differ_in_numbers_only_are_one_line() -> None:
    """The line has the numbers of the node that came closest."""
    refusals = [short(2000), short(6000), short(4000)]
    assert len({refusal.key for refusal in refusals}) == 1
    assert short(0, wanted=1, resource="a.b/gpu").key != refusals[0].key
    closest = min(refusals, key=closeness)
    assert (closest, closest.missing) == (refusals[1], 2000)
    line = AlignmentRefusalGroup(3, closest).message
    assert line == "3 cannot align container (cpu: best zone has 6 of 8)"
