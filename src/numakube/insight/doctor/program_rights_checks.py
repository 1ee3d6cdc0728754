"""May our processes do what they have to?

Only what stops a process is asked for, not everything it can make use of. Rights come from roles
and bindings as the API server lists them; where these may not be read, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.insight.collected import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
)
from numakube.insight.deployed_programs import Deployed, ProgramRole, deployed
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity
from numakube.topology.report_update import promises_updates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts
    from numakube.insight.rbac import PolicyRule, RoleBinding

_EVERYTHING: Final = "*"
_TOPOLOGY: Final = "topology.node.k8s.io"
_UPDATES: Final = "topology.numakube.dev"
_COORDINATION: Final = "coordination.k8s.io"

MISSING: Final = Rule(
    id="NUMA-RBAC-MISSING",
    severity=Severity.WARNING,
    title="A process of ours lacks rights that it needs",
    why="Its requests are refused (403): it does not do its work, and its log says so.",
    fix="kubectl apply -f deploy/PROGRAM.yaml   # the roles of this version",
)

RULES: Final = (MISSING,)


class Right(NamedTuple):
    """One thing that a process does."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


def _rights(group: str, resource: str, *verbs: str) -> tuple[Right, ...]:
    return tuple(Right(group, resource, verb) for verb in verbs)


NEEDED: Final[dict[ProgramRole, tuple[Right, ...]]] = {
    ProgramRole.EXPORTER: (
        *_rights(_TOPOLOGY, "noderesourcetopologies", "get", "create", "patch"),
        *_rights(_UPDATES, "noderesourcetopologyupdates", "get", "create", "update"),
    ),
    ProgramRole.SCHEDULER: (
        *_rights("", "nodes", "list", "watch"),
        *_rights("", "pods", "list", "watch"),
        *_rights("", "pods/binding", "create"),
        *_rights("", "pods/status", "patch"),
        *_rights(_TOPOLOGY, "noderesourcetopologies", "list", "watch"),
        *_rights(_UPDATES, "noderesourcetopologyupdates", "list", "watch"),
        *_rights(_COORDINATION, "leases", "get", "create", "update"),
    ),
    ProgramRole.EXTENDER: (
        *_rights("", "nodes", "list", "watch"),
        *_rights("", "pods", "list", "watch"),
        *_rights("", "pods/binding", "create"),
        *_rights(_TOPOLOGY, "noderesourcetopologies", "list", "watch"),
        *_rights(_UPDATES, "noderesourcetopologyupdates", "list", "watch"),
    ),
    ProgramRole.GC: (
        *_rights("", "nodes", "list", "watch"),
        *_rights(_TOPOLOGY, "noderesourcetopologies", "list", "watch", "delete"),
    ),
}


def check_rights(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what every process of ours needs with what its account may do."""
    kinds = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    if not facts.role_bindings or any(facts.missing(kind) for kind in kinds):
        return
    for one in deployed(facts):
        if one.is_ours:
            yield from _account(facts, one)


def _account(facts: ClusterFacts, one: Deployed) -> Iterator[Finding]:
    account = one.workload.spec.template.spec.service_account_name or "default"
    granted = _granted(facts, one.namespace, account)
    needed = (right for right in NEEDED[one.program] if right.group != _UPDATES or _updates(facts))
    lacking = [right for right in needed if not _is_granted(right, granted)]
    if lacking:
        detail = f"{one.program} may not {', '.join(map(str, lacking))}"
        subject = FindingSubject("ServiceAccount", account, one.namespace)
        fix = MISSING.fix_for(PROGRAM=one.program.value)
        yield Finding(rule=MISSING, subject=subject, detail=detail, fix=fix)


def _updates(facts: ClusterFacts) -> bool:
    """Tell whether exporters write what changes to objects of their own."""
    return any(map(promises_updates, facts.topologies.values()))


def _granted(facts: ClusterFacts, namespace: str, account: str) -> list[PolicyRule]:
    """Return what the account may do in its own namespace; bindings elsewhere do not count."""
    roles = {(role.metadata.namespace, role.metadata.name): role for role in facts.roles}
    granted: list[PolicyRule] = []
    for binding in facts.role_bindings:
        if binding.metadata.namespace not in ("", namespace):
            continue
        if not _is_for(binding, namespace, account):
            continue
        where = binding.metadata.namespace if binding.role_ref.kind == "Role" else ""
        role = roles.get((where, binding.role_ref.name))
        granted += (role.rules or ()) if role is not None else ()
    return granted


def _is_for(binding: RoleBinding, namespace: str, account: str) -> bool:
    groups = {
        "system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}",
    }  # fmt: skip
    user = f"system:serviceaccount:{namespace}:{account}"
    return any(
        (
            subject.kind == "ServiceAccount"
            and (subject.namespace, subject.name) == (namespace, account)
        )
        or (subject.kind == "Group" and subject.name in groups)
        or (subject.kind == "User" and subject.name == user)
        for subject in binding.subjects or ()
    )


def _is_granted(right: Right, rules: list[PolicyRule]) -> bool:
    """Tell whether *rules* allow *right*; that a rule names single objects is let pass."""
    return any(
        _has(rule.verbs, right.verb)
        and _has(rule.api_groups, right.group)
        and _has(rule.resources, right.resource)
        for rule in rules
    )


def _has(listed: tuple[str, ...], name: str) -> bool:
    return _EVERYTHING in listed or name in listed


CHECKS: Final = (check_rights,)
