"""Nodes as one can make them: machine and kubelet, read from a line of text or from a cluster.

    nodes_of_kinds(["200x 2 sockets, 32 cores, smt 2, 512Gi, gpu 8; policy=restricted"])
    observed_node(node, report)

A line has a count, the shape of a machine or the name of a known one (`numakube.kubelet.machines`),
and after a semicolon the words that configure its kubelet
(`numakube.kubelet.config_from_words`). After another one are domains, ``rack=18,block=72``: labels
that so many nodes in a row have in common. Kinds get letters, so that the nodes of the second one
are ``b-000``, ``b-001`` and so on. Where there is a cluster, ``10x like node-0``, or
``10x node-0``, are nodes with the machine, the devices, the labels and the kubelet of that one.

Of a node of a cluster, exact data in its NodeResourceTopology tells everything: cores with their
threads and caches, memory, devices, the kubelet's settings. Without it, zones become NUMA nodes of
plain cores (one thread each, a socket a zone), with as many of them reserved as pods may not use;
and without zones a node is a machine of one zone with the node's capacity. A kubelet's
configuration, where there is one, goes first; words of the user change whatever was found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from string import ascii_lowercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.nrt import numa_id_of
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.kubelet.config_from_words import (
    configuration_of,
    lab_configuration,
    overridden,
    parse_kubelet_options,
    with_memory_reserved,
)
from numakube.kubelet.kubelet_versions import DEFAULT
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import allocatable_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube.values.names import qualified_name
from numakube.values.quantity import value
from numakube.values.resources import (
    CPU,
    MEMORY,
    PODS,
    amounts_of,
    hugepage_bytes,
    is_extended,
    is_hugepages,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.topology.exact_report import ExactReport
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetup:
    """One node: all that it takes to make another like it.

    Attributes:
        machine: the hardware with its devices; nodes that are alike share one.
        config: the kubelet's configuration.
        kubernetes: the kubelet's version, such as ``1.35``.
        also: what the node offers besides its machine, in base units, without a place on a NUMA
            node: shares of GPUs, for example.
        unschedulable: whether it is cordoned.
        held: the state of its kubelet with what each pod holds by uid, if that is known exactly.
            Without it, or with other settings, the pods are admitted one after the other.
    """

    name: str
    machine: Machine
    config: KubeletConfiguration
    kubernetes: str = DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    also: Amounts = field(default_factory=lambda: MappingProxyType({}))
    unschedulable: bool = False
    held: ExactReport | None = None


_KIND: Final = re.compile(r"\s*(?:(\d+)\s*x\s+)?([^;]+)(?:;(.*))?", re.DOTALL)
_LIKE: Final = "like "
_MOST: Final = 100_000
_HOSTNAME: Final = "kubernetes.io/hostname"
_STATE_TAINTS: Final = "node.kubernetes.io/"
"""How taints begin that say how a node is, not what it is for; controllers find that out."""


@dataclass(frozen=True, slots=True)
class NodesLike:
    """So many nodes like another.

    Attributes:
        words: what their kubelets have different; empty for nothing.
    """

    count: int
    like: str
    words: str = ""


def nodes_like(kind: str, known: Collection[str]) -> NodesLike | None:
    """Return what *kind* says if it is about one of the nodes *known*; ``None`` for a machine.

    Raises:
        ConfigError: there is no such node.
    """
    count, text, words = kind_parts(kind)
    name = text.removeprefix(_LIKE).strip()
    if name in known:
        return NodesLike(count, name, words)
    if not text.startswith(_LIKE):
        return None
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{kind!r}: there is no node {name!r}{hint}")


def nodes_of_kinds(
    kinds: Sequence[str],
    words: Mapping[str, str] | None = None,
    *,
    prefix: str = "",
    known: Mapping[str, NodeSetup] = MappingProxyType({}),
) -> tuple[NodeSetup, ...]:
    """Return the nodes that *kinds* describe; *words* are for kubelets whose kind says nothing.

    Raises:
        ConfigError: a kind cannot be read; it says which, and why.
    """
    if len(kinds) > len(ascii_lowercase):
        raise ConfigError(f"{len(kinds)} kinds of nodes; {len(ascii_lowercase)} is the limit")
    return tuple(
        node
        for letter, kind in zip(ascii_lowercase, kinds, strict=False)
        for node in _nodes(kind, f"{prefix}{letter}", words or {}, known)
    )


def kind_parts(kind: str) -> tuple[int, str, str]:
    """Return how many nodes, of which machine, with which words."""
    match = _KIND.fullmatch(kind)
    if match is None:
        raise ConfigError(f"{kind!r}: not like '10x 2 sockets, 16 cores, 64Gi; policy=restricted'")
    count = int(match[1] or 1)
    if not 0 < count <= _MOST:
        raise ConfigError(f"{kind!r}: {count} nodes; there may be 1 to {_MOST}")
    return count, match[2].strip(), match[3] or ""


def _nodes(
    kind: str, letter: str, words: Mapping[str, str], known: Mapping[str, NodeSetup]
) -> Iterator[NodeSetup]:
    count, text, told_and_domains = kind_parts(kind)
    told, _, domains = told_and_domains.partition(";")
    like = nodes_like(kind, known) if known or not text.startswith(_LIKE) else None
    if like is None and text.startswith(_LIKE):
        raise ConfigError(f"{kind!r}: there is no cluster with such a node; describe a machine")
    try:
        own, sizes = parse_kubelet_options(told), _domain_sizes(domains)
        first = _like(known[like.like], own) if like else _described(text, {**words, **own})
    except (InvalidValue, ConfigError) as error:
        raise ConfigError(f"{kind!r}: {error}") from None
    width = max(3, len(str(count - 1)))
    for number in range(count):
        name = f"{letter}-{number:0{width}d}"
        labels = {**first.labels, _HOSTNAME: name} if first.labels else first.labels
        own_labels = {label: f"{letter}-{number // size}" for label, size in sizes.items()}
        labels = {**labels, **own_labels} if own_labels else labels
        yield replace(first, name=name, labels=labels)


def _domain_sizes(text: str) -> dict[str, int]:
    """Return ``rack=18,block=72`` by label: so many nodes in a row have one value of it."""
    sizes: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, _, size = part.partition("=")
        if qualified_name(label) or not size.isdecimal() or not int(size):
            raise ConfigError(f"{part!r} is not a node label and how many nodes share it, rack=18")
        sizes[label] = int(size)
    return sizes


def _described(text: str, words: Mapping[str, str]) -> NodeSetup:
    machine = from_shape(text)
    return NodeSetup(name="", machine=machine, config=lab_configuration(machine, words))


def _like(node: NodeSetup, words: Mapping[str, str]) -> NodeSetup:
    """Return a node like another that has just joined; *words* change its kubelet."""
    config = overridden(node.config, node.machine, words) if words else node.config
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_STATE_TAINTS))
    return replace(node, config=config, taints=taints, unschedulable=False, held=None)


_LOCAL, _REMOTE = 10, 20

_CORDONED = "node.kubernetes.io/unschedulable"


def observed_node(
    node: Node,
    topology: NodeResourceTopology | None,
    config: KubeletConfiguration | None = None,
    *,
    words: Mapping[str, str] | None = None,
    kubernetes: str | None = None,
) -> NodeSetup:
    """Return *node* as far as it is known.

    Args:
        node: the object.
        topology: its report.
        config: its kubelet's configuration.
        words: change the configuration (`numakube.kubelet.config_from_words`).
        kubernetes: goes before the version that the kubelet says it is.
    """
    told = words or {}
    view = view_of(topology) if topology else None
    known = view if isinstance(view, NodeTopology) else None
    report = known.report if known else None
    machine = _exact_machine(report) if report else _counted_machine(node, topology)
    if config is None and report is not None:
        config = configuration_of(report.settings)
    if config is None:
        said = {**_reserved(topology, machine), **_words(known)}
        config = lab_configuration(machine, {**said, **told})
        if kept := _memory_kept(node):
            config = with_memory_reserved(config, machine, kept)
    config = overridden(_for_as_many_pods(config, node), machine, told)
    return NodeSetup(
        name=node.metadata.name,
        machine=machine,
        config=config,
        kubernetes=kubernetes or _version(node, report),
        labels=node.metadata.labels,
        taints=tuple(filter(_is_kept, node.spec.taints)),
        also=_also(node, config, machine),
        unschedulable=node.spec.unschedulable,
    )


def _also(node: Node, config: KubeletConfiguration, machine: Machine) -> Amounts:
    """Return what the node offers that its machine and kubelet do not account for."""
    own = allocatable_of(config, machine)
    offered = amounts_of(node.status.allocatable)
    return {name: amount for name, amount in offered.items() if name not in own}


def _capacity(node: Node) -> dict[str, int]:
    return {name: value(text) for name, text in node.status.capacity.items()}


def _version(node: Node, report: ExactReport | None) -> str:
    """Return the kubelet's version without what vendors append."""
    info = node.status.node_info
    told = info.kubelet_version if info is not None else ""
    plain = told.partition("-")[0].partition("+")[0]
    return plain or (report.kubernetes if report is not None else DEFAULT)


