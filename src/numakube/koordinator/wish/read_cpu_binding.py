"""How the CPUs of a pod or a container are bound, as far as the pod has a say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_json import annotation, read_word
from numakube.koordinator.annotation_values import BindPolicy, CpuExclusive
from numakube.koordinator.wish.pod_wish import CpuWish
from numakube.kubelet.pod_demand import Role
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyScope

if TYPE_CHECKING:
    from numakube.api.koordinator.pod_annotations import ResourceSpec
    from numakube.koordinator.wish.pod_wish import PodWish
    from numakube.values.resources import Amounts

NOT_WHOLE: Final = "the requested CPUs must be integer"
_DEFAULT: Final = "Default"
_BURST: Final = "ConstrainedBurst"
"""A word of Koordinator's API behind which no behaviour stands: such pods are not bound."""


@dataclass(frozen=True, slots=True)
class CpuRule:
    """What `keys.RESOURCE_SPEC` says, words understood and defaults filled in."""

    required: BindPolicy = BindPolicy.NONE
    preferred: BindPolicy = BindPolicy.NONE
    exclusive: CpuExclusive = CpuExclusive.NONE

    def wish(self, requests: Amounts, *, may_bind: bool) -> CpuWish:
        """Return the wish of a pod or container with *requests*."""
        effective = self.required or self.preferred
        return CpuWish(
            bound=may_bind and effective is not BindPolicy.NONE and requests.get(CPU, 0) > 0,
            required=self.required,
            preferred=self.preferred,
            exclusive=self.exclusive,
        )


def read_cpu_rule(
    spec: ResourceSpec, key: str, default: BindPolicy, problems: list[str]
) -> CpuRule:
    """Return what *spec*, the annotation *key*, says; ``Default`` stands for *default*."""
    required = _bind_policy(
        spec.required_cpu_bind_policy, annotation(key, "requiredCPUBindPolicy"), default, problems
    )
    preferred = _bind_policy(
        spec.preferred_cpu_bind_policy or _DEFAULT,
        annotation(key, "preferredCPUBindPolicy"),
        default,
        problems,
    )
    if spec.required_cpu_bind_policy == _BURST:
        preferred = BindPolicy.NONE
    text = spec.preferred_cpu_exclusive_policy
    exclusive = read_word(
        CpuExclusive,
        "" if text == "None" else text,
        annotation(key, "preferredCPUExclusivePolicy"),
        problems,
        also=("None",),
    )
    return CpuRule(required, preferred, exclusive or CpuExclusive.NONE)


def _bind_policy(text: str, place: str, default: BindPolicy, problems: list[str]) -> BindPolicy:
    if text == _DEFAULT:
        return default
    if text == _BURST:
        return BindPolicy.NONE
    word = read_word(BindPolicy, text, place, problems, also=(_DEFAULT,))
    return word or BindPolicy.NONE


def fraction(wish: PodWish, scope: TopologyScope) -> str | None:
    """Return who, bound by its class, asks for a part of a CPU under *scope*, if anybody does.

    The empty text is the pod as a whole. Plain init containers that do so are not bound.
    """
    if scope is TopologyScope.POD:
        return "" if wish.cpus.bound and wish.requests.get(CPU, 0) % MILLI_PER_CPU else None
    for container in wish.containers:
        asked = container.requests.get(CPU, 0)
        if container.cpus.bound and not container.ignored and asked % MILLI_PER_CPU:
            return container.name
    return None


def is_bindable(role: Role, requests: Amounts) -> bool:
    """Tell whether a container may be bound at all: init containers only to whole CPUs."""
    return role is not Role.INIT or requests.get(CPU, 0) % MILLI_PER_CPU == 0
