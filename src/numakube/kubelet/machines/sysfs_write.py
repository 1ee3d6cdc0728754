"""A Machine as the files of a sysfs tree, for fake nodes.

The tree is read back before it is given out: a machine that cAdvisor would see differently (a
cache over a whole node, memory that is not a multiple of a KiB) is refused with what differs, since
a fake node whose kubelet and whose files disagree is worse than none. Devices are not in sysfs's
node and CPU directories and are left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from numakube.errors import MalformedObject
from numakube.kubelet.device_connections import NO_TREE
from numakube.kubelet.machines.compare_machines import differences, in_kernel_order
from numakube.kubelet.machines.sysfs_read import CPUS, KIB, NODES, from_sysfs
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.kubelet.machine import Core, Machine, NumaNode

File: TypeAlias = tuple[str, str]
"""Path and content."""

_CACHE = "uncore_cache"


class _Cache(NamedTuple):
    level: int
    type: str
    size: str
    id: int
    cpus: CpuSet


def to_sysfs(machine: Machine) -> dict[str, str]:
    """Return the files of *machine*: path relative to the root of sysfs to content.

    Raises:
        MalformedObject: a kubelet would read another machine from any such tree.
    """
    files = {path: f"{text}\n" for path, text in _files(machine)}
    bare = replace(machine, devices=MappingProxyType({}), tree=NO_TREE)
    expected = in_kernel_order(bare)
    if found := differences(expected, in_kernel_order(from_sysfs(files))):
        hint = "; a cache over a whole NUMA node counts as the node's" if _CACHE in found[0] else ""
        raise MalformedObject(
            "machine", f"a kubelet would read something else from sysfs: {found[0]}{hint}"
        )
    return files


def _files(machine: Machine) -> Iterator[File]:
    packages = _cpus_by(machine, lambda core: core.socket)
    sharers = _cpus_by(machine, lambda core: core.uncore_cache)
    yield from _lists(machine)
    yield from chain.from_iterable(map(_node_files, machine.nodes))
    for number, core in enumerate(_cores(machine)):
        own = CpuSet.of(core.threads)
        caches = [_Cache(1, "Data", "32K", number, own)]
        if core.uncore_cache is not None:
            shared = sharers[core.uncore_cache]
            caches.append(_Cache(3, "Unified", "32768K", core.uncore_cache, shared))
        for cpu in core.threads:
            yield from _topology_files(core, cpu, packages[core.socket])
            yield from _cache_files(cpu, caches)


def _cpus_by(machine: Machine, key: Callable[[Core], int | None]) -> dict[int | None, CpuSet]:
    """Return the CPUs of all cores with the same *key*."""
    threads: dict[int | None, list[int]] = {}
    for core in _cores(machine):
        threads.setdefault(key(core), []).extend(core.threads)
    return {group: CpuSet.of(cpus) for group, cpus in threads.items()}


def _cores(machine: Machine) -> Iterator[Core]:
    return (core for node in machine.nodes for core in node.cores)


def _lists(machine: Machine) -> Iterator[File]:
    cpus = CpuSet.of(cpu for core in _cores(machine) for cpu in core.threads)
    nodes = CpuSet.of(node.id for node in machine.nodes)
    for state in ("online", "present", "possible"):
        yield f"{CPUS}/{state}", str(cpus)
        yield f"{NODES}/{state}", str(nodes)
    yield f"{CPUS}/offline", ""
    yield f"{NODES}/has_cpu", str(CpuSet.of(node.id for node in machine.nodes if node.cores))
    memory = CpuSet.of(node.id for node in machine.nodes if node.memory_bytes)
    yield f"{NODES}/has_memory", str(memory)


def _node_files(node: NumaNode) -> Iterator[File]:
    path = f"{NODES}/node{node.id}"
    cpus = CpuSet.of(cpu for core in node.cores for cpu in core.threads)
    memory = f"Node {node.id} MemTotal:       {node.memory_bytes // KIB} kB"
    yield f"{path}/cpulist", str(cpus)
    yield f"{path}/meminfo", memory
    if node.distances:
        yield f"{path}/distance", " ".join(map(str, node.distances))
    for pool in node.hugepages:
        pool_path = f"{path}/hugepages/hugepages-{pool.page_bytes // KIB}kB"
        yield f"{pool_path}/nr_hugepages", str(pool.count)
        yield f"{pool_path}/free_hugepages", str(pool.count)


def _topology_files(core: Core, cpu: int, package: CpuSet) -> Iterator[File]:
    path = f"{CPUS}/cpu{cpu}/topology"
    yield f"{path}/core_id", str(core.id)
    yield f"{path}/physical_package_id", str(core.socket)
    yield f"{path}/thread_siblings_list", str(CpuSet.of(core.threads))
    yield f"{path}/core_siblings_list", str(package)


def _cache_files(cpu: int, caches: list[_Cache]) -> Iterator[File]:
    for index, cache in enumerate(caches):
        path = f"{CPUS}/cpu{cpu}/cache/index{index}"
        yield f"{path}/level", str(cache.level)
        yield f"{path}/type", cache.type
        yield f"{path}/size", cache.size
        yield f"{path}/id", str(cache.id)
        yield f"{path}/shared_cpu_list", str(cache.cpus)
        yield f"{path}/shared_cpu_map", _mask(cache.cpus)


def _mask(cpus: CpuSet) -> str:
    """Return *cpus* as the kernel prints masks: 32 bits a group, the highest first."""
    groups = max(1, -(-cpus.bits.bit_length() // 32))
    return ",".join(
        f"{cpus.bits >> 32 * group & 0xFFFFFFFF:08x}" for group in reversed(range(groups))
    )
