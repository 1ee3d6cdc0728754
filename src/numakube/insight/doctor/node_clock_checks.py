"""Do the clocks agree?

Kubelets renew the lease of their node every ten seconds, with the time of their own clock. All of
them together tell the time better than the reader's clock: their median is the cluster's
time, and each is judged by it. A clock that is behind looks like a lease that is not renewed,
but then the node would not be Ready for long: that is judged by the server's clock alone.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from numakube.insight.doctor.findings import (
    Finding,
    Rule,
    Severity,
    about_cluster,
    about_node,
)
from numakube.insight.object_ages import age_seconds
from numakube.values.display import age_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nodes import Node
    from numakube.insight.facts import ClusterFacts

_NODE_LEASES: Final = "kube-node-lease"
_AHEAD_SECONDS: Final = 20
_BEHIND_SECONDS: Final = 120
_HERE_SECONDS: Final = 90
_USUAL_AGE: Final = 5.0
_ENOUGH: Final = 3

NODE: Final = Rule(
    id="NUMA-CLOCK-NODE",
    severity=Severity.WARNING,
    title="The clock of a node is wrong",
    why=(
        "Ages of pods, leases and reports come out wrong: leaders are lost or doubled, and"
        " certificates are refused."
    ),
    fix="timedatectl status   # on the node; then systemctl restart chronyd",
)
HERE: Final = Rule(
    id="NUMA-CLOCK-HERE",
    severity=Severity.INFO,
    title="The clock of this machine and those of the nodes differ",
    why="Ages in this report are off by that much, except where leases could be compared.",
    fix="timedatectl status   # here",
)

RULES: Final = (NODE, HERE)


def lease_ages(facts: ClusterFacts) -> dict[str, float]:
    """Return how long ago, by the reader's clock, each Ready node renewed its lease."""
    ages = {}
    for lease in facts.leases:
        node = facts.nodes.get(lease.metadata.name)
        if lease.metadata.namespace != _NODE_LEASES or node is None or not _is_ready(node):
            continue
        age = age_seconds(facts, lease.spec.renew_time)
        if age is not None:
            ages[lease.metadata.name] = age
    return ages


def clock_offset(facts: ClusterFacts) -> float:
    """Return by how many seconds the reader's clock is behind the cluster's; 0 if unknown."""
    ages = lease_ages(facts)
    if len(ages) < _ENOUGH:
        return 0.0
    return _USUAL_AGE - median(ages.values())


def check_clocks(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the clocks of nodes with each other, and all of them with the reader's."""
    ages = lease_ages(facts)
    offset = clock_offset(facts)
    for name, age in ages.items():
        seconds = age + offset
        if seconds < -_AHEAD_SECONDS:
            detail = f"its lease was renewed {age_words(-seconds)} in the future"
            yield about_node(NODE, name, detail)
        elif seconds > _BEHIND_SECONDS:
            detail = f"it is Ready, yet its lease was renewed {age_words(seconds)} ago"
            yield about_node(NODE, name, detail)
    if abs(offset) > _HERE_SECONDS:
        direction = "behind" if offset > 0 else "ahead of"
        detail = f"the clock here is {age_words(abs(offset))} {direction} that of the nodes"
        yield about_cluster(HERE, detail)


def _is_ready(node: Node) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )


CHECKS: Final = (check_clocks,)
