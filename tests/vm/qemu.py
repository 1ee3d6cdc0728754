"""The command line of a virtual machine with the NUMA nodes and devices of a shape.

Each NUMA node has a PCI expander bridge of its own, behind which its devices are: e1000e network
cards for ``nic``, and an NVMe controller with virtual functions for ``vf``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.vm.image import CACHE, Image

from numakube.kubelet.machine import Machine, NumaNode
from numakube.testing import until_blocking

NIC, VF = "vendor.example/nic", "vendor.example/vf"
ACCELERATOR: Final = os.environ.get("NUMAKUBE_VM_ACCEL", "auto")
"""``kvm``, ``tcg``, or ``auto``: KVM if it boots a kernel, which not every ``/dev/kvm`` does."""
_PROBE_SECONDS: Final = 15.0
_MIB: Final = 1 << 20
_KERNEL: Final = (
    "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 mitigations=off audit=0 apparmor=0"
    " selinux=0 nokaslr nowatchdog tsc=nowatchdog fsck.mode=skip systemd.show_status=0"
)


def command(
    image: Image, machine: Machine, *, overlay: Path, stuff: Path, console: Path, ssh_port: int
) -> list[str]:
    """Return what starts the machine.

    Args:
        image: its kernel.
        machine: its shape.
        overlay: its disk.
        stuff: the disk with what is tried.
        console: where its kernel writes to.
        ssh_port: where on loopback it lets in.
    """
    accelerator = accelerator_of(image)
    words = [
        "qemu-system-x86_64 -machine q35 -no-reboot -display none",
        _acceleration(accelerator),
        *_processors(machine),
        *_numa_nodes(machine),
        *_drive("root", overlay, "qcow2"),
        *_drive("stuff", stuff, "raw"),
        f"-netdev user,id=net,hostfwd=tcp:127.0.0.1:{ssh_port}-:22",
        "-device virtio-net-pci,netdev=net,bus=pcie.0 -device virtio-rng-pci,bus=pcie.0",
        *_devices(machine),
    ]
    return [
        *" ".join(words).split(),
        *("-serial", f"file:{console}"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", f"{_KERNEL} {_hugepages(machine)}"),
    ]


def _acceleration(name: str) -> str:
    # A vendor that the kernel knows; else it describes no caches.
    options = "thread=multi,tb-size=1024" if name == "tcg" else ""
    cpu = "max,vendor=GenuineIntel" if name == "tcg" else "max"
    return f"-accel {name}{',' if options else ''}{options} -cpu {cpu}"


def _processors(machine: Machine) -> Iterator[str]:
    cores = [core for node in machine.nodes for core in node.cores]
    threads = len(cores[0].threads)
    each = len(cores) // machine.socket_count
    yield f"-smp {machine.cpu_count},sockets={machine.socket_count},cores={each},threads={threads}"


def _numa_nodes(machine: Machine) -> Iterator[str]:
    yield f"-m {sum(node.memory_bytes for node in machine.nodes) // _MIB}M"
    for node in machine.nodes:
        cpus = sorted(cpu for core in node.cores for cpu in core.threads)
        mine = f",cpus={cpus[0]}-{cpus[-1]}" if cpus else ""
        size = node.memory_bytes // _MIB
        yield f"-object memory-backend-ram,id=m{node.id},size={size}M"
        yield f"-numa node,nodeid={node.id},memdev=m{node.id}{mine}"
    for node in machine.nodes:
        for other, distance in zip(machine.nodes, node.distances, strict=False):
            if other.id > node.id:
                yield f"-numa dist,src={node.id},dst={other.id},val={distance}"


def _drive(name: str, path: Path, form: str) -> Iterator[str]:
    yield f"-drive file={path},format={form},if=none,id={name},cache=unsafe"
    yield f"-device virtio-blk-pci,drive={name},bus=pcie.0"


def _devices(machine: Machine) -> Iterator[str]:
    for position, node in enumerate(machine.nodes):
        bridge = f"pxb{node.id}"
        place = f"bus_nr={32 + 16 * position},bus=pcie.0,numa_node={node.id}"
        yield f"-device pxb-pcie,id={bridge},{place}"
        cards = [
            f"e1000e,mac=52:54:00:00:{position:02x}:{n:02x}"
            for n in range(count(machine, NIC, node))
        ]
        if functions := count(machine, VF, node):
            yield f"-device nvme-subsys,id=ss{node.id},nqn=ss{node.id}"
            cards.append(_nvme(node, functions))
        for number, card in enumerate(cards):
            port, slot = f"{bridge}p{number}", 1 + position * 16 + number
            yield f"-device pcie-root-port,id={port},bus={bridge},chassis={slot},slot={slot}"
            yield f"-device {card},bus={port}"


def _nvme(node: NumaNode, functions: int) -> str:
    return (
        f"nvme,serial=nv{node.id},subsys=ss{node.id},sriov_max_vfs={functions},"
        f"sriov_vq_flexible={2 * functions},sriov_vi_flexible={functions},"
        "max_ioqpairs=26,msix_qsize=10"
    )


def count(machine: Machine, resource: str, node: NumaNode) -> int:
    """Return how many devices of a resource are on a NUMA node."""
    return sum(device.numa_nodes == (node.id,) for device in machine.devices.get(resource, ()))


def _hugepages(machine: Machine) -> str:
    pools = [
        f"{node.id}:{pool.count}"
        for node in machine.nodes
        for pool in node.hugepages
        if pool.page_bytes == 2 * _MIB
    ]
    return f"hugepagesz=2M hugepages={','.join(pools)}" if pools else ""


def accelerator_of(image: Image) -> str:
    """Return what the machine is to run by; whether KVM works is tried once after each boot."""
    if ACCELERATOR != "auto":
        return ACCELERATOR
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = CACHE / f"accelerator-{boot}"
    if not known.exists():
        known.write_text("kvm" if _kvm_boots(image, CACHE / "probe.log") else "tcg")
    return known.read_text()


def _kvm_boots(image: Image, console: Path) -> bool:
    """Tell whether a kernel gets as far as its initrd under KVM."""
    console.unlink(missing_ok=True)

    def boots() -> bool:
        return console.exists() and "Run /init" in console.read_text(errors="replace")

    words = "qemu-system-x86_64 -machine q35 -accel kvm -cpu max -m 512 -display none -no-reboot"
    process = subprocess.Popen(  # noqa: S603 - the developer's own
        [
            *words.split(),
            *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
            *("-append", "console=ttyS0 panic=-1", "-serial", f"file:{console}"),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        with contextlib.suppress(AssertionError):
            until_blocking(lambda: boots() or process.poll() is not None, within=_PROBE_SECONDS)
        return boots()
    finally:
        process.kill()
        process.wait()
