"""PCI functions, as a sysfs tree describes them: ids, class, driver, NUMA node, PF and VFs.

    bus = PciBus(Path("/sys"))
    for function in bus.read().functions:
        print(function.address, function.numa_node)

A function that cannot be read is reported with the reason and never keeps the others from being
read: functions come and go during a scan. Ids and class come from ``modalias``, as the SR-IOV
network device plugin takes them. Device files that belong to a function are those of its VFIO
group, of UIO, and whatever its driver made.

Single files, links and folders of sysfs may vanish at any moment. Whatever cannot be read is
``None`` or empty (`text_of`, `number_of`, `target_of`, `names_in`); who asks decides what that
means. A tree that is a copy, or that a test has made, reads the same.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.node.bounded_files import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


DEVICES: Final = "bus/pci/devices"
NETWORK: Final = "02"
DISPLAY: Final = "03"
BRIDGE: Final = "06"
ACCELERATOR: Final = "12"

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
# pci:vVVVVVVVVdDDDDDDDDsvSSSSSSSSsdTTTTTTTTbcCCscSSiPP
_MODALIAS: Final = re.compile(
    r"pci:v[0-9a-f]{4}(?P<vendor>[0-9a-f]{4})d[0-9a-f]{4}(?P<device>[0-9a-f]{4})"
    r"sv[0-9a-f]{8}sd[0-9a-f]{8}bc(?P<base>[0-9a-f]{2})sc(?P<sub>[0-9a-f]{2})i(?P<interface>[0-9a-f]{2})",
    re.IGNORECASE,
)
_VIRTUAL: Final = re.compile(r"virtfn([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PciFunction:
    """One PCI function.

    Attributes:
        address: domain, bus, device and function, such as ``0000:3b:01.0``.
        vendor: four hexadecimal digits, lower case.
        device: likewise.
        class_code: base class, subclass and programming interface: six digits.
        driver: the name of its driver; empty if it has none.
        numa_node: ``None`` if the kernel knows none (-1), or does not say.
        acpi_index: the index that the firmware gives it; empty if it gives none.
        is_physical: whether it can have virtual functions.
        vf_count: how many virtual functions are enabled.
        pf: the address of its physical function; empty if it is not a virtual one.
        vf_index: its number among the virtual functions of that; ``None`` if not known.
        interfaces: its network interfaces on this host, in order of their names.
    """

    address: str
    vendor: str
    device: str
    class_code: str
    driver: str = ""
    numa_node: int | None = None
    acpi_index: str = ""
    is_physical: bool = False
    vf_count: int = 0
    pf: str = ""
    vf_index: int | None = None
    interfaces: tuple[str, ...] = ()

    @property
    def base_class(self) -> str:
        """The first two digits of the class."""
        return self.class_code[:2]


@dataclass(frozen=True, slots=True)
class UnreadableFunction:
    """A function that is left out, and why."""

    address: str
    why: str


@dataclass(frozen=True, slots=True)
class PciReading:
    """What is on the bus.

    Attributes:
        functions: in order of their addresses.
        unreadable: those that are left out.
        trouble: why the bus cannot be read at all; empty if it can.
    """

    functions: tuple[PciFunction, ...] = ()
    unreadable: tuple[UnreadableFunction, ...] = ()
    trouble: str = ""


def is_address(text: str) -> bool:
    """Tell whether *text* is the full address of a PCI function."""
    return _ADDRESS.fullmatch(text) is not None


def nearest_address(path: Path) -> str:
    """Return the PCI function that *path* really lies below; empty if none."""
    try:
        real = path.resolve(strict=True)
    except OSError:
        return ""
    return next((part for part in reversed(real.parts) if is_address(part)), "")


class PciBus:
    """The PCI bus of a sysfs tree."""

    def __init__(self, sysfs: Path) -> None:
        self.sysfs = sysfs
        self._folder = sysfs / DEVICES

    def folder(self, address: str) -> Path:
        """Return where a function is described."""
        return self._folder / address

    def read(self, *, is_wanted: Callable[[str], bool] = lambda _: True) -> PciReading:
        """Return all functions whose class code *is_wanted*."""
        try:
            addresses = sorted(entry.name for entry in self._folder.iterdir())
        except OSError as error:
            return PciReading(trouble=f"{self._folder}: {error.strerror}")
        functions: list[PciFunction] = []
        unreadable: list[UnreadableFunction] = []
        virtual: dict[str, Mapping[str, int]] = {}
        for address in addresses:
            try:
                found = self._read_one(address, is_wanted, virtual)
            except _CannotRead as problem:
                unreadable.append(UnreadableFunction(address, str(problem)))
            else:
                if found is not None:
                    functions.append(found)
        return PciReading(tuple(functions), tuple(unreadable))

    def virtual_functions(self, pf: str) -> Mapping[str, int]:
        """Return the numbers of a physical function's virtual ones by their addresses."""
        folder = self._folder / pf
        numbers = ((name, _VIRTUAL.fullmatch(name)) for name in names_in(folder))
        return {target_of(folder / name): int(match[1]) for name, match in numbers if match}

    def _read_one(
        self,
        address: str,
        is_wanted: Callable[[str], bool],
        virtual: dict[str, Mapping[str, int]],
    ) -> PciFunction | None:
        folder = self._folder / address
        alias = text_of(folder / "modalias")
        ids = None if alias is None else _MODALIAS.match(alias)
        if ids is None:
            why = "has no modalias" if alias is None else f"modalias {alias[:80]!r} makes no sense"
            raise _CannotRead(why)
        class_code = f"{ids['base']}{ids['sub']}{ids['interface']}".lower()
        if not is_wanted(class_code):
            return None
        pf = _pf_of(folder)
        if pf and pf not in virtual:
            virtual[pf] = self.virtual_functions(pf)
        numa_node = number_of(folder / "numa_node")
        return PciFunction(
            address=address,
            vendor=ids["vendor"].lower(),
            device=ids["device"].lower(),
            class_code=class_code,
            driver=target_of(folder / "driver"),
            numa_node=None if numa_node is None or numa_node < 0 else numa_node,
            acpi_index=_acpi_index_of(folder),
            # A virtual function has no virtual functions of its own: two reads less for each.
            is_physical=not pf and (folder / "sriov_totalvfs").exists(),
            vf_count=0 if pf else max(0, number_of(folder / "sriov_numvfs") or 0),
            pf=pf,
            vf_index=virtual[pf].get(address) if pf else None,
            interfaces=names_in(folder / "net"),
        )


