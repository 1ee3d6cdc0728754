"""Where two descriptions of a machine differ.

The writers of formats that cannot express every machine use it: they write, read back what they
wrote, and refuse with the first difference. So they are exact or they say why not.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PARTS = (NumaNode, Core, HugePages, Device)


def differences(machine: Machine, other: Machine) -> list[str]:
    """Return in words where *other* differs from *machine*; nothing if they are equal."""
    return [] if machine == other else list(_differences(machine, other, ""))


def in_kernel_order(machine: Machine) -> Machine:
    """Return *machine* with cores, threads and hugepage pools in the order of the kernel's files.

    The kubelet puts them into sets and maps, so it cannot tell the difference.
    """
    return replace(machine, nodes=tuple(_in_kernel_order(node) for node in machine.nodes))


def _in_kernel_order(node: NumaNode) -> NumaNode:
    cores = (replace(core, threads=tuple(sorted(core.threads))) for core in node.cores)
    return replace(
        node,
        cores=tuple(sorted(cores, key=lambda core: core.threads)),
        hugepages=tuple(sorted(node.hugepages, key=lambda pool: str(pool.page_bytes >> 10))),
    )


def _differences(one: object, other: object, where: str) -> Iterator[str]:
    if isinstance(one, Machine) and isinstance(other, Machine):
        yield from _sequences(one.nodes, other.nodes, where, "NUMA nodes")
        yield from _values(one, other, where, ("cpu_count", "socket_count"))
        for resource in sorted({*one.devices, *other.devices}):
            devices = one.devices.get(resource, ()), other.devices.get(resource, ())
            yield from _sequences(*devices, f"{where}{resource}: ", "devices")
        if set(one.devices) != set(other.devices):
            yield f"{where}device resources"
        if one.tree != other.tree:
            yield f"{where}how devices are connected"
    elif isinstance(one, _PARTS) and isinstance(other, _PARTS):
        names = [field.name for field in fields(one)]
        yield from _values(one, other, where, names)


def _values(one: object, other: object, where: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine == theirs:
            continue
        if name in ("cores", "hugepages"):
            yield from _sequences(mine, theirs, where, name)
        else:
            yield f"{where}{name} is {mine}, not {theirs}"


def _sequences(
    one: Sequence[object], other: Sequence[object], where: str, noun: str
) -> Iterator[str]:
    if len(one) != len(other):
        yield f"{where}{len(one)} {noun}, not {len(other)}"
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            yield from _differences(mine, theirs, f"{where}{_title(mine)}: ")


def _title(part: object) -> str:
    match part:
        case NumaNode(id=id_):
            return f"NUMA node {id_}"
        case Core(threads=threads):
            return f"core with CPUs {','.join(map(str, threads))}"
        case HugePages(page_bytes=size):
            return f"hugepages of {size} bytes"
        case Device(id=id_):
            return f"device {id_}"
        case _:
            return str(part)
