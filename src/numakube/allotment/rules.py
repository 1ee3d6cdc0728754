"""The rule that a pod is placed under on a node: who decides, how strictly, and what as one.

Precedence: the policy is the pod's, else the node label's, else the kubelet's; the scope is the
pod's, else the node label's, else the kubelet's, else ``pod``.
"""

from __future__ import annotations

from dataclasses import dataclass

from numakube.allotment.words import Arbiter, BindPolicy, Exclusive, Strategy
from numakube.values.topology_policy import TopologyPolicy, TopologyScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What holds for a pod on a node.

    Attributes:
        arbiter: with `Arbiter.NOBODY` there is nothing to align and no CPU to bind; with
            `Arbiter.KUBELET` the kubelet model decides, and nothing is allotted.
        policy_from: who says so, for people: ``pod``, ``node label``, ``kubelet`` or empty.
        scope_from: likewise, or ``default``.
        exclusive: ``Required`` if the pod sets a policy and says nothing else.
        bind: how CPUs are picked; `BindPolicy.NONE` if none are bound.
        bind_required: whether the pick must meet that policy.
        strategy: which NUMA nodes come first.
    """

    arbiter: Arbiter
    policy: TopologyPolicy = TopologyPolicy.NONE
    policy_from: str = ""
    scope: TopologyScope = TopologyScope.POD
    scope_from: str = "default"
    exclusive: Exclusive = Exclusive.NO
    bind: BindPolicy = BindPolicy.NONE
    bind_required: bool = False
    strategy: Strategy = Strategy.LEAST_ALLOCATED
