"""Pools of devices: what the configuration says of them, and which devices their selectors take.

The order of a selector's checks is upstream's; the first that fails is the reason. One thing
differs: of several entries for one physical function, upstream sees the first only, while here all
count.

``<PF>#<ranges>`` selects a physical function and some of its virtual ones: ``ens1f0#0,3-5``, both
ends included. Text is read from left to right, and what comes before a mistake counts; the rest
selects nothing. This is what the SR-IOV network device plugin does, which prints the mistake for
every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from numakube.errors import InvalidValue
from numakube.kubelet.preferred_allocation import Preference
from numakube.values.gotext import parse_integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.node.host_files import DeviceFile, HostMount
    from numakube.node.pci.network_devices import VdpaDevice
    from numakube.node.pci.pci_discovery import FoundFunction


EVERY_DEVICE: Final = "*"
"""The key of additional information that is for all devices."""


class DeviceType(StrEnum):
    """What a pool consists of; the first three are upstream's."""

    NETWORK = "netDevice"
    ACCELERATOR = "accelerator"
    AUXILIARY = "auxNetDevice"
    PCI = "pciDevice"
    STATIC = "staticDevice"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDevice:
    """A device that the configuration itself describes.

    Attributes:
        id: its name for the kubelet.
        numa_nodes: where it is; empty if it is nowhere in particular.
        healthy: whether it can be given out.
        nodes: device files for the container; they have to exist.
        mounts: paths for the container.
        envs: variables for the container.
    """

    id: str
    numa_nodes: tuple[int, ...] = ()
    healthy: bool = True
    nodes: tuple[DeviceFile, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A resource of the node.

    Attributes:
        prefix: the first part of the resource's name.
        name: the second part.
        check_link: whether devices of a physical function without a link are unhealthy; ``None``
            leaves it to the program's setting.
        additional_info: more information for containers, by PCI address or `EVERY_DEVICE`;
            ``None`` if the configuration says nothing.
        devices: the devices of a static pool.
    """

    prefix: str
    name: str
    type: DeviceType = DeviceType.NETWORK
    exclude_topology: bool = False
    selectors: tuple[DeviceSelectorSpec, ...] = ()
    additional_info: Mapping[str, Mapping[str, str]] | None = None
    preference: Preference = Preference.MOST_FREE
    check_link: bool | None = None
    devices: tuple[StaticDevice, ...] = ()

    @property
    def resource(self) -> str:
        """The full name, as pods ask for it."""
        return f"{self.prefix}/{self.name}"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something odd in the configuration that does not keep the rest from working.

    Attributes:
        where: the pool and key.
        what: what is odd.
        skipped: the pool is left out because of it.
    """

    where: str
    what: str
    skipped: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Config:
    """All pools that can be offered, and what is odd."""

    pools: tuple[PoolSpec, ...] = ()
    remarks: tuple[Remark, ...] = ()


_MARK: Final = "#"
_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class PfPattern:
    """A physical function by its name or address, and which of its functions are meant.

    Attributes:
        text: as it was written.
        key: name or address.
        spans: first and last number of each range; ``None`` means all functions.
        mistake: what is wrong with the text; empty if it is right.
    """

    text: str
    key: str
    spans: tuple[tuple[int, int], ...] | None = None
    mistake: str = ""

    def is_for(self, pf: str) -> bool:
        """Tell whether *pf* is meant, in whatever case."""
        return self.key.casefold() == pf.casefold()

    def selects(self, index: int | None) -> bool:
        """Tell whether the function of this number is meant; ``None`` has no number."""
        if self.spans is None:
            return True
        number = -1 if index is None else index
        return any(first <= number <= last for first, last in self.spans)


def parse_pattern(text: str) -> PfPattern:
    """Return the pattern that *text* stands for; it lists mistakes."""
    key, *rest = text.split(_MARK)
    if not rest:
        return PfPattern(text, key)
    if len(rest) > 1:
        return PfPattern(text, key, (), f"more than one {_MARK!r}")
    spans: list[tuple[int, int]] = []
    for item in rest[0].split(","):
        try:
            spans.append(_span(item))
        except InvalidValue as error:
            return PfPattern(text, key, tuple(spans), str(error))
    return PfPattern(text, key, tuple(spans))


def _span(item: str) -> tuple[int, int]:
    ends = item.split("-")
    if len(ends) > _PARTS:
        raise InvalidValue(f"{item!r} is not a range such as 0-3")
    try:
        numbers = [parse_integer(end) for end in ends]
    except InvalidValue:
        raise InvalidValue(f"{item!r} is not a number or a range such as 0-3") from None
    return numbers[0], numbers[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSelectorSpec:
    """What a device must be like: of every list that is not empty, one entry has to match."""

    vendors: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    pci_addresses: tuple[str, ...] = ()
    acpi_indexes: tuple[str, ...] = ()
    aux_types: tuple[str, ...] = ()
    pf_names: tuple[PfPattern, ...] = ()
    root_devices: tuple[PfPattern, ...] = ()
    link_types: tuple[str, ...] = ()
    ddp_profiles: tuple[str, ...] = ()
    pkeys: tuple[str, ...] = ()
    is_rdma: bool = False
    need_vhost_net: bool = False
    vdpa_type: str = ""


class SelectorFacts(Protocol):
    """What has to be looked up about a candidate."""

    def is_rdma(self, candidate: FoundFunction) -> bool:
        """Tell whether it can do RDMA."""
        ...

    def vdpa(self, candidate: FoundFunction) -> VdpaDevice | None:
        """Return its vDPA device."""
        ...

    def partition_key(self, candidate: FoundFunction) -> str:
        """Return its default partition key."""
        ...

    def ddp_profile(self, candidate: FoundFunction) -> str:
        """Return its DDP package."""
        ...


def refusal(selector: DeviceSelectorSpec, candidate: FoundFunction, facts: SelectorFacts) -> str:
    """Return why *selector* does not take *candidate*; empty if it does."""
    for check in _CHECKS:
        why = check(selector, candidate, facts)
        if why:
            return why
    return ""


def _missing(what: str, value: str, wanted: Sequence[str], key: str) -> str:
    if not wanted or value in wanted:
        return ""
    if not value:
        return f"it has no {what} ({key})"
    return f"{what} {value} is not among {key} {', '.join(wanted)}"


def _simple(selector: DeviceSelectorSpec, candidate: FoundFunction, _: SelectorFacts) -> str:
    function = candidate.function
    return (
        _missing("vendor", function.vendor, selector.vendors, "vendors")
        or _missing("device id", function.device, selector.devices, "devices")
        or _class(function.class_code, selector.classes)
        or _missing("driver", function.driver, selector.drivers, "drivers")
        or _missing("address", function.address, selector.pci_addresses, "pciAddresses")
        or _missing("ACPI index", function.acpi_index, selector.acpi_indexes, "acpiIndexes")
        or _missing("auxiliary type", candidate.aux_type, selector.aux_types, "auxTypes")
    )


def _class(code: str, wanted: Sequence[str]) -> str:
    if not wanted or code.startswith(tuple(wanted)):
        return ""
    return f"class {code} is not among classes {', '.join(wanted)}"


def _physical(selector: DeviceSelectorSpec, candidate: FoundFunction, _: SelectorFacts) -> str:
    return _pattern(
        selector.pf_names, candidate.pf_name, candidate.index, "name", "pfNames"
    ) or _pattern(
        selector.root_devices, candidate.pf_address, candidate.index, "address", "rootDevices"
    )


def _pattern(patterns: Sequence[PfPattern], pf: str, index: int | None, what: str, key: str) -> str:
    if not patterns:
        return ""
    if not pf:
        return f"the {what} of its physical function is not known ({key})"
    meant = [pattern for pattern in patterns if pattern.is_for(pf)]
    if not meant:
        texts = ", ".join(pattern.text for pattern in patterns)
        return f"physical function {pf} is not among {key} {texts}"
    if any(pattern.selects(index) for pattern in meant):
        return ""
    number = "without a number" if index is None else f"number {index}"
    return f"{number} of {pf} is not in {', '.join(pattern.text for pattern in meant)} ({key})"


def _link(selector: DeviceSelectorSpec, candidate: FoundFunction, facts: SelectorFacts) -> str:
    return (
        _missing("link type", candidate.link_type, selector.link_types, "linkTypes")
        or (
            _missing(
                "DDP profile", facts.ddp_profile(candidate), selector.ddp_profiles, "ddpProfiles"
            )
            if selector.ddp_profiles
            else ""
        )
        or (
            _missing("partition key", facts.partition_key(candidate), selector.pkeys, "pKeys")
            if selector.pkeys
            else ""
        )
    )


def _rdma(selector: DeviceSelectorSpec, candidate: FoundFunction, facts: SelectorFacts) -> str:
    if not selector.is_rdma or facts.is_rdma(candidate):
        return ""
    return "it has no RDMA device (isRdma): are the RDMA modules loaded?"


def _vdpa(selector: DeviceSelectorSpec, candidate: FoundFunction, facts: SelectorFacts) -> str:
    if not selector.vdpa_type:
        return ""
    device = facts.vdpa(candidate)
    if device is None:
        return "it has no vDPA device (vdpaType)"
    if device.kind == selector.vdpa_type:
        return ""
    return f"its vDPA device {device.name} is not of type {selector.vdpa_type} (vdpaType)"


_Check: TypeAlias = Callable[[DeviceSelectorSpec, "FoundFunction", SelectorFacts], str]
_CHECKS: Final[tuple[_Check, ...]] = (_simple, _physical, _link, _rdma, _vdpa)
