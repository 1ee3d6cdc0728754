"""What could not be read: checks that rest on it said nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.collected import CONFIGZ, OTHER_KINDS, SCHEDULER
from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_cluster,
    about_node,
)
from numakube.insight.list_reading import ROLE, rights_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts
    from numakube.insight.list_reading import Unreadable

_ABSENT: Final = "does not have it"

FORBIDDEN: Final = Rule(
    id="NUMA-ACCESS-FORBIDDEN",
    severity=Severity.INFO,
    title="Something that checks depend on could not be read",
    why="Those checks have found nothing because they have seen nothing.",
    fix=(
        f"# as an administrator, who knows you as YOU; {ROLE} is a part of view:\n"
        "kubectl create clusterrolebinding numa-view --clusterrole=view --user=YOU"
    ),
)
_BEYOND_VIEW: Final = (
    "persistentvolumes",
    "priorityclasses.scheduling.k8s.io",
    "leases.coordination.k8s.io",
    *(f"{plural}.storage.k8s.io" for plural in ("storageclasses", "csinodes", "csidrivers")),
    *(f"{plural}.storage.k8s.io" for plural in ("volumeattachments", "csistoragecapacities")),
    *(f"{plural}.rbac.authorization.k8s.io" for plural in ("roles", "rolebindings")),
    *(f"{plural}.rbac.authorization.k8s.io" for plural in ("clusterroles", "clusterrolebindings")),
)
"""Kinds of every cluster that ``view`` leaves out; what a cluster may lack, `kubectl` refuses."""
SILENT: Final = Rule(
    id="NUMA-ACCESS-SCHEDULER",
    severity=Severity.INFO,
    title="A scheduler could not be asked",
    why="Nothing is said of its queue, its cache, and pods that came out otherwise than foreseen.",
    fix="kubectl numa debug queue   # says what is missing",
)
KUBELET: Final = Rule(
    id="NUMA-ACCESS-KUBELET",
    severity=Severity.INFO,
    title="The configuration of a kubelet could not be read",
    why="Its policies are taken from its report, if there is one; drift is not noticed.",
    fix=(
        "kubectl get --raw /api/v1/nodes/NODE/proxy/configz   # needs the right to get nodes/proxy"
    ),
)
MALFORMED: Final = Rule(
    id="NUMA-ACCESS-MALFORMED",
    severity=Severity.WARNING,
    title="An object cannot be read",
    why="We and the scheduler treat it as missing.",
    fix="kubectl get KIND OBJECT -o yaml   # the field that is named has a value of the wrong type",
)

PARTIAL: Final = Rule(
    id="NUMA-ACCESS-PARTIAL",
    severity=Severity.INFO,
    title="The file has some kinds of objects only",
    why="Checks that depend on others have found nothing because they have seen nothing.",
    fix="kubectl numa bundle   # reads all that checks depend on",
)

RULES: Final = (FORBIDDEN, KUBELET, SILENT, MALFORMED, PARTIAL)


def check_access(facts: ClusterFacts) -> Iterator[Finding]:
    """Tell of everything that could not be read; what the server does not have is no trouble."""
    yield from _lacking([fact for fact in facts.unreadable if fact.right and "/" not in fact.what])
    for fact in facts.unreadable:
        area, _, rest = fact.what.partition("/")
        if area == SCHEDULER:
            subject = FindingSubject("Pod" if rest else "Cluster", rest)
            yield Finding(rule=SILENT, subject=subject, detail=fact.why)
        elif area == CONFIGZ:
            node = rest.removesuffix(".json")
            yield about_node(KUBELET, node, fact.why, fix=KUBELET.fix_for(NODE=node))
        elif fact.what == OTHER_KINDS:
            yield about_cluster(PARTIAL, fact.why)
        elif " " not in fact.what:  # a whole kind; one object has its name after the kind's
            if _ABSENT not in fact.why and not fact.right:
                subject = FindingSubject("Cluster", "", field=fact.what)
                yield Finding(rule=FORBIDDEN, subject=subject, detail=f"{fact.what}: {fact.why}")
        else:
            kind, _, key = fact.what.partition(" ")
            namespace, _, name = key.rpartition("/")
            fix = MALFORMED.fix_for(KIND=kind, OBJECT=key)
            subject = FindingSubject(kind, name, namespace)
            yield Finding(rule=MALFORMED, subject=subject, detail=fact.why, fix=fix)


def _lacking(refused: list[Unreadable]) -> Iterator[Finding]:
    """Tell once of everything that the user may not read, with the rights to ask for."""
    if refused:
        detail = f"you may not (403): {rights_text(refused)}"
        kinds = [unreadable.right.removeprefix("list ") for unreadable in refused]
        beyond = ",".join(kind for kind in kinds if kind in _BEYOND_VIEW)
        more = (
            f"\nkubectl create clusterrole numa-reader --verb=get,list --resource={beyond}"
            "\nkubectl create clusterrolebinding numa-reader --clusterrole=numa-reader --user=YOU"
        )
        yield about_cluster(FORBIDDEN, detail, fix=FORBIDDEN.fix + (more if beyond else ""))


CHECKS: Final = (check_access,)
