"""The kernel's sysfs tree to a Machine and back, on a mapping from path to text.

Paths are relative to the root of sysfs. Reading follows what cAdvisor makes of the tree
(Kubernetes 1.35), because that is what the kubelet will see:

* nodes are in the order of their directory names: ``node10`` comes before ``node2``;
* CPUs that are offline, or without a core id or package id, do not exist;
* threads of one core share core id and package id within a NUMA node;
* a cache above level 2 is an uncore cache of its cores, unless it is shared by exactly as many
  CPUs as the node has cores times the threads of this core: then it is the node's;
* a cache without id or size ends the search for caches of its node;
* without any node directory each package is a node, and memory is not known.

cAdvisor lists cores and threads in the order of directory names too. The kubelet cannot tell, so
here they are ascending, which is easier to read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from numakube.errors import InvalidValue, MalformedObject
from numakube.kubelet.machine import (
    NO_TREE,
    Core,
    HugePages,
    Machine,
    NumaNode,
    differences,
    in_kernel_order,
)
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.machine import Device


NODES: Final = "devices/system/node"
CPUS: Final = "devices/system/cpu"
KIB: Final = 1024
# Caches up to this level belong to a core; cAdvisor calls those above it uncore or node caches.
CORE_CACHE_LEVELS: Final = 2

_NODE_PATH = re.compile(rf"{NODES}/(node[0-9]+)/", re.ASCII)
_CPU_PATH = re.compile(rf"{CPUS}/cpu([0-9]+)/", re.ASCII)
_CACHE_PATH = re.compile(rf"{CPUS}/cpu([0-9]+)/cache/(index[0-9]+)/", re.ASCII)
_HUGEPAGES_PATH = re.compile(
    rf"{NODES}/(node[0-9]+)/hugepages/hugepages-([0-9]+)kB/nr_hugepages", re.ASCII
)
_MEM_TOTAL = re.compile(r"MemTotal:\s*([0-9]+) kB", re.ASCII)
_CACHE_SIZE = re.compile(r"\s*([0-9]+)K", re.ASCII)


def from_sysfs(
    files: Mapping[str, str],
    *,
    devices: Mapping[str, Sequence[Device]] | None = None,
    subject: str = "sysfs",
) -> Machine:
    """Return the machine whose sysfs consists of *files*, with the given devices.

    Raises:
        MalformedObject: naming *subject* and the file that cannot be read.
    """
    machine = _Tree(files, subject).machine()
    known = MappingProxyType({name: tuple(some) for name, some in (devices or {}).items()})
    return replace(machine, devices=known)


class _Tree:
    """A sysfs tree with an index of its directories, so that no lookup scans all paths."""

    def __init__(self, files: Mapping[str, str], subject: str) -> None:
        self.files = files
        self.subject = subject
        self.nodes = sorted({match[1] for match in map(_NODE_PATH.match, files) if match})
        self.cpus = sorted({int(match[1]) for match in map(_CPU_PATH.match, files) if match})
        self.caches: dict[int, set[str]] = {}
        for match in filter(None, map(_CACHE_PATH.match, files)):
            self.caches.setdefault(int(match[1]), set()).add(match[2])
        self.hugepages: dict[str, set[str]] = {}
        for match in filter(None, map(_HUGEPAGES_PATH.match, files)):
            self.hugepages.setdefault(match[1], set()).add(match[2])

    def machine(self) -> Machine:
        """Return the machine without its devices."""
        nodes = tuple(map(self.node, self.nodes) if self.nodes else self.packages())
        cores = [core for node in nodes for core in node.cores]
        if not cores:
            raise MalformedObject(
                self.subject, "no CPU is described there (topology/core_id)", path=CPUS
            )
        return Machine(
            nodes=nodes,
            cpu_count=sum(len(core.threads) for core in cores),
            socket_count=len({core.socket for core in cores}),
        )

    def node(self, name: str) -> NumaNode:
        """Return the NUMA node whose directory has this *name*."""
        return NumaNode(
            id=int(name.removeprefix("node")),
            memory_bytes=self.memory(f"{NODES}/{name}/meminfo"),
            cores=self.with_caches(self.cores(self.cpulist(f"{NODES}/{name}/cpulist"))),
            hugepages=tuple(
                HugePages(
                    page_bytes=int(size) * KIB,
                    count=self.number(f"{NODES}/{name}/hugepages/hugepages-{size}kB/nr_hugepages"),
                )
                for size in sorted(self.hugepages.get(name, ()))
            ),
            distances=self.distances(f"{NODES}/{name}/distance"),
        )

    def packages(self) -> Iterator[NumaNode]:
        """Yield a node a package, as cAdvisor does on a kernel without NUMA."""
        cores = self.cores(self.cpus)
        for package in sorted({core.socket for core in cores}):
            mine = tuple(core for core in cores if core.socket == package)
            yield NumaNode(id=package, memory_bytes=0, cores=self.with_caches(mine))

    def cores(self, cpus: Iterable[int]) -> tuple[Core, ...]:
        """Group those of *cpus* that are online into cores."""
        threads: dict[tuple[int, int], list[int]] = {}
        for cpu in sorted(set(cpus) & self.online()):
            topology = f"{CPUS}/cpu{cpu}/topology"
            paths = f"{topology}/core_id", f"{topology}/physical_package_id"
            if all(path in self.files for path in paths):
                core, package = map(self.number, paths)
                threads.setdefault((package, core), []).append(cpu)
        return tuple(
            Core(id=core, threads=tuple(cpus), socket=package)
            for (package, core), cpus in threads.items()
        )

    def online(self) -> set[int]:
        """Return the CPUs that are online: all of them if the kernel cannot switch them off."""
        path = f"{CPUS}/online"
        return set(self.cpulist(path)) if path in self.files else set(self.cpus)

    def with_caches(self, cores: tuple[Core, ...]) -> tuple[Core, ...]:
        """Return *cores* with their uncore cache, up to the first core without cache details."""
        found = list(cores)
        for index, core in enumerate(cores):
            caches = self.core_caches(core.threads[0])
            if caches is None:
                break
            whole_node = len(cores) * len(core.threads)
            uncore = [
                id_
                for id_, level, sharers in caches
                if level > CORE_CACHE_LEVELS and sharers != whole_node
            ]
            found[index] = replace(core, uncore_cache=uncore[0] if uncore else None)
        return tuple(found)

    def core_caches(self, cpu: int) -> list[tuple[int, int, int]] | None:
        """Return (id, level, number of CPUs) of each cache of *cpu*; nothing if details lack."""
        caches = []
        for index in sorted(self.caches.get(cpu, ())):
            path = f"{CPUS}/cpu{cpu}/cache/{index}"
            size = self.files.get(f"{path}/size", "")
            if f"{path}/id" not in self.files or not _CACHE_SIZE.match(size):
                return None
            level = self.number(f"{path}/level")
            sharers = len(self.cpulist(f"{path}/shared_cpu_list"))
            caches.append((self.number(f"{path}/id"), level, sharers))
        return caches or None

    def memory(self, path: str) -> int:
        if path not in self.files:
            return 0
        match = _MEM_TOTAL.search(self.files[path])
        if not match:
            raise self.malformed(path, "has no line `MemTotal: ... kB`")
        return int(match[1]) * KIB

    def distances(self, path: str) -> tuple[int, ...]:
        words = self.files.get(path, "").split()
        if not all(word.isascii() and word.isdigit() for word in words):
            raise self.malformed(path, f"{self.files[path].strip()!r} is not a list of numbers")
        return tuple(map(int, words))

    def number(self, path: str) -> int:
        text = self.text(path)
        try:
            return int(text)
        except ValueError:
            raise self.malformed(path, f"{text!r} is not a number") from None

    def cpulist(self, path: str) -> CpuSet:
        text = self.text(path)
        try:
            return CpuSet.parse(text)
        except InvalidValue:
            raise self.malformed(path, f"{text!r} is not a list of CPUs") from None

    def text(self, path: str) -> str:
        if path not in self.files:
            raise self.malformed(path, "is missing")
        return self.files[path].strip()

    def malformed(self, path: str, detail: str) -> MalformedObject:
        return MalformedObject(self.subject, detail, path=path)


# A Machine as the files of a sysfs tree, for fake nodes.
#
# The tree is read back before it is given out: a machine that cAdvisor would see differently (a
# cache over a whole node, memory that is not a multiple of a KiB) is refused with what differs,
# since a fake node whose kubelet and whose files disagree is worse than none. Devices are not in
# sysfs's node and CPU directories and are left out.


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
