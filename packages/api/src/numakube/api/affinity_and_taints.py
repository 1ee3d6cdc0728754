"""Where a pod may run: node selectors, affinity, taints and tolerations, spreading.

The types, and what they mean for one node; `numakube.scheduling.matching` has the forms that judge
thousands of nodes at once. Follows Kubernetes 1.35 with its defaults: the toleration operators
``Lt`` and ``Gt`` (alpha) tolerate nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.codec import Timestamp, Wire
from numakube.api.meta import LabelSelector
from numakube.api.selectors import accepts

if TYPE_CHECKING:
    from numakube.api.pod import PodSpec
    from numakube.api.resource_claims import DeviceToleration
    from numakube.api.resource_slices import DeviceTaint

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a selector can ask for."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelectorRequirement(Wire, frozen=True):
    """``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt`` or ``Lt`` on a label or a field."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    """Requirements that must all hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True):
    """A term that adds its weight to the nodes it matches."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True):
    """Nodes that a pod must or would rather run on."""

    required: NodeSelector | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class PodAffinityTerm(Wire, frozen=True):
    """Pods in the same topology domain; no namespaces means those of the pod itself."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True):
    """A pod affinity term that adds its weight."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True):
    """Pods to run next to; as anti-affinity, pods to stay away from."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(default=(), name=_REQUIRED)
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(default=(), name=_PREFERRED)


class Affinity(Wire, frozen=True):
    """All three kinds of affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Taint(Wire, frozen=True):
    """Keeps pods away from a node unless they tolerate it."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class Toleration(Wire, frozen=True):
    """Taints that a pod tolerates; an empty key with ``Exists`` means all of them."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Wire, frozen=True):
    """How evenly pods are to be spread over topology domains."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


def tolerates(toleration: "Toleration | DeviceToleration", taint: "Taint | DeviceTaint") -> bool:
    """Tell whether *toleration* covers *taint*, of a node or of a device."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def allows_node(spec: "PodSpec", labels: Mapping[str, str], name: str) -> bool:
    """Tell whether the pod's node selector and required node affinity allow the node *name*."""
    if not spec.node_selector.items() <= labels.items():
        return False
    required = required_affinity(spec)
    if required is None:
        return True
    return any(_matches(term, labels, name) for term in required.node_selector_terms)


def required_affinity(spec: "PodSpec") -> NodeSelector | None:
    """Return the pod's required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity.required if affinity else None


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: name}
    return all(
        accepts(expression.operator, expression.values, labels.get(expression.key))
        for expression in term.match_expressions
    ) and all(
        accepts(field.operator, field.values, fields.get(field.key)) for field in term.match_fields
    )