class _CannotRead(Exception):
    """Why one function cannot be read."""


def _pf_of(folder: Path) -> str:
    """Return the address of the physical function that a virtual one belongs to."""
    try:
        return (folder / "physfn").readlink().name
    except FileNotFoundError:
        return ""
    except OSError as error:
        detail = "is not a link" if error.errno == errno.EINVAL else str(error.strerror)
        raise _CannotRead(f"physfn: {detail}") from None


def _acpi_index_of(folder: Path) -> str:
    try:
        return (folder / "acpi_index").read_bytes().decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _CannotRead(f"acpi_index: {error.strerror}") from None


def text_of(path: Path) -> str | None:
    """Return the text of a file without the newline at its end; ``None`` if it cannot be read."""
    try:
        return read_regular_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """Return the number that a file holds; ``None`` if it holds none."""
    text = text_of(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def target_of(path: Path) -> str:
    """Return the last part of what a link points to, which need not exist; empty if no link."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names in a folder in their order; none if it cannot be listed."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError:
        return ()


VFIO: Final = "/dev/vfio/vfio"
_NO_IOMMU: Final = "vfio-noiommu"


@dataclass(frozen=True, slots=True)
class VfioGroup:
    """The device file of a function's IOMMU group, where containers and where the host see it."""

    container_path: str
    host_path: str


def vfio_group(folder: Path) -> VfioGroup | None:
    """Return the group of the function described in *folder*; ``None`` if it has none."""
    link = folder / "iommu_group"
    try:
        if not link.is_symlink():
            return None
        group = link.resolve(strict=True)
    except OSError:
        return None
    path = f"/dev/vfio/{group.name}"
    if text_of(group / "name") == _NO_IOMMU:
        return VfioGroup(path, f"/dev/vfio/noiommu-{group.name}")
    return VfioGroup(path, path)


def uio_device(folder: Path) -> str:
    """Return the UIO device file of a function; empty if it has none."""
    names = names_in(folder / "uio")
    return f"/dev/{names[0]}" if names else ""


def driver_devices(folder: Path) -> tuple[str, ...]:
    """Return the device files that a function's driver made, such as those of a GPU.

    They are what has a number (``dev``) one step below the function's folder of a class, as in
    ``drm/renderD128``; the kernel tells the file's name in ``uevent``.
    """
    found = []
    for class_name in names_in(folder):
        # Other links lead out of the function: to its driver, its parent, its group.
        if (folder / class_name).is_symlink() or not (folder / class_name).is_dir():
            continue
        for name in names_in(folder / class_name):
            found += _node(folder / class_name / name)
    return tuple(found)


def _node(folder: Path) -> list[str]:
    if text_of(folder / "dev") is None:
        return []
    lines = (text_of(folder / "uevent") or "").splitlines()
    return [f"/dev/{line[8:]}" for line in lines if line.startswith("DEVNAME=")]
