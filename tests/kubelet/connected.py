"""Machines whose GPUs and network cards are behind PCIe switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.kubelet.build import container

from numakube.api.pod import Container
from numakube.kubelet.machine import Device, Machine, PciPath, tree_of
from numakube.kubelet.machines.shape_text import from_shape

GPU, NIC = "vendor.example/gpu", "vendor.example/nic"


def gpu_server(switches: Sequence[str] = ("gn", "gn", "gn", "gn")) -> Machine:
    """Return a machine of two NUMA nodes; each switch has GPUs (g) and network cards (n).

    The first half of the switches is on NUMA node 0; each is below a host bridge of its own.
    """
    paths: list[PciPath] = []
    devices: dict[str, list[Device]] = {GPU: [], NIC: []}
    for number, members in enumerate(switches):
        node = 2 * number // len(switches)
        bus = 0x10 * (number + 1)
        for port, kind in enumerate(members):
            address = f"0000:{bus + 3 + port:02x}:00.0"
            bridges = (f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0")
            downstream = f"0000:{bus + 2:02x}:{port:02x}.0"
            paths.append(PciPath(address, f"pci0000:{bus:02x}", (*bridges, downstream), node))
            resource = {"g": GPU, "n": NIC}[kind]
            known = devices[resource]
            known.append(Device(f"{kind}{len(known)}", (node,), pci=address))
    return replace(
        from_shape("2 sockets, 8 cores, 64Gi"),
        devices={name: tuple(members) for name, members in devices.items() if members},
        tree=tree_of(paths),
    )


def asks(gpus: int, nics: int, name: str = "main") -> Container:
    """Return a container with so many devices."""
    limits = {resource: str(count) for resource, count in ((GPU, gpus), (NIC, nics)) if count}
    return container(name, **limits)
