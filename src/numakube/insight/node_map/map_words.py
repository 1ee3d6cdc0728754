"""The words of a drawing, the same in every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.insight.node_map.picture import PictureChange
from numakube.kubelet.machine import Closeness
from numakube.topology.numa_zones import Level, in_order
from numakube.values.cpuset import CpuSet
from numakube.values.display import (
    amount_text,
    brief_text,
    bytes_text,
    counted,
    short_name,
    zones_text,
)
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.insight.node_map.picture import (
        Amount,
        DrawnCpu,
        DrawnDevice,
        DrawnMemory,
        DrawnZone,
        Kubelet,
        MemoryPart,
        NodePicture,
        PodMark,
    )
    from numakube.kubelet.machine import DeviceTree, PciPath
    from numakube.topology.numa_zones import MachinePart


_DEEPEST: Final = 8
"""How far lines are indented: a machine has fewer levels, an odd object may have thousands."""
_CPU_SET: Final = "cpuset"
"""The attribute of nri-plugins' pools and containers that lists their CPUs."""


def machine_words(picture: NodePicture) -> list[str]:
    """Return how big the machine is, in a few phrases."""
    phrases = [counted(sum(len(zone.alike) or 1 for zone in picture.zones), "NUMA zone")]
    cores = sum(len(zone.cores) for zone in picture.zones)
    if cores:
        phrases.insert(0, counted(len(picture.sockets), "socket"))
        phrases.append(counted(cores, "core"))
        phrases.append(counted(sum(1 for _ in picture.cpus()), "CPU"))
    bars = [bar for zone in picture.zones for bar in zone.memory]
    if bars:
        phrases.append(f"{bytes_text(sum(bar.total_bytes for bar in bars))} memory")
    return phrases


def kubelet_words(kubelet: Kubelet) -> list[str]:
    """Return what the kubelet is configured with, as far as it is known."""
    phrases = []
    if kubelet.topology_policy:
        policy = f"Topology Manager {kubelet.topology_policy}"
        scope = f", {kubelet.topology_scope} scope" if kubelet.topology_scope else ""
        phrases.append(policy + scope + _options(kubelet.topology_options))
    if kubelet.cpu_policy:
        phrases.append(f"CPU Manager {kubelet.cpu_policy}{_options(kubelet.cpu_options)}")
    if kubelet.memory_policy:
        phrases.append(f"Memory Manager {kubelet.memory_policy}")
    if kubelet.version:
        phrases.append(f"kubelet {kubelet.version}")
    return phrases


def _options(options: Mapping[str, str]) -> str:
    # An option that is switched on is known by its name.
    words = [
        name if value == "true" else f"{name}={value}" for name, value in sorted(options.items())
    ]
    return f" ({', '.join(words)})" if words else ""


def data_words(picture: NodePicture) -> list[str]:
    """Return what a reader must know about the data."""
    words = []
    if not picture.exact:
        words.append(f"no exact data: {picture.why_not_exact}")
    if picture.stale:
        words.append(f"may be old: {picture.stale}")
    return [*words, *picture.notes]


def zone_title(zone: DrawnZone) -> str:
    """Return the name of a zone and of its socket."""
    return f"NUMA zones {CpuSet.of(zone.alike)}" if zone.alike else f"NUMA zone {zone.id}"


def within_words(zone: DrawnZone) -> str:
    """Return what a zone is part of, from the outside in."""
    return " / ".join(zone.within)


def hierarchy_words(picture: NodePicture) -> list[tuple[int, str]]:
    """Return a line for each part of the machine as its producer names it, with its depth."""
    return [
        (min(depth, _DEEPEST), " · ".join(_part_words(part)))
        for depth, part in in_order(picture.parts)
    ]


def _part_words(part: MachinePart) -> Iterator[str]:
    named = part.type.casefold() in part.name.casefold()
    yield part.name if named else f"{part.name} ({part.type})"
    if part.numa_id is not None:
        yield f"zone {part.numa_id}"
    for name, allocatable in part.allocatable.items():
        if part.level is not Level.CONTAINER:
            yield f"{resource_label(name)} {_free(name, part.available[name], allocatable)}"
    if cpus := part.attributes.get(_CPU_SET):
        yield f"cpuset {cpus}"


def switch_words(picture: NodePicture) -> list[str]:
    """Return a line for each PCIe switch with several devices: which they are, and who has them."""
    connections = connections_of(picture)
    if connections is None:
        return []
    return [
        ", ".join(f"{function.label}{_owned(picture, function)}" for function in group)
        for group in connections.switches()
    ]


def _owned(picture: NodePicture, function: Function) -> str:
    letters = "".join(picture.pods[owner].letter for owner in function.owners())
    return f" {letters}" if letters else ""


