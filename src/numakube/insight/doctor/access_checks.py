"""What could not be read: checks that rest on it said nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.collected import CONFIGZ, SCHEDULER
from numakube.insight.doctor.finding import Finding, Rule, Severity, Subject, about_node
from numakube.values.names import dns_label_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts

_ABSENT: Final = "does not have it"
_REFUSED: Final = "not allowed"

FORBIDDEN: Final = Rule(
    id="NUMA-ACCESS-FORBIDDEN",
    severity=Severity.INFO,
    title="Something that checks rest on could not be read",
    why="Those checks have found nothing because they have seen nothing.",
    fix="kubectl auth can-i --list   # ask for get and list of what is named",
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
    why="It is as if it were not there, for us and for the scheduler.",
    fix="kubectl get KIND OBJECT -o yaml   # the field that is named has a value of the wrong type",
)

RULES: Final = (FORBIDDEN, KUBELET, MALFORMED)


def check_access(facts: ClusterFacts) -> Iterator[Finding]:
    """Tell of everything that could not be read; what the server does not have is no trouble."""
    for one in facts.unreadable:
        rest = one.what.partition("/")[2]
        if one.what.startswith(f"{CONFIGZ}/"):
            node = rest.removesuffix(".json")
            yield about_node(KUBELET, node, _brief(one.why), fix=KUBELET.fix_for(NODE=node))
        elif one.what.startswith(f"{SCHEDULER}/") or not dns_label_problems(one.what):
            if _ABSENT not in one.why:
                subject = Subject("Cluster", "", field=one.what)
                yield Finding(rule=FORBIDDEN, subject=subject, detail=f"{one.what}: {one.why}")
        else:
            kind, _, key = one.what.partition(" ")
            namespace, _, name = key.rpartition("/")
            fix = MALFORMED.fix_for(KIND=kind, OBJECT=key)
            subject = Subject(kind, name, namespace)
            yield Finding(rule=MALFORMED, subject=subject, detail=one.why, fix=fix)


def _brief(why: str) -> str:
    """Return the reason without the name of the node, so that equal ones are told once."""
    return "not allowed to get nodes/proxy" if why.startswith(_REFUSED) else why


CHECKS: Final = (check_access,)
