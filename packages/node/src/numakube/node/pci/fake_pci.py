"""Writing the part of a sysfs tree that tells of PCI functions, for labs and tests.

    fake = FakePci(folder / "sys")
    fake.pf("0000:3b:00.0", interface="ens1f0", numa_node=0)
    fake.vfs("0000:3b:00.0", 8)
    fake.remove("0000:3b:01.7")

Folders stand where the kernel has links into ``/sys/devices``; everything else has the kernel's
form, with the newline at the end of every file.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Final

from numakube.node.pci.pci_functions import DEVICES, names_in, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ETHERNET: Final = 1
_FIRST_BUS: Final = 0x10
_FUNCTIONS: Final = 8
"""Functions that a PCI device can have."""


class FakePci:
    """A tree in the making; what is written again is replaced."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs = sysfs
        self._devices = sysfs / DEVICES
        self._devices.mkdir(parents=True, exist_ok=True)

    def folder(self, address: str) -> Path:
        """Return where a function is described."""
        return self._devices / address

    def function(
        self,
        address: str,
        *,
        vendor: str = "8086",
        device: str = "1592",
        class_code: str = "020000",
        driver: str = "ice",
        numa_node: int | None = None,
    ) -> Path:
        """Add a function; return its folder."""
        folder = self.folder(address)
        folder.mkdir(parents=True, exist_ok=True)
        base, sub, interface = class_code[:2], class_code[2:4], class_code[4:6]
        alias = (
            f"pci:v0000{vendor.upper()}d0000{device.upper()}sv00008086sd00000002"
            f"bc{base.upper()}sc{sub.upper()}i{interface.upper()}"
        )
        self.write(folder / "modalias", alias)
        self.write(folder / "vendor", f"0x{vendor}")
        self.write(folder / "device", f"0x{device}")
        self.write(folder / "class", f"0x{class_code}")
        if numa_node is not None:
            self.write(folder / "numa_node", str(numa_node))
        self.bind(address, driver)
        return folder

    def place(self, address: str, *above: str) -> None:
        """Put a function to come behind a host bridge, a root port, and ports of switches."""
        real = self.sysfs.joinpath("devices", *above, address)
        real.mkdir(parents=True, exist_ok=True)
        self._link(self.folder(address), f"../../../devices/{'/'.join(above)}/{address}")

    def bind(self, address: str, driver: str) -> None:
        """Bind a function to *driver*, or to none."""
        link = self.folder(address) / "driver"
        link.unlink(missing_ok=True)
        if driver:
            self._link(link, f"../../../../bus/pci/drivers/{driver}")
            (self.sysfs / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)

    def interface(
        self, address: str, name: str, *, link: int = _ETHERNET, operstate: str = "up"
    ) -> None:
        """Give a function a network interface."""
        folder = self.folder(address) / "net" / name
        folder.mkdir(parents=True, exist_ok=True)
        self.write(folder / "type", str(link))
        self.write(folder / "operstate", operstate)
        self._link(self.sysfs / "class/net" / name, f"../../{DEVICES}/{address}/net/{name}")

    def move_interfaces_away(self, address: str) -> None:
        """Let a function's interfaces go to the network namespace of a pod."""
        for name in names_in(self.folder(address) / "net"):
            shutil.rmtree(self.folder(address) / "net" / name)
            (self.sysfs / "class/net" / name).unlink(missing_ok=True)

    def pf(
        self,
        address: str,
        *,
        interface: str = "",
        driver: str = "ice",
        vendor: str = "8086",
        device: str = "1592",
        numa_node: int | None = None,
        total: int = 64,
    ) -> Path:
        """Add a physical function without virtual ones; return its folder."""
        folder = self.function(
            address, vendor=vendor, device=device, driver=driver, numa_node=numa_node
        )
        self.write(folder / "sriov_totalvfs", str(total))
        self.write(folder / "sriov_numvfs", "0")
        if interface:
            self.interface(address, interface)
        return folder

    def vfs(
        self,
        pf: str,
        count: int,
        *,
        driver: str = "iavf",
        device: str = "1889",
        interfaces: bool = True,
    ) -> list[str]:
        """Enable so many virtual functions of *pf*, and no more; return their addresses."""
        folder = self.folder(pf)
        for name in names_in(folder):
            if name.startswith("virtfn"):
                self.remove((folder / name).readlink().name)
                (folder / name).unlink()
        addresses = [vf_address(pf, number) for number in range(count)]
        for number, address in enumerate(addresses):
            self._vf(pf, address, number, driver=driver, device=device)
            if interfaces:
                parent = (names_in(folder / "net") or (pf,))[0]
                self.interface(address, f"{parent}v{number}")
        self.write(folder / "sriov_numvfs", str(count))
        return addresses

    def _vf(self, pf: str, address: str, number: int, *, driver: str, device: str) -> None:
        folder = self.folder(pf)
        node = text_of(folder / "numa_node")
        vendor = (text_of(folder / "vendor") or "0x8086")[2:]
        self.function(
            address,
            vendor=vendor,
            device=device,
            driver=driver,
            numa_node=None if node is None else int(node),
        )
        self._link(self.folder(address) / "physfn", f"../{pf}")
        self._link(folder / f"virtfn{number}", f"../{address}")

    def iommu_group(self, address: str, number: int, *, name: str = "") -> None:
        """Put a function into an IOMMU group."""
        group = self.sysfs / "kernel/iommu_groups" / str(number)
        group.mkdir(parents=True, exist_ok=True)
        if name:
            self.write(group / "name", name)
        target = f"../../../../kernel/iommu_groups/{number}"
        self._link(self.folder(address) / "iommu_group", target)

    def rdma(self, folder: Path, name: str, *, number: int, pkey: str = "0xffff") -> None:
        """Give the function described in *folder* an RDMA device with its character devices."""
        self.write(folder / "infiniband" / name / "ports/1/pkeys/0", pkey)
        for class_name, entry in (
            ("infiniband_verbs", f"uverbs{number}"),
            ("infiniband_mad", f"umad{number}"),
            ("infiniband_mad", f"issm{number}"),
        ):
            self.write(self.sysfs / "class" / class_name / entry / "ibdev", name)

    def vdpa(self, address: str, name: str, *, driver: str, number: int = 0) -> None:
        """Give a function a vDPA device."""
        folder = self.folder(address) / name
        (folder / f"vhost-vdpa-{number}").mkdir(parents=True, exist_ok=True)
        self._link(folder / "driver", f"../../../../../bus/vdpa/drivers/{driver}")
        self._link(self.sysfs / "bus/vdpa/devices" / name, f"../../../{DEVICES}/{address}/{name}")

    def subfunction(self, pf: str, name: str, *, number: int, interface: str) -> Path:
        """Give a physical function a subfunction; return its folder."""
        folder = self.folder(pf) / name
        (folder / "net" / interface).mkdir(parents=True, exist_ok=True)
        self.write(folder / "net" / interface / "type", str(_ETHERNET))
        self.write(folder / "sfnum", str(number))
        link = self.sysfs / "bus/auxiliary/devices" / name
        self._link(link, f"../../../{DEVICES}/{pf}/{name}")
        return folder

    def remove(self, address: str) -> None:
        """Take a function away."""
        for name in names_in(self.folder(address) / "net"):
            (self.sysfs / "class/net" / name).unlink(missing_ok=True)
        # At once, as the kernel does it: half of a function is never visible.
        gone = self.sysfs / f".gone-{address}"
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.folder(address).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def write(self, path: Path, text: str) -> None:
        """Write a file as the kernel would."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")

    def _link(self, link: Path, target: str) -> None:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def vf_address(pf: str, number: int) -> str:
    """Return an address for the virtual function *number* of *pf*, on the devices after its own."""
    bus, _, rest = pf.rpartition(":")
    device = int(rest.partition(".")[0], 16) + 1 + number // _FUNCTIONS
    return f"{bus}:{device:02x}.{number % _FUNCTIONS}"


def write_cards(sysfs: Path, numa_nodes: Iterable[int], *, virtual_functions: int) -> None:
    """Write a network card for each of *numa_nodes*, with that many virtual functions."""
    fake = FakePci(sysfs)
    for place, node in enumerate(numa_nodes):
        address = f"0000:{_FIRST_BUS + place:02x}:00.0"
        fake.pf(address, interface=f"ens{place}f0", numa_node=node, total=virtual_functions)
        fake.vfs(address, virtual_functions)
