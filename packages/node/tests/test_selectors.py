"""Which candidates a selector takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from numakube.node.pci.device_pools import DeviceSelectorSpec, parse_pattern, refusal
from numakube.node.pci.network_devices import VdpaDevice
from numakube.node.pci.pci_discovery import FoundFunction
from numakube.node.pci.pci_functions import PciFunction

HEX = st.text("0123456789abcdef", min_size=4, max_size=4)
NAMES = st.sampled_from(["ens1f0", "ens2f0", "ib0"])
ADDRESSES = st.sampled_from(["0000:3b:00.0", "0000:af:00.0"])


class Known:
    """Facts that are the same for all."""

    def is_rdma(self, candidate: FoundFunction) -> bool:
        """Tell by the driver."""
        return candidate.function.driver == "mlx5_core"

    def vdpa(self, candidate: FoundFunction) -> VdpaDevice | None:
        """Have one if it can do RDMA."""
        return VdpaDevice("vdpa0", "vhost") if self.is_rdma(candidate) else None

    def partition_key(self, _: FoundFunction) -> str:
        """Have the default."""
        return "0xffff"

    def ddp_profile(self, _: FoundFunction) -> str:
        """Have none."""
        return ""


@st.composite
def candidates(draw: st.DrawFn) -> FoundFunction:
    """Return virtual functions and functions of their own."""
    pf = draw(st.just("") | ADDRESSES)
    function = PciFunction(
        address="0000:01:00.0",
        vendor=draw(HEX),
        device=draw(HEX),
        class_code=draw(st.sampled_from(["020000", "030200", "120000"])),
        driver=draw(st.sampled_from(["iavf", "vfio-pci", "mlx5_core"])),
        acpi_index=draw(st.sampled_from(["", "7"])),
        pf=pf,
    )
    return FoundFunction(
        id=function.address,
        function=function,
        folder=Path(),
        pf_address=pf,
        pf_name=draw(NAMES) if pf else "",
        index=draw(st.integers(0, 63)) if pf else None,
        link_type=draw(st.sampled_from(["", "ether", "infiniband"])),
    )


def fitting(candidate: FoundFunction) -> DeviceSelectorSpec:
    """Return a selector of everything that a candidate has."""
    function = candidate.function
    spans = f"{candidate.index}-{candidate.index}"
    return DeviceSelectorSpec(
        vendors=("ffff", function.vendor),
        devices=(function.device,),
        classes=(function.class_code[:4],),
        drivers=(function.driver,),
        pci_addresses=(function.address,),
        acpi_indexes=(function.acpi_index,) if function.acpi_index else (),
        link_types=(candidate.link_type,) if candidate.link_type else (),
        pkeys=("0xffff",),
        pf_names=(parse_pattern(f"{candidate.pf_name.upper()}#{spans}"),)
        if candidate.pf_name
        else (),
        root_devices=(parse_pattern(candidate.pf_address),) if candidate.pf_address else (),
        is_rdma=function.driver == "mlx5_core",
    )


@given(candidates())
def test_a_selector_of_all_that_a_candidate_has_takes_it(candidate: FoundFunction) -> None:
    """And so does one that asks for nothing."""
    assert refusal(fitting(candidate), candidate, Known()) == ""
    assert refusal(DeviceSelectorSpec(), candidate, Known()) == ""


@given(candidates(), st.data())
def test_one_key_that_does_not_match_is_enough_and_is_named(
    candidate: FoundFunction, data: st.DataObject
) -> None:
    """Whatever the others say."""
    wrong: dict[str, tuple[str, Any]] = {
        "vendors": ("vendors", ("0000x",)),
        "devices": ("devices", ("0000x",)),
        "classes": ("classes", ("ff",)),
        "drivers": ("drivers", ("none",)),
        "pciAddresses": ("pci_addresses", ("0000:ff:00.0",)),
        "acpiIndexes": ("acpi_indexes", ("99",)),
        "auxTypes": ("aux_types", ("sf",)),
        "linkTypes": ("link_types", ("atm",)),
        "pfNames": ("pf_names", (parse_pattern("other"),)),
        "rootDevices": ("root_devices", (parse_pattern("0000:3b:00.0#64-99"),)),
        "pKeys": ("pkeys", ("0x8001",)),
        "ddpProfiles": ("ddp_profiles", ("GTP",)),
        "vdpaType": ("vdpa_type", "virtio"),
    }
    key = data.draw(st.sampled_from(sorted(wrong)))
    name, value = wrong[key]
    selector = replace(fitting(candidate), **{name: value})

    assert key in refusal(selector, candidate, Known())


@given(candidates(), st.lists(st.tuples(NAMES, st.integers(0, 63), st.integers(0, 63)), max_size=4))
def test_all_entries_for_one_physical_function_count(
    candidate: FoundFunction, entries: list[tuple[str, int, int]]
) -> None:
    """Not only the first, as upstream has it."""
    patterns = tuple(parse_pattern(f"{name}#{first}-{last}") for name, first, last in entries)

    taken = not refusal(DeviceSelectorSpec(pf_names=patterns), candidate, Known())

    index = candidate.index
    assert taken == (
        not entries
        or (
            index is not None
            and any(
                name == candidate.pf_name and first <= index <= last
                for name, first, last in entries
            )
        )
    )
