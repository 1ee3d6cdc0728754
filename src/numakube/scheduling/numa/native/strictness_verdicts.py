"""What a pod's strictness makes of a node, before anything is counted.

A node without a usable report, and one whose kubelet has a weaker policy than the pod asks for,
promise less than the pod wants. They are refused, rated below all others, or taken as they are, as
`numakube.api.strictness` says. A machine with one zone keeps every promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.strictness import Leniency
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.alignment_rejection import Kind, Rejection
from numakube.scheduling.numa.native.device_closeness import unconnected

if TYPE_CHECKING:
    from numakube.api.strictness import Strictness
    from numakube.scheduling.numa.native.node_counts import Rules

UNKNOWN_SCORE: Final = MAX_NODE_SCORE // 2
"""Of nodes without data that are as good as others: neither well nor badly aligned."""


def broken_promise(asked: Strictness, rules: Rules | None) -> Rejection | None:
    """Return why a node with *rules*, or without data, is refused; ``None`` if it is not."""
    if asked.mistakes:
        return Rejection(kind=Kind.ANNOTATION, reason="; ".join(asked.mistakes), hopeless=True)
    if asked.closeness is not None and (rules is None or not rules.connected):
        return unconnected(asked.closeness)
    if rules is None:
        refused = asked.missing_data is Leniency.REFUSE
        return Rejection(kind=Kind.MISSING_DATA, hopeless=True) if refused else None
    if asked.weaker_policy is Leniency.REFUSE and is_weaker(asked, rules):
        reason = f"{rules.policy} is weaker than {asked.required_policy}"
        return Rejection(kind=Kind.WEAKER_POLICY, policy=rules.policy, reason=reason, hopeless=True)
    return None


def promised_score(asked: Strictness, rules: Rules | None) -> int | None:
    """Return the score of a node that promises less; ``None`` if its placement decides."""
    if rules is None:
        return UNKNOWN_SCORE if asked.missing_data is Leniency.ALLOW else 0
    lenient = asked.weaker_policy is Leniency.ALLOW
    return 0 if not lenient and is_weaker(asked, rules) else None


def is_weaker(asked: Strictness, rules: Rules) -> bool:
    """Tell whether the kubelet's policy is weaker than the pod asks for."""
    return rules.zones > 1 and rules.policy.code < asked.required_policy.code
