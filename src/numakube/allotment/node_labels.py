"""What the owner of a node has set in its labels and annotations.

The words follow Koordinator; unknown ones mean none and are told, where Koordinator takes an
unknown policy for a real one that nothing implements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.allotment.spelling import annotation, label, read_json, read_policy_name, read_word
from numakube.allotment.words import BindPolicy, Strategy
from numakube.api.koordinator import keys
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Mapping

_BIND_WORDS: Final = {
    "": BindPolicy.NONE,
    "None": BindPolicy.NONE,
    "FullPCPUsOnly": BindPolicy.FULL_PCPUS,
    "SpreadByPCPUs": BindPolicy.SPREAD_BY_PCPUS,
}
_LARGEST_RATIO: Final = 1000.0
"""A larger one is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """What the labels say; what they do not say is none, or ``None``."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope | None = None
    bind: BindPolicy = BindPolicy.NONE
    strategy: Strategy | None = None


def read_labels(labels: Mapping[str, str], problems: list[str]) -> NodeLabels:
    """Return what the *labels* of a node say."""
    policy, bind = labels.get(keys.NODE_POLICY, ""), labels.get(keys.NODE_BIND_POLICY, "")
    scope, strategy = labels.get(keys.NODE_SCOPE), labels.get(keys.NODE_STRATEGY)
    if bind not in _BIND_WORDS:
        known = ", ".join(filter(None, _BIND_WORDS))
        place = label(keys.NODE_BIND_POLICY)
        problems.append(f"{place}: unknown word {bind!r}: use one of {known}")
    return NodeLabels(
        policy=read_policy_name(policy or "None", label(keys.NODE_POLICY), problems)
        or TopologyPolicy.NONE,
        scope=read_word(TopologyScope, scope, label(keys.NODE_SCOPE), problems) if scope else None,
        bind=_BIND_WORDS.get(bind, BindPolicy.NONE),
        strategy=read_word(Strategy, strategy, label(keys.NODE_STRATEGY), problems)
        if strategy
        else None,
    )


def read_ratios(annotations: Mapping[str, str], problems: list[str]) -> dict[str, float]:
    """Return the amplification ratios above 1; one that is no ratio counts as not set."""
    key = keys.NODE_AMPLIFICATION
    ratios = read_json(dict[str, float], annotations, key, problems) or {}
    for name, ratio in ratios.items():
        if not 1 <= ratio <= _LARGEST_RATIO:
            place = annotation(key, f"[{name}]")
            problems.append(f"{place}: {ratio} is not between 1 and {_LARGEST_RATIO:.0f}")
    return {name: ratio for name, ratio in ratios.items() if 1 < ratio <= _LARGEST_RATIO}