def _is_kept(taint: Taint) -> bool:
    return taint.key == _CORDONED or not taint.key.startswith(_STATE_TAINTS)


def _for_as_many_pods(config: KubeletConfiguration, node: Node) -> KubeletConfiguration:
    most = config.max_pods or _capacity(node).get(PODS, 0)
    return msgspec.structs.replace(config, max_pods=most)


def _memory_kept(node: Node) -> int:
    """Return the bytes that are kept from pods, besides hugepages."""
    capacity = _capacity(node)
    allocatable = {name: value(text) for name, text in node.status.allocatable.items()}
    if MEMORY not in allocatable:
        return 0
    pages = sum(amount for name, amount in allocatable.items() if is_hugepages(name))
    return max(0, capacity.get(MEMORY, 0) - pages - allocatable[MEMORY])


def _words(view: NodeTopology | None) -> dict[str, str]:
    """Return the kubelet options that the topology's attributes tell."""
    if view is None:
        return {}
    found = {
        "policy": view.policy,
        "scope": view.scope,
        "cpu": view.cpu_manager_policy,
        "memory": view.memory_manager_policy,
        **view.topology_options,
        **view.cpu_manager_options,
    }
    return {name: text for name, text in found.items() if text}


def _reserved(topology: NodeResourceTopology | None, machine: Machine) -> dict[str, str]:
    """Return as many CPUs of each zone as pods may not use: its first ones."""
    kept: list[int] = []
    nodes = {node.id: node for node in machine.nodes}
    for zone in topology.zones if topology else ():
        if zone.type == "Node":
            cpus = [cpu for core in nodes[_numa_id(zone)].cores for cpu in core.threads]
            amounts = {resource.name: resource for resource in zone.resources}
            if (cpu := amounts.get(CPU)) is not None:
                kept += cpus[: max(0, value(cpu.capacity) - value(cpu.allocatable))]
    return {"reserved-cpus": str(CpuSet.of(kept)).replace(",", "+")} if kept else {}


