"""Whether a selector takes a candidate, and if not, why.

The order of the checks is upstream's; the first that fails is the reason. One thing differs: of
several entries for one physical function, upstream sees the first only, while here all count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.sriov.config_types import PfPattern, Selector
    from numakube.apps.sriov.pci_discovery import Candidate
    from numakube.node.pci.vdpa import VdpaDevice


class SelectorFacts(Protocol):
    """What has to be looked up about a candidate."""

    def is_rdma(self, candidate: Candidate) -> bool:
        """Tell whether it can do RDMA."""
        ...

    def vdpa(self, candidate: Candidate) -> VdpaDevice | None:
        """Return its vDPA device."""
        ...

    def partition_key(self, candidate: Candidate) -> str:
        """Return its default partition key."""
        ...

    def ddp_profile(self, candidate: Candidate) -> str:
        """Return its DDP package."""
        ...


def refusal(selector: Selector, candidate: Candidate, facts: SelectorFacts) -> str:
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


def _simple(selector: Selector, candidate: Candidate, _: SelectorFacts) -> str:
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


def _physical(selector: Selector, candidate: Candidate, _: SelectorFacts) -> str:
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


def _link(selector: Selector, candidate: Candidate, facts: SelectorFacts) -> str:
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


def _rdma(selector: Selector, candidate: Candidate, facts: SelectorFacts) -> str:
    if not selector.is_rdma or facts.is_rdma(candidate):
        return ""
    return "it has no RDMA device (isRdma): are the RDMA modules loaded?"


def _vdpa(selector: Selector, candidate: Candidate, facts: SelectorFacts) -> str:
    if not selector.vdpa_type:
        return ""
    device = facts.vdpa(candidate)
    if device is None:
        return "it has no vDPA device (vdpaType)"
    if device.kind == selector.vdpa_type:
        return ""
    return f"its vDPA device {device.name} is not of type {selector.vdpa_type} (vdpaType)"


_Check: TypeAlias = Callable[["Selector", "Candidate", SelectorFacts], str]
_CHECKS: Final[tuple[_Check, ...]] = (_simple, _physical, _link, _rdma, _vdpa)
