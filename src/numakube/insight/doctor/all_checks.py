"""All rules and checks, those of annexes among them, and running them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.annexes import Group, loaded
from numakube.api.pod import has_ended
from numakube.insight.doctor import (
    device_plugin_checks,
    gang_checks,
    kubelet_config_checks,
    machine_checks,
    node_clock_checks,
    node_version_checks,
    nrt_checks,
    nrt_pod_checks,
    pending_pod_checks,
    pod_spec_checks,
    program_checks,
    program_rights_checks,
    rejected_pod_checks,
    resource_claim_checks,
    resource_slice_checks,
    scheduler_name_checks,
    unreadable_checks,
)
from numakube.insight.doctor.findings import Check, Finding, Rule, Severity, about_cluster
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.insight.facts import ClusterFacts

BROKEN: Final = Rule(
    id="NUMA-DOCTOR-INCOMPLETE",
    severity=Severity.WARNING,
    title="A check could not be carried out",
    why="An object has a value that Kubernetes itself would refuse.",
    fix="kubectl numa bundle   # and report it, please",
)

AREAS: Final = {
    "Kubelets": kubelet_config_checks,
    "Machines": machine_checks,
    "Devices": device_plugin_checks,
    "Devices of DRA drivers": resource_slice_checks,
    "Resource claims": resource_claim_checks,
    "Reports": nrt_checks,
    "Freshness of reports": nrt_pod_checks,
    "Processes": program_checks,
    "Schedulers": scheduler_name_checks,
    "Pods": pod_spec_checks,
    "Room for pods": pending_pod_checks,
    "Gangs": gang_checks,
    "Rejections": rejected_pod_checks,
    "Nodes and versions": node_version_checks,
    "Clocks": node_clock_checks,
    "Rights": program_rights_checks,
    "Access": unreadable_checks,
    **loaded(Group.CHECKS),
}
RULES: Final[tuple[Rule, ...]] = (*(rule for area in AREAS.values() for rule in area.RULES), BROKEN)
CHECKS: Final[tuple[Check, ...]] = tuple(check for area in AREAS.values() for check in area.CHECKS)
PURPOSES: Final = {
    purpose: area for area in AREAS.values() for purpose in getattr(area, "PURPOSES", {})
}
"""What a cluster can be made ready for, and the area whose checks tell whether it is."""

_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}
_PLACES: Final = {rule.id: place for place, rule in enumerate(RULES)}


@dataclass(frozen=True, slots=True)
class Entry:
    """All findings of one rule.

    Attributes:
        findings: sorted by subject.
    """

    rule: Rule
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, the worst first.

    Attributes:
        nodes: how many nodes were looked at, and how many pods.
        waiting: how many of the pods have no node, which may be all right.
    """

    entries: tuple[Entry, ...]
    nodes: int
    pods: int
    waiting: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing but information."""
        return all(entry.rule.severity is Severity.INFO for entry in self.entries)

    def count(self, severity: Severity) -> int:
        """Return how many kinds of findings of *severity* there are."""
        return sum(entry.rule.severity is severity for entry in self.entries)


def diagnose(
    facts: ClusterFacts,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    node: str = "",
    purpose: str = "",
) -> Diagnosis:
    """Run the checks.

    Args:
        facts: what is known of the cluster.
        only: ids of rules, or the beginnings of ids, that are wanted; all if empty.
        skip: those that are not.
        node: tells what concerns this node only.
        purpose: tells whether the cluster is ready for this, and nothing else.
    """
    wanted = {rule.id for rule in RULES if _is_wanted(rule.id, only, skip)}
    found: dict[str, list[Finding]] = {}
    for finding in _findings(facts, _checks_for(purpose)):
        if finding.rule.id in wanted and node in ("", finding.node):
            found.setdefault(finding.rule.id, []).append(finding)
    entries = [
        Entry(findings[0].rule, tuple(sorted(findings, key=lambda one: one.subject)))
        for findings in found.values()
    ]
    entries.sort(key=lambda entry: (_ORDER[entry.rule.severity], _PLACES[entry.rule.id]))
    waiting = sum(not pod.spec.node_name and not has_ended(pod) for pod in facts.pods)
    return Diagnosis(tuple(entries), len(facts.nodes), len(facts.pods), waiting)


def unknown_rules(names: Sequence[str]) -> list[str]:
    """Return those of *names* that no rule begins with."""
    return [name for name in names if not any(_begins(rule.id, name) for rule in RULES)]


def _checks_for(purpose: str) -> tuple[Check, ...]:
    if not purpose:
        return CHECKS
    area = PURPOSES[purpose]
    return (*area.CHECKS, *area.PURPOSES[purpose])


def _findings(facts: ClusterFacts, checks: Sequence[Check]) -> list[Finding]:
    found: list[Finding] = []
    for check in checks:
        try:
            found += check(facts)
        except Exception as error:
            found.append(about_cluster(BROKEN, f"{check.__name__}: {reason_of(error)}"))
    return found


def _is_wanted(rule: str, only: Sequence[str], skip: Sequence[str]) -> bool:
    chosen = not only or any(_begins(rule, name) for name in only)
    return chosen and not any(_begins(rule, name) for name in skip)


def _begins(rule: str, name: str) -> bool:
    """Tell whether *name* is *rule* or its first words: ``numa-pod`` is every rule of pods."""
    name = name.upper()
    return rule == name or rule.startswith(f"{name}-")