def _exact_machine(report: ExactReport) -> Machine:
    """Return the machine of a report, with devices whose ids sort as those of the real ones."""
    devices = {
        name: tuple(
            Device(f"{name.rpartition('/')[2]}-{position:05d}", nodes, position not in unhealthy)
            for position, nodes in enumerate(table.numa_nodes)
        )
        for name, table in report.devices.items()
        for unhealthy in (set(table.unhealthy),)
    }
    return replace(report.machine, devices=devices)


def _zones(topology: NodeResourceTopology | None) -> dict[int, dict[str, int]]:
    zones = {}
    for zone in topology.zones if topology else ():
        if zone.type == "Node":
            zones[_numa_id(zone)] = {
                resource.name: value(resource.capacity) for resource in zone.resources
            }
    return zones


def _costs(topology: NodeResourceTopology | None) -> dict[tuple[int, int], int]:
    costs = {}
    for zone in topology.zones if topology else ():
        for cost in zone.costs:
            try:
                costs[_numa_id(zone), numa_id_of(cost.name)] = cost.value
            except (InvalidValue, MalformedObject):
                continue
    return costs


def _numa_id(zone: Zone) -> int:
    try:
        return numa_id_of(zone.name)
    except InvalidValue as error:
        raise MalformedObject("NodeResourceTopology", str(error), path="zones") from None


def _counted_machine(node: Node, topology: NodeResourceTopology | None) -> Machine:
    zones, costs = _zones(topology) or {0: _capacity(node)}, _costs(topology)
    nodes: list[NumaNode] = []
    devices: dict[str, list[Device]] = {}
    first = 0
    for number, resources in sorted(zones.items()):
        count = resources.get(CPU, 0)
        nodes.append(
            NumaNode(
                id=number,
                memory_bytes=resources.get(MEMORY, 0),
                cores=tuple(Core(cpu, (cpu,), number) for cpu in range(first, first + count)),
                hugepages=_hugepages(resources),
                distances=tuple(
                    costs.get((number, other), _LOCAL if other == number else _REMOTE)
                    for other in sorted(zones)
                ),
            )
        )
        first += count
        for name, amount in resources.items():
            if is_extended(name):
                ids = (f"{name.rpartition('/')[2]}-{number}-{index}" for index in range(amount))
                devices.setdefault(name, []).extend(Device(one, (number,)) for one in ids)
    return Machine(
        nodes=tuple(nodes),
        cpu_count=first,
        socket_count=len(nodes),
        devices={name: tuple(members) for name, members in devices.items()},
    )


def _hugepages(resources: Mapping[str, int]) -> tuple[HugePages, ...]:
    return tuple(
        HugePages(hugepage_bytes(name), amount // hugepage_bytes(name))
        for name, amount in resources.items()
        if is_hugepages(name)
    )
