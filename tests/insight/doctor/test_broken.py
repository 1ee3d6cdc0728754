"""Clusters that are broken in one way each: the doctor finds that, and nothing else."""

from __future__ import annotations

import pytest
from tests.annexes.contributions import contributed
from tests.insight.doctor import (  # noqa: F401 - they hold cases
    claim_cases,
    gang_cases,
    kubelet_cases,
    node_cases,
    placement_cases,
    pod_cases,
    report_cases,
    scheduler_cases,
)
from tests.insight.doctor.breaking import CASES, Break
from tests.insight.doctor.documents import healthy

from numakube.insight.doctor.all_checks import RULES


@pytest.mark.parametrize("break_it", CASES.values(), ids=CASES)
def test_what_is_broken_is_found_and_nothing_else(break_it: Break) -> None:
    """With the object, what was seen there, and what to do about it."""
    world = healthy()
    expected = break_it(world)

    found = {entry.rule.id: entry.findings for entry in world.diagnosis().entries}

    assert set(found) == set(expected)
    for rule, words in expected.items():
        told = "\n".join(
            f"{finding.subject.kind} {finding.subject.key} {finding.subject.field}: "
            f"{finding.detail}\n{finding.remedy}"
            for finding in found[rule]
        )
        for word in words:
            assert word in told


def test_every_rule_is_broken_by_some_case() -> None:
    """A rule that no test breaks may never speak up; annexes may break theirs in own tests."""
    broken: set[str] = {rule for some in contributed("BREAKS") for rule in some}
    for break_it in CASES.values():
        broken |= set(break_it(healthy()))
    assert broken == {rule.id for rule in RULES}


def test_a_healthy_cluster_has_no_findings() -> None:
    """Not even notes."""
    assert healthy().diagnosis().entries == ()


def test_a_healthy_cluster_with_devices_of_a_driver_has_no_findings() -> None:
    """Pods with claims of their own and of templates among them."""
    world = healthy()
    claim_cases.with_devices(world)
    world.others["resourceclaims"].append(claim_cases.claim("mine", device="gpu-0"))
    world.pods.append(claim_cases.claiming("web", resourceClaimName="mine"))
    assert world.diagnosis().entries == ()