def cpus_free_words(picture: NodePicture, zone: DrawnZone) -> str:
    """Return how many CPUs can still be given out."""
    if picture.bare and zone.cores:
        return counted(len(zone.cpu_set), "CPU")
    cpus = [cpu for cpu in zone.cpus() if not cpu.reserved or cpu.owner is not None]
    if not cpus:
        return "no CPUs" if not zone.cores else "all reserved"
    return f"{sum(cpu.owner is None for cpu in cpus)} of {len(cpus)} free"


def memory_words(picture: NodePicture, bar: DrawnMemory) -> str:
    """Return how much memory is free."""
    if not bar.managed:
        return bytes_text(bar.total_bytes) + ("" if picture.bare else ", not managed")
    return f"{bytes_text(bar.free_bytes)} of {bytes_text(bar.total_bytes)} free"


def devices_free_words(picture: NodePicture, devices: Iterable[DrawnDevice]) -> str:
    """Return how many devices of one resource are free."""
    healthy = [device for device in devices if device.healthy]
    shared = sum(len(device.zones) > 1 for device in healthy)
    also = f", {shared} also near other zones" if shared else ""
    if picture.bare:
        return f"{len(healthy)}{also}"
    return f"{sum(device.is_free for device in healthy)} of {len(healthy)} free{also}"


def amount_words(amount: Amount) -> str:
    """Return how much of a resource is free, of how much."""
    return _free(amount.resource, amount.available, amount.allocatable)


def _free(resource: str, available: int, allocatable: int) -> str:
    return f"{amount_text(resource, available)} of {amount_text(resource, allocatable)} free"


def resource_label(resource: str) -> str:
    """Return how a resource is called in little space."""
    return "CPUs" if resource == CPU else short_name(resource)


def pod_words(pod: PodMark) -> list[str]:
    """Return what a pod holds, in phrases."""
    phrases = [zones_text(pod.zones)] if pod.zones else []
    if pod.cpus:
        phrases.append(f"CPU{'s' if len(pod.cpus) > 1 else ''} {pod.cpus}")
    phrases += [brief_text(*held) for held in (*pod.memory.items(), *pod.devices.items())]
    if pod.change is PictureChange.FREED:
        return [f"gone; held {phrases[0]}" if phrases else "gone", *phrases[1:]]
    return phrases


def cpu_words(picture: NodePicture, cpu: DrawnCpu) -> str:
    """Return what there is to say of one CPU."""
    if cpu.owner is not None:
        state = f"of {picture.owner_name(cpu.owner)}"
    else:
        state = "reserved for the system" if cpu.reserved else "free, in the shared pool"
    return f"CPU {cpu.id}: {state}{_was(cpu.was)}"


def device_words(picture: NodePicture, device: DrawnDevice) -> str:
    """Return what there is to say of one device."""
    state = f"of {', '.join(owner_names(picture, device))}" if device.owner is not None else "free"
    if device.blocked:
        state = "not available while others have parts of it"
    own = [claim for claim in device.claims if f"claim {claim}" not in state]
    if own:
        state += f" by claim {', '.join(own)}"
    if not device.healthy:
        state += f", {device.trouble or 'unhealthy'}"
    near = f", near {zones_text(device.zones)}" if device.zones else ", no NUMA node told"
    at = f", at {device.pci}" if device.pci else ""
    name = device.name if device.id else f"#{device.position}"
    return f"{device.resource} {name}: {state}{near}{at}{_was(device.was)}"


def owner_names(picture: NodePicture, device: DrawnDevice) -> list[str]:
    """Return the names of all pods that have a device."""
    owners = () if device.owner is None else (device.owner, *device.sharers)
    return [picture.owner_name(owner) for owner in owners]


def _was(name: str) -> str:
    return f" (was of {name})" if name else ""


def part_words(picture: NodePicture, bar: DrawnMemory, part: MemoryPart) -> str:
    """Return what there is to say of a part of a bar."""
    names = ", ".join(picture.owner_name(owner) for owner in part.owners)
    where = f", taken from {zones_text(part.zones)} together" if len(part.zones) > 1 else ""
    return f"{bar.kind}: {bytes_text(part.size_bytes)} of {names}{where}"


def description(picture: NodePicture) -> str:
    """Return in words what the drawing shows."""
    return ". ".join(_sentences(picture)) + "."


