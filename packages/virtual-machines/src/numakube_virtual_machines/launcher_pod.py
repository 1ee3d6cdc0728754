"""The pod that KubeVirt makes for a virtual machine: what its containers ask for. Pure.

Follows KubeVirt 1.5 (pkg/virt-controller/services: renderresources.go, template.go) with the
defaults of its configuration: a CPU for ten vCPUs that are not dedicated, no additional ratio of
overhead, no limits of its own for helper containers. KubeVirt calls the overhead an estimate, and
versions differ by some MiB: a pod that runs tells the truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.values.quantity import milli_value, value
from numakube_virtual_machines.machine_spec import DEFAULT_CORES, Cpu, guest_bytes, instance_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_virtual_machines.machine_spec import Domain, InstanceSpec

DOMAIN: Final = "kubevirt.io/domain"
"""The annotation of a launcher's pod with the name of its machine."""
LAUNCHER: Final = "virt-launcher"
COMPUTE: Final = "compute"
EVEN: Final = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
PASSTHROUGH: Final = "numakube.dev/guest-numa-passthrough"
"""The mark of a planned pod whose guest sees the NUMA nodes that it was given."""
GUEST: Final = "numakube.dev/guest"
"""The mark with what the guest has: its CPUs and its memory in bytes."""

_MIB: Final = 1 << 20
_FIXED: Final = (25 + 100 + 25 + 40 + 30) * _MIB
"""Monitor, launcher, virtlogd, virtqemud and QEMU without its guest."""
_PAGE_TABLES: Final = 512
_PER_CPU: Final = 8 * _MIB
_IO_THREAD: Final = 8 * _MIB
_VIDEO: Final = 16 * _MIB
_ARM_FLASH: Final = 128 * _MIB
_LOCKED_DEVICES: Final = 1024 * _MIB
_ENCRYPTED: Final = 256 * _MIB
_TPM: Final = 53 * _MIB
_GUARANTEED: Final = 100 * _MIB
_ALLOCATION_RATIO: Final = 10
_MILLI: Final = 1000
_SUPPLEMENTAL: Final = "supplementalPool"
_DEVICES: Final = (
    "devices.kubevirt.io/kvm",
    "devices.kubevirt.io/tun",
    "devices.kubevirt.io/vhost-net",
)
_HELPER_DEDICATED: Final = {"cpu": "10m", "memory": "40M"}
_HELPER_LIMITS: Final = {"cpu": "100m", "memory": "40M"}
_HELPER_REQUESTS: Final = {"cpu": "10m", "memory": "1M"}
_LOG_LIMITS: Final = {"cpu": "15m", "memory": "60M"}
_LOG_REQUESTS: Final = {"cpu": "5m", "memory": "35M"}


