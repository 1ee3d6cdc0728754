"""Are gangs that have all the pods they need tried?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.waiting_gangs import untried_gangs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts

UNTRIED: Final = Rule(
    id="NUMA-GANG-UNTRIED",
    severity=Severity.ERROR,
    title="Gangs have all the pods they need, and no scheduler tries them",
    why=(
        "Their scheduler does not run, or it holds pods back although nothing is missing any more,"
        " which is a bug: numakube_gangs with the state overlooked is above 0 then."
    ),
    fix=(
        "kubectl numa debug queue   # is the scheduler there, and what holds the pods back?\n"
        "# a scheduler that is restarted reads everything again; please report it with a bundle\n"
        "kubectl numa bundle"
    ),
)

RULES: Final = (UNTRIED,)


def check_untried(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for gangs of our schedulers that are complete and wait."""
    schedulers = numa_schedulers(facts)
    for gang in untried_gangs(facts):
        if gang.members[0].scheduler_name in schedulers:
            _, namespace, name = gang.key
            subject = FindingSubject("PodGroup", name, namespace)
            yield Finding(rule=UNTRIED, subject=subject, detail=gang.words, fix=UNTRIED.fix)


CHECKS: Final = (check_untried,)
