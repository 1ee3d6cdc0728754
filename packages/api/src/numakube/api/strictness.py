"""How strict a scheduler is where a kubelet's decision cannot be foreseen, or need not align a pod.

A profile says it by arguments of its NUMA plugin, a pod by annotations, which count before them:

    topology.numakube.dev/missing-data: Refuse               # nodes without a usable report
    topology.numakube.dev/required-policy: single-numa-node  # what the pod asks of the kubelet
    topology.numakube.dev/weaker-policy: Refuse              # kubelets with a weaker policy

How close the pod's devices must be to each other, a pod alone can say:

    numakube.dev/closeness: same-switch                      # or same-root, same-numa
    numakube.dev/closeness-luck: Refuse                      # nodes where only luck makes them so

The discussion upstream is in scheduler-plugins #885 and its pull request 973.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

E = TypeVar("E", bound=StrEnum)

_DOMAIN: Final = "topology.numakube.dev/"
MISSING_DATA: Final = f"{_DOMAIN}missing-data"
REQUIRED_POLICY: Final = f"{_DOMAIN}required-policy"
WEAKER_POLICY: Final = f"{_DOMAIN}weaker-policy"
CLOSENESS: Final = "numakube.dev/closeness"
LUCK: Final = "numakube.dev/closeness-luck"
KEYS: Final = (MISSING_DATA, REQUIRED_POLICY, WEAKER_POLICY, CLOSENESS, LUCK)


class Leniency(StrEnum):
    """What is done about a node that does not promise what a pod wants."""

    ALLOW = "Allow"
    """It is as good as others."""
    DEPRIORITISE = "Deprioritise"
    """It is taken only if no other node is left."""
    REFUSE = "Refuse"
    """It is not taken."""


class RequiredCloseness(StrEnum):
    """What devices of different resources must have in common."""

    SAME_SWITCH = "same-switch"
    """PCIe switches: no host bridge is between them."""
    SAME_ROOT = "same-root"
    """The PCIe host bridge."""
    SAME_NUMA = "same-numa"
    """The NUMA node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """What is done about nodes that promise less than a pod wants.

    Attributes:
        missing_data: nodes without a usable report.
        required_policy: the policy that a kubelet should have at least; ``none`` asks for nothing.
        weaker_policy: nodes whose kubelet has a weaker one.
        closeness: how close the pod's devices must be to each other; ``None`` if it does not say.
        luck: nodes where they may be that close, or may not.
        mistakes: what a pod says and cannot be understood; it is placed nowhere then.
    """

    missing_data: Leniency = Leniency.DEPRIORITISE
    required_policy: TopologyPolicy = TopologyPolicy.NONE
    weaker_policy: Leniency = Leniency.DEPRIORITISE
    closeness: RequiredCloseness | None = None
    luck: Leniency = Leniency.DEPRIORITISE
    mistakes: tuple[str, ...] = ()


DEFAULT: Final = Strictness()


def strictness_of(annotations: Mapping[str, str], default: Strictness = DEFAULT) -> Strictness:
    """Return what a pod with *annotations* asks for; what it does not say is as in *default*."""
    mistakes: list[str] = []

    def word(key: str, kind: type[E], otherwise: E) -> E:
        text = annotations.get(key)
        if text is None:
            return otherwise
        if text not in tuple(kind):
            known = ", ".join(kind)
            mistakes.append(
                f"metadata.annotations[{key}]: unknown word {text!r}: use one of {known}"
            )
            return otherwise
        return kind(text)

    if annotations.keys().isdisjoint(KEYS):
        return default
    closeness = None
    if CLOSENESS in annotations:
        closeness = word(CLOSENESS, RequiredCloseness, RequiredCloseness.SAME_SWITCH)
    return Strictness(
        missing_data=word(MISSING_DATA, Leniency, default.missing_data),
        required_policy=word(REQUIRED_POLICY, TopologyPolicy, default.required_policy),
        weaker_policy=word(WEAKER_POLICY, Leniency, default.weaker_policy),
        closeness=closeness,
        luck=word(LUCK, Leniency, default.luck),
        mistakes=tuple(mistakes),
    )