def _sentences(picture: NodePicture) -> Iterator[str]:
    yield ", ".join(machine_words(picture))
    yield from kubelet_words(picture.kubelet)
    yield from data_words(picture)
    for zone in picture.zones:
        facts = [f"CPUs {cpus_free_words(picture, zone)}"] if zone.cores else []
        facts += [f"{bar.kind} {memory_words(picture, bar)}" for bar in zone.memory]
        facts += [
            f"{resource_label(amount.resource)} {amount_words(amount)}" for amount in zone.amounts
        ]
        facts += [
            f"{short_name(resource)} {devices_free_words(picture, devices)}"
            for resource, devices in by_resource(zone.devices).items()
        ]
        yield f"{zone_title(zone)}: {', '.join(facts) or 'nothing to give out'}"
    for line in switch_words(picture):
        yield f"Behind one PCIe switch: {line}"
    for _, line in hierarchy_words(picture):
        yield line
    for pod in picture.pods:
        yield f"Pod {pod.name}: {', '.join(pod_words(pod))}"


def by_resource(devices: Iterable[DrawnDevice]) -> dict[str, list[DrawnDevice]]:
    """Return *devices* by resource."""
    groups: dict[str, list[DrawnDevice]] = {}
    for device in devices:
        groups.setdefault(device.resource, []).append(device)
    return groups


# How the devices of a node are connected, as rows and words: a matrix, and who shares a switch.
#
# The words are those of ``nvidia-smi topo -m``. Devices that are parts of one PCI function, such as
# the virtual functions of a network card, are one row.


UNKNOWN: Final = "?"
SELF: Final = "X"
XGMI: Final = "XGMI"
_AMD: Final = "amd.com/"

MEANINGS: Final = {
    "NV#": "that many NVLinks",
    XGMI: "linked by xGMI",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "a host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "between NUMA nodes",
    UNKNOWN: "not known",
}
"""What is between two devices, by the word in the matrix."""


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function with the devices of one resource that are parts of it."""

    resource: str
    path: PciPath
    devices: tuple[DrawnDevice, ...]

    @property
    def number(self) -> str:
        """The position of its device; of several, its address within the domain."""
        if len(self.devices) > 1:
            return self.path.address.partition(":")[2]
        return str(self.devices[0].position)

    @property
    def label(self) -> str:
        """Its name in little space: ``gpu 0``, ``sriov 3b:00.0``."""
        return f"{short_name(self.resource)} {self.number}"

    def owners(self) -> list[int]:
        """Return the numbers of the pods that have devices of it."""
        return sorted({device.owner for device in self.devices if device.owner is not None})


@dataclass(frozen=True, slots=True)
class Connections:
    """The functions of a node in the order of their resources, and what is between them."""

    tree: DeviceTree
    functions: tuple[Function, ...]

    def word(self, one: Function, other: Function) -> str:
        """Return what is between two functions, in the word of the matrix."""
        if one is other:
            return SELF
        found = self.tree.between(one.path.address, other.path.address)
        if found is None:
            return UNKNOWN
        is_link = found.closeness is Closeness.LINK
        return XGMI if is_link and one.resource.startswith(_AMD) else found.text

    def matrix(self) -> tuple[tuple[str, ...], ...]:
        """Return a row of words for each function."""
        return tuple(
            tuple(self.word(function, other) for other in self.functions)
            for function in self.functions
        )

    def switches(self) -> tuple[tuple[Function, ...], ...]:
        """Return the functions that share a PCIe switch, where several do."""
        groups: dict[tuple[str, ...], list[Function]] = {}
        for function in self.functions:
            groups.setdefault(function.path.switch, []).append(function)
        ordered = sorted(groups.items(), key=lambda item: (_zone(item[1][0]), item[0]))
        return tuple(tuple(group) for key, group in ordered if len(key) > 1 and len(group) > 1)

    def legend(self) -> tuple[str, ...]:
        """Return what the words mean that the matrix has."""
        used = {_kind(word) for row in self.matrix() for word in row}
        return tuple(f"{word} {meaning}" for word, meaning in MEANINGS.items() if word in used)


def connections_of(picture: NodePicture) -> Connections | None:
    """Return how the devices of *picture* are connected; ``None`` if that is not known."""
    groups: dict[tuple[str, str], list[DrawnDevice]] = {}
    for device in picture.devices():
        if device.pci in picture.tree.paths:
            groups.setdefault((device.resource, device.pci), []).append(device)
    functions = [
        Function(resource, picture.tree.paths[address], tuple(devices))
        for (resource, address), devices in groups.items()
    ]
    if len(functions) < 2:
        return None
    return Connections(picture.tree, tuple(sorted(functions, key=_order)))


def _order(function: Function) -> tuple[str, int]:
    return function.resource, min(device.position for device in function.devices)


def _zone(function: Function) -> int:
    return -1 if function.path.numa_node is None else function.path.numa_node


def _kind(word: str) -> str:
    return "NV#" if word.startswith("NV") else word
