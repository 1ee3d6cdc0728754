"""Where the process that asks runs: its CPUs, memory nodes and devices, as a container sees them.

CPUs and memory nodes are those that the kernel allows (``/proc/self/status``): what the kubelet
wrote into the container's control group. Where that file is missing the control group itself is
read. Devices are those that device plugins name in variables ``PCIDEVICE_*``, as the SR-IOV network
device plugin and ours do; sysfs says where a PCI device is, our plugin where a static one is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import ConfigError, InvalidValue
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

_STATUS: Final = "/proc/self/status"
_ALLOWED: Final = re.compile(r"^(?P<what>Cpus|Mems)_allowed_list:\s*(?P<list>\S*)$", re.MULTILINE)
_GROUP_FILES: Final = (
    ("/sys/fs/cgroup/cpuset.cpus.effective", "/sys/fs/cgroup/cpuset.mems.effective"),
    ("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "/sys/fs/cgroup/cpuset/cpuset.effective_mems"),
)
_NODES: Final = "/sys/devices/system/node"
_PCI: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DEVICES: Final = "PCIDEVICE_"
_INFO: Final = "_INFO"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDevice:
    """A device that was given to this container; without NUMA nodes if they are not known."""

    id: str
    variable: str
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlace:
    """Where this process runs.

    Attributes:
        cpus: those that it may use; ``cpu_nodes`` are their NUMA nodes.
        memory_nodes: NUMA nodes that its memory may come from.
        machine_nodes: all NUMA nodes of the machine that have memory.
    """

    cpus: CpuSet
    cpu_nodes: tuple[int, ...]
    memory_nodes: tuple[int, ...]
    machine_nodes: tuple[int, ...]
    devices: tuple[OwnDevice, ...] = ()

    @property
    def memory_is_bound(self) -> bool:
        """Whether memory comes from some NUMA nodes only."""
        return self.memory_nodes != self.machine_nodes or len(self.machine_nodes) == 1

    def misalignments(self, *, with_memory: bool = False) -> list[str]:
        """Return what is not on the one NUMA node where everything should be; empty if all is.

        Memory that is not bound counts only *with_memory*: without the Memory Manager's policy
        Static no kubelet binds any.
        """
        found = []
        if len(self.cpu_nodes) != 1:
            found.append(f"the CPUs {self.cpus} are on {on_nodes(self.cpu_nodes)}")
        if self.memory_is_bound and not set(self.memory_nodes) <= set(self.cpu_nodes):
            found.append(f"memory is on {on_nodes(self.memory_nodes)}")
        if with_memory and not self.memory_is_bound:
            found.append(f"memory may come from {on_nodes(self.memory_nodes)}")
        found += [
            f"the device {device.id} is on {on_nodes(device.numa_nodes)}"
            for device in self.devices
            if device.numa_nodes and not set(device.numa_nodes) & set(self.cpu_nodes)
        ]
        return found


def on_nodes(nodes: Iterable[int]) -> str:
    """Return NUMA nodes for people to read."""
    known = CpuSet.of(nodes)
    return f"NUMA node{'s' if len(known) > 1 else ''} {known}" if known else "no known NUMA node"


def read_own_place(locate: Callable[[str], Path], env: Mapping[str, str]) -> OwnPlace:
    """Return where this process runs.

    Args:
        locate: says where a path of the file system is.
        env: the environment.

    Raises:
        ConfigError: the kernel does not tell.
    """
    nodes = dict(_nodes(locate(_NODES)))
    if not nodes:
        raise ConfigError(f"{_NODES}: no NUMA nodes are seen here; is /sys mounted?")
    cpus, memory = _allowed(locate)
    online = CpuSet.of(cpu for known in nodes.values() for cpu in known)
    with_memory = tuple(node for node in nodes if _has_memory(locate, node))
    return OwnPlace(
        cpus=cpus & online,
        cpu_nodes=tuple(node for node, known in nodes.items() if known & cpus),
        memory_nodes=tuple(node for node in with_memory if node in memory),
        machine_nodes=with_memory,
        devices=tuple(_devices(locate, env)),
    )


def _nodes(folder: Path) -> Iterator[tuple[int, CpuSet]]:
    found = {int(path.name[4:]): path for path in folder.glob("node[0-9]*")}
    for node, path in sorted(found.items()):
        yield node, CpuSet.parse(_text(path / "cpulist") or "")


def _has_memory(locate: Callable[[str], Path], node: int) -> bool:
    total = re.search(r"MemTotal:\s*(\d+)", _text(locate(f"{_NODES}/node{node}/meminfo")) or "")
    return total is None or int(total[1]) > 0


def _allowed(locate: Callable[[str], Path]) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs and memory nodes that the kernel allows."""
    status = _text(locate(_STATUS)) or ""
    lists = {match["what"]: match["list"] for match in _ALLOWED.finditer(status)}
    places = [(lists.get("Cpus"), lists.get("Mems"))]
    places += [(_text(locate(cpus)), _text(locate(mems))) for cpus, mems in _GROUP_FILES]
    for cpus, memory in places:
        if cpus and memory:
            try:
                return CpuSet.parse(cpus), CpuSet.parse(memory)
            except InvalidValue as error:
                raise ConfigError(f"{_STATUS}: {error}") from None
    raise ConfigError(f"neither {_STATUS} nor a control group tells the CPUs of this process")


def _devices(locate: Callable[[str], Path], env: Mapping[str, str]) -> Iterator[OwnDevice]:
    for name, ids in sorted(env.items()):
        if not name.startswith(_DEVICES) or name.endswith(_INFO):
            continue
        told = _static_nodes(env.get(f"{name}{_INFO}", ""))
        for id_ in filter(None, ids.split(",")):
            nodes = _pci_node(locate, id_) if _PCI.fullmatch(id_) else told.get(id_, ())
            yield OwnDevice(id=id_, variable=name, numa_nodes=nodes)


def _pci_node(locate: Callable[[str], Path], address: str) -> tuple[int, ...]:
    text = _text(locate(f"/sys/bus/pci/devices/{address}/numa_node")) or ""
    return (int(text),) if text.isascii() and text.isdecimal() else ()


def _static_nodes(info: str) -> dict[str, tuple[int, ...]]:
    """Return what our device plugin says of static devices; nothing for the words of others."""
    try:
        known: dict[str, dict[str, Any]] = msgspec.json.decode(info, type=dict[str, dict[str, Any]])
        texts = {id_: one["static"]["numaNodes"] for id_, one in known.items() if "static" in one}
        return {id_: tuple(CpuSet.parse(text)) for id_, text in texts.items() if text}
    except (msgspec.DecodeError, LookupError, TypeError, InvalidValue):
        return {}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