def pod_of(tree: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return the pod of the VirtualMachine or VirtualMachineInstance *tree*.

    Raises:
        MalformedObject: it cannot be read, or leaves to the cluster what resources depend on.
    """
    spec, inner = instance_in(tree, subject)
    own = tree.get("metadata")
    meta: dict[str, Any] = own if isinstance(own, dict) else {}
    name = str(meta.get("name", ""))
    annotations = {**_texts(meta.get("annotations")), **_texts(inner.get("annotations"))}
    cpu = spec.domain.cpu or Cpu()
    marks = {DOMAIN: name, GUEST: f"{guest_cpus(spec.domain)} {guest_bytes(spec.domain)}"}
    if cpu.numa is not None and cpu.numa.guest_mapping_passthrough is not None:
        marks[PASSTHROUGH] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{LAUNCHER}-{name}",
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
            "labels": {**_texts(inner.get("labels")), "kubevirt.io": LAUNCHER},
            "annotations": {**annotations, **marks},
        },
        "spec": {**_placing(spec), "containers": list(_containers(spec, annotations))},
    }


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(one) for key, one in found.items()} if isinstance(found, dict) else {}


def _placing(spec: InstanceSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "schedulerName": spec.scheduler_name,
        "priorityClassName": spec.priority_class_name,
        "nodeSelector": spec.node_selector,
        "affinity": spec.affinity,
        "tolerations": list(spec.tolerations),
        "topologySpreadConstraints": list(spec.topology_spread_constraints),
    }
    return {name: field for name, field in fields.items() if field}


def guest_cpus(domain: Domain) -> int:
    """Return how many CPUs the guest sees."""
    count = (domain.cpu or Cpu()).count
    if count:
        return count
    asked = domain.resources.limits.get("cpu") or domain.resources.requests.get("cpu")
    return max(DEFAULT_CORES, -(-milli_value(str(asked)) // _MILLI)) if asked else DEFAULT_CORES


def overhead_bytes(spec: InstanceSpec) -> int:
    """Return the memory that the pod needs besides that of its guest."""
    domain, devices = spec.domain, spec.domain.devices
    total = _requested_bytes(domain) // _PAGE_TABLES + _FIXED
    total += _PER_CPU * guest_cpus(domain) + _IO_THREAD
    if devices.autoattach_graphics_device is not False:
        total += _VIDEO
    if spec.architecture == "arm64":
        total += _ARM_FLASH
    if (
        devices.gpus
        or devices.host_devices
        or any(one.sriov is not None for one in devices.interfaces)
    ):
        total += _LOCKED_DEVICES
    if "sev" in (domain.launch_security or {}):
        total += _ENCRYPTED
    if devices.tpm is not None:
        total += _TPM
    if _is_dedicated(domain) or _is_guaranteed(domain):
        total += _GUARANTEED
    return total


def _is_dedicated(domain: Domain) -> bool:
    return domain.cpu is not None and domain.cpu.dedicated_cpu_placement


def _is_guaranteed(domain: Domain) -> bool:
    asked = domain.resources
    return all(
        asked.limits.get(name) is not None
        and asked.requests.get(name, asked.limits[name]) == asked.limits[name]
        for name in ("cpu", "memory")
    )


def _requested_bytes(domain: Domain) -> int:
    """Return the memory that is asked for the guest: its request, or else all that it sees."""
    asked = domain.resources.requests.get("memory")
    return value(str(asked)) if asked is not None else guest_bytes(domain)


def _containers(spec: InstanceSpec, annotations: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    dedicated = _is_dedicated(spec.domain) or _is_guaranteed(spec.domain)
    yield {"name": COMPUTE, "image": LAUNCHER, "resources": _compute(spec, annotations)}
    helper = (
        {"requests": _HELPER_DEDICATED, "limits": _HELPER_DEDICATED}
        if dedicated
        else {"requests": _HELPER_REQUESTS, "limits": _HELPER_LIMITS}
    )
    for volume in spec.volumes:
        if volume.container_disk is not None:
            yield {"name": f"volume{volume.name}", "image": "disk", "resources": helper}
    devices = spec.domain.devices
    if devices.autoattach_serial_console is not False and devices.log_serial_console is not False:
        requests = _LOG_LIMITS if dedicated else _LOG_REQUESTS
        resources = {"requests": requests, "limits": _LOG_LIMITS}
        yield {"name": "guest-console-log", "image": LAUNCHER, "resources": resources}


def _compute(spec: InstanceSpec, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what the container asks for in which the machine runs."""
    domain = spec.domain
    requests = {name: str(amount) for name, amount in domain.resources.requests.items()}
    limits = {name: str(amount) for name, amount in domain.resources.limits.items()}
    _ask_memory(spec, requests, limits)
    if _is_dedicated(domain):
        cpus = dedicated_cpus(domain, annotations)
        requests["cpu"] = limits["cpu"] = str(cpus)
    elif "cpu" not in requests:
        requests["cpu"] = f"{guest_cpus(domain) * _MILLI // _ALLOCATION_RATIO}m"
    for name in _device_names(domain):
        limits[name] = requests[name] = str(int(limits.get(name, "0")) + 1)
    return {"requests": requests, "limits": limits}


def dedicated_cpus(domain: Domain, annotations: Mapping[str, str]) -> int:
    """Return how many whole CPUs a machine with CPUs of its own takes."""
    cpu = domain.cpu or Cpu()
    more = 0
    if domain.io_threads_policy == _SUPPLEMENTAL and domain.io_threads is not None:
        more = max(0, domain.io_threads.supplemental_pool_thread_count)
    total = guest_cpus(domain)
    if cpu.isolate_emulator_thread:
        total += 2 if EVEN in annotations and (total + more) % 2 == 0 else 1
    return total + more


def _ask_memory(spec: InstanceSpec, requests: dict[str, str], limits: dict[str, str]) -> None:
    domain, overhead = spec.domain, overhead_bytes(spec)
    asked, guest = _requested_bytes(domain), guest_bytes(domain)
    limit = value(limits["memory"]) if "memory" in limits else None
    if _is_dedicated(domain):
        limit = asked
    pages = domain.memory.hugepages if domain.memory is not None else None
    if pages is not None:
        size = str(min(asked, guest) if guest else asked)
        requests[f"hugepages-{pages.page_size}"] = limits[f"hugepages-{pages.page_size}"] = size
        requests["memory"] = str(max(0, asked - guest) + overhead)
        if limit is not None:
            limits["memory"] = str(max(0, limit - guest) + overhead)
        return
    requests["memory"] = str(
        asked + (0 if domain.resources.overcommit_guest_overhead else overhead)
    )
    if limit is not None:
        limits["memory"] = str(limit + overhead)


def _device_names(domain: Domain) -> Iterator[str]:
    yield from _DEVICES
    for device in (*domain.devices.gpus, *domain.devices.host_devices):
        if device.device_name:
            yield device.device_name
