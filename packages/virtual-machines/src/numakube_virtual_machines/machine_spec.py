"""A virtual machine of KubeVirt or an instance, as far as resources depend on it. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from numakube.api.codec import convert
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.quantity import value

_KIB: Final = 1 << 10
DEFAULT_CORES: Final = 1


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts: fields that we do not know are passed over."""


class Numa(_Part, frozen=True):
    """How the guest sees NUMA nodes."""

    guest_mapping_passthrough: dict[str, Any] | None = None


class Cpu(_Part, frozen=True):
    """The guest's CPUs."""

    cores: int = 0
    sockets: int = 0
    threads: int = 0
    dedicated_cpu_placement: bool = False
    isolate_emulator_thread: bool = False
    numa: Numa | None = None

    @property
    def count(self) -> int:
        """How many the guest sees; 0 if the topology does not tell."""
        known = [number for number in (self.cores, self.sockets, self.threads) if number > 0]
        total = 1 if known else 0
        for number in known:
            total *= number
        return total


class Hugepages(_Part, frozen=True):
    """The pages that back the guest's memory."""

    page_size: str = ""


class Memory(_Part, frozen=True):
    """The guest's memory."""

    guest: str | int | None = None
    hugepages: Hugepages | None = None


class Resources(_Part, frozen=True):
    """What the pod is to ask for."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}
    overcommit_guest_overhead: bool = False


class HostDevice(_Part, frozen=True):
    """A device of the host."""

    device_name: str = ""


class Interface(_Part, frozen=True):
    """A network interface."""

    name: str = ""
    sriov: dict[str, Any] | None = None


class Devices(_Part, frozen=True):
    """The guest's devices."""

    autoattach_graphics_device: bool | None = None
    autoattach_serial_console: bool | None = None
    log_serial_console: bool | None = None
    gpus: tuple[HostDevice, ...] = ()
    host_devices: tuple[HostDevice, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    tpm: dict[str, Any] | None = None


class SupplementalThreads(_Part, frozen=True):
    """Further threads for disks."""

    supplemental_pool_thread_count: int = 0


class Domain(_Part, frozen=True):
    """The machine."""

    cpu: Cpu | None = None
    memory: Memory | None = None
    resources: Resources = Resources()
    devices: Devices = Devices()
    io_threads_policy: str = ""
    io_threads: SupplementalThreads | None = None
    launch_security: dict[str, Any] | None = None


class Volume(_Part, frozen=True):
    """A disk."""

    name: str = ""
    container_disk: dict[str, Any] | None = None


class InstanceSpec(_Part, frozen=True):
    """The specification of a VirtualMachineInstance."""

    domain: Domain
    architecture: str = ""
    volumes: tuple[Volume, ...] = ()
    scheduler_name: str = ""
    priority_class_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()


def instance_in(tree: dict[str, Any], subject: str) -> tuple[InstanceSpec, dict[str, Any]]:
    """Return the specification of the instance in *tree*, and the metadata of its template.

    Raises:
        MalformedObject: it cannot be read, or leaves to the cluster what resources depend on.
    """
    kind = tree.get("kind", "")
    meta = tree.get("metadata")
    name = meta.get("name", "") if isinstance(meta, dict) else ""
    about = f"{subject}: {kind} {name}"
    spec = tree.get("spec")
    inner: Any = {}
    if kind == "VirtualMachine":
        if not isinstance(spec, dict) or not isinstance(spec.get("template"), dict):
            raise MalformedObject(about, "is required", path="spec.template")
        if spec.get("instancetype"):
            raise MalformedObject(
                about,
                "is of an instance type, which the cluster has: give the instance that KubeVirt"
                " makes of it (kubectl get vmi NAME -o yaml)",
                path="spec.instancetype",
            )
        inner = spec["template"].get("metadata") or {}
        spec = spec["template"].get("spec")
    found = convert(InstanceSpec, spec if isinstance(spec, dict) else {}, about)
    _check(found, about)
    return found, inner if isinstance(inner, dict) else {}


def _check(spec: InstanceSpec, about: str) -> None:
    _check_amounts(spec.domain, about)
    cpu, memory = spec.domain.cpu or Cpu(), spec.domain.memory
    counts = (cpu.cores, cpu.sockets, cpu.threads)
    if any(not 0 <= number <= _KIB for number in counts) or cpu.count > _KIB:
        raise MalformedObject(about, "has an odd number of CPUs", path="spec.domain.cpu")
    passes = cpu.numa is not None and cpu.numa.guest_mapping_passthrough is not None
    has_pages = memory is not None and memory.hugepages is not None
    if passes and not (cpu.dedicated_cpu_placement and has_pages):
        raise MalformedObject(
            about,
            "needs dedicatedCpuPlacement and memory.hugepages; KubeVirt refuses it without",
            path="spec.domain.cpu.numa.guestMappingPassthrough",
        )
    if cpu.isolate_emulator_thread and not cpu.dedicated_cpu_placement:
        raise MalformedObject(
            about,
            "needs dedicatedCpuPlacement; KubeVirt refuses it without",
            path="spec.domain.cpu.isolateEmulatorThread",
        )


def _check_amounts(domain: Domain, about: str) -> None:
    """Make sure that all amounts are quantities, and none is negative."""
    guest = () if domain.memory is None else (domain.memory.guest,)
    asked = domain.resources
    for amount in (*guest, *asked.requests.values(), *asked.limits.values()):
        try:
            is_odd = amount is not None and value(str(amount)) < 0
        except InvalidValue as error:
            raise MalformedObject(about, str(error), path="spec.domain") from None
        if is_odd:
            raise MalformedObject(about, f"{amount!r} is less than nothing", path="spec.domain")


def guest_bytes(domain: Domain) -> int:
    """Return the memory of the guest."""
    memory = domain.memory
    if memory is not None and memory.guest is not None:
        return value(str(memory.guest))
    asked = domain.resources.requests.get("memory") or domain.resources.limits.get("memory")
    return value(str(asked)) if asked else 0
