"""What the kubelet's configuration tells its resource managers.

Policy names and option values stay texts here: a wrong one must fail with the kubelet's own words,
which the manager that reads it knows. `numakube.kubelet.kubelet_model.KubeletNode` raises
`KubeletStartError` for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from numakube.errors import KubeletStartError
from numakube.kubelet.feature_gates import gate_is_on
from numakube.kubelet.kubelet_versions import Maturity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.values.cpuset import CpuSet

_Value = TypeVar("_Value")

# Go's strconv.ParseBool.
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


# Of kubelets 1.38 (KEP-6007): without a strategy the weights have no effect either.
_STRATEGY = "numa-allocation-strategy"
_NO_STRATEGY = "none"
_WEIGHTS = "numa-score-weights"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The resource-manager part of a KubeletConfiguration, with the kubelet's defaults.

    Attributes:
        reserved_cpus: ``reservedSystemCPUs``; ``None`` when no list is given.
        reserved_cpu_milli: ``systemReserved.cpu + kubeReserved.cpu``; ``None`` when neither is set.
        reserved_memory: bytes reserved by NUMA node and memory type (``reservedMemory``).
        memory_reservation: what Node Allocatable reserves by memory type, which ``reserved_memory``
            must add up to; ``None`` leaves that unchecked.
        feature_gates: gates set explicitly; others have the default of the version.
    """

    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=_nothing)
    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=_nothing)
    reserved_cpus: CpuSet | None = None
    reserved_cpu_milli: int | None = None
    memory_policy: str = "None"
    reserved_memory: Mapping[int, Mapping[str, int]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    memory_reservation: Mapping[str, int] | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    def gate(self, name: str, release: tuple[int, int]) -> bool:
        """Tell whether a feature gate is on in a kubelet of *release*."""
        return gate_is_on(name, self.feature_gates, release)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGates:
    """Which levels of options may be used, and the kubelet's words when they may not."""

    alpha: bool
    beta: bool
    alpha_refusal: str
    beta_refusal: str
    unknown: str

    def check(self, name: str, available: Mapping[str, Maturity]) -> None:
        """Refuse option *name* if this version has not got it or its gate is off."""
        maturity = available.get(name)
        if maturity is None:
            raise KubeletStartError(self.unknown.format(name=name))
        if maturity is Maturity.ALPHA and not self.alpha:
            raise KubeletStartError(self.alpha_refusal.format(name=name))
        if maturity is Maturity.BETA and not self.beta:
            raise KubeletStartError(self.beta_refusal.format(name=name))


def read_options(
    options: Mapping[str, str],
    available: Mapping[str, Maturity],
    gates: OptionGates,
    readers: Mapping[str, Callable[[str, str], _Value]],
) -> dict[str, _Value]:
    """Return the parsed *options*, refusing what the kubelet would refuse."""
    result = {}
    for name, text in options.items():
        gates.check(name, available)
        result[name] = readers[name](name, text)
    return result


def unmodelled_option(settings: KubeletSettings, behaviour: Behaviour) -> str:
    """Return an option in force that the model does not know; empty if it knows all.

    A kubelet that is newer than the model may have more of them (1.38: which NUMA node of several
    that are equally good is taken, KEP-6007); what it decides then is not known.
    """
    if settings.topology_policy != "none":
        options = modelled(settings).topology_options
        unknown = options.keys() - behaviour.topology_options.keys()
        if unknown:
            return f"{min(unknown)}={options[min(unknown)]}"
    if settings.cpu_policy != "none":
        unknown = settings.cpu_options.keys() - behaviour.cpu_options.keys()
        if unknown:
            return f"{min(unknown)}={settings.cpu_options[min(unknown)]}"
    return ""


def modelled(settings: KubeletSettings) -> KubeletSettings:
    """Return *settings* without options that are newer than the model and have no effect."""
    options = settings.topology_options
    if options.get(_STRATEGY, _NO_STRATEGY) != _NO_STRATEGY:
        return settings
    kept = {name: text for name, text in options.items() if name not in (_STRATEGY, _WEIGHTS)}
    return replace(settings, topology_options=kept)


def is_true(text: str) -> bool:
    """Tell whether Go reads an option's text as true."""
    return text in _TRUE


def read_bool(name: str, text: str) -> bool:
    """Return the truth of an option's text as Go reads it."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise KubeletStartError(
        f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax'
    )
