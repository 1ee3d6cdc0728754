"""A report as the text of an annotation, and back, tied to the zones that it was written with.

JSON of short texts (`numakube.topology.report_notation`) that a person can read. If that is longer
than what we want to keep in an object, the same JSON is deflated and written in base64 after
``z:``. A reader refuses versions that it does not know and texts beyond
`numakube.values.safe_text`; no text makes it raise.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.api.nrt import attribute_value
from numakube.errors import ConfigError, InvalidValue
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.exact_report import BadReport, DeviceTable, ExactReport, Holding, defect_of
from numakube.topology.report_notation import (
    MachineTable,
    TreeTable,
    count_devices,
    read_cell,
    read_choice,
    read_devices,
    read_functions,
    read_holding,
    read_machine,
    read_structure,
    read_tree,
    write_cell,
    write_choice,
    write_devices,
    write_functions,
    write_holding,
    write_memory,
    write_structure,
    write_tree,
)
from numakube.values.cpuset import CpuSet, union
from numakube.values.safe_text import (
    MAX_DEVICES,
    MAX_PODS,
    MAX_RATIO,
    MAX_RESOURCES,
    MAX_TEXT,
    limited,
    quoted,
    reason_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.nrt import Attribute, NodeResourceTopology, Zone


VERSION: Final = 1
PLAIN_LIMIT: Final = 8192
"""Above this many characters a report is compressed."""

T = TypeVar("T")

_COMPRESSED: Final = "z:"
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class _Versioned(msgspec.Struct, frozen=True):
    v: int


class _Bound(msgspec.Struct, frozen=True):
    checksum: str = ""


class _Settings(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """`KubeletSettings`; what has the kubelet's default is left out."""

    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: dict[str, str] = {}
    cpu_policy: str = "none"
    cpu_options: dict[str, str] = {}
    reserved_cpus: str | None = None
    reserved_cpu_milli: int | None = None
    memory_policy: str = "None"
    reserved_memory: dict[int, dict[str, _Bytes]] = {}
    memory_reservation: dict[str, _Bytes] | None = None
    feature_gates: dict[str, bool] = {}


class _Report(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The JSON form of version 1.

    Attributes:
        lost: CPUs that are neither in the shared pool nor with a pod, such as strictly reserved
            ones; ``None`` with the CPU policy ``none``.
        shared: the shared pool itself, if it does not follow from ``lost`` and the pods.
        choices: how plugins choose among devices, by resource. Readers that do not know the key or
            the rule do without: it says more than counts, but nothing else follows from it.
        tree: how PCI functions are connected, with the same freedom for readers.
        functions: which of them the devices of a resource are.
        checksum: of the zones that all of this belongs to.
    """

    v: int
    kubernetes: str
    machine: str | MachineTable
    memory: tuple[str, ...]
    settings: msgspec.Raw
    lost: str | None = None
    shared: str | None = None
    books: dict[int, str] = {}
    devices: dict[str, str] = {}
    choices: dict[str, str] = {}
    pods: dict[str, str] = {}
    tree: TreeTable | None = None
    functions: dict[str, str] = {}
    checksum: str = ""


class _Moving(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The keys of `_Report` that change with the pods."""

    lost: str | None = None
    shared: str | None = None
    books: dict[int, str] = {}
    pods: dict[str, str] = {}


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Report)
_MOVING_DECODER: Final = msgspec.json.Decoder(_Moving)
_BOUND_DECODER: Final = msgspec.json.Decoder(_Bound)
_SETTINGS_DECODER: Final = msgspec.json.Decoder(_Settings)
_VERSION_DECODER: Final = msgspec.json.Decoder(_Versioned)


def encode_report(report: ExactReport) -> str:
    """Return *report* as the value of an annotation."""
    return _packed(_to_wire(report))


def moving_part(text: str) -> str:
    """Return the keys of a report's *text* that change with the pods, as a text like it.

    Raises:
        InvalidValue: it is no report.
    """
    return _packed(_unpacked(text, _MOVING_DECODER))


def checksum_in(text: str) -> str:
    """Return the checksum that a report's *text* carries; empty if there is none.

    Raises:
        InvalidValue: it is no report.
    """
    return _unpacked(text, _BOUND_DECODER).checksum


def with_moving_part(text: str, moving: str, *, checksum: str) -> str:
    """Return the *text* of a report with other values of the keys that change with the pods.

    Args:
        text: the report.
        moving: the other values.
        checksum: of the zones that the result belongs to, if *text* has one at all.

    Raises:
        InvalidValue: one of the texts is not what it should be.
    """
    report, part = _unpacked(text, _DECODER), _unpacked(moving, _MOVING_DECODER)
    changes = msgspec.structs.asdict(part)
    if report.checksum:
        changes["checksum"] = checksum
    return _packed(msgspec.structs.replace(report, **changes))


def _packed(wire: _Report | _Moving) -> str:
    data = _ENCODER.encode(wire)
    if len(data) <= PLAIN_LIMIT:
        return data.decode()
    return _COMPRESSED + b64encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str, decoder: msgspec.json.Decoder[T]) -> T:
    if len(text) > MAX_TEXT:
        raise InvalidValue(f"longer than {MAX_TEXT} characters")
    try:
        return decoder.decode(_inflate(text) if text.startswith(_COMPRESSED) else text.encode())
    except BROKEN_JSON as error:
        raise InvalidValue(quoted(str(error))) from None


def decode_report(text: str) -> ExactReport | BadReport:
    """Return the report in *text*, or why there is none."""
    try:
        return _decode_report(text)
    except Exception as error:
        # A defect of the checks below; whose report it is must not stop who reads it.
        return BadReport(f"it cannot be read: {reason_of(error)}")


def _decode_report(text: str) -> ExactReport | BadReport:
    if len(text) > MAX_TEXT:
        return BadReport(f"longer than {MAX_TEXT} characters")
    try:
        data = _inflate(text) if text.startswith(_COMPRESSED) else text.encode()
        version = _VERSION_DECODER.decode(data).v
        if version != VERSION:
            return BadReport(f"version {version} is not known; this reader knows {VERSION}")
        wire = _DECODER.decode(data)
        report = _from_wire(wire)
        behaviour_of(report.kubernetes)
    except (*BROKEN_JSON, InvalidValue) as error:
        return BadReport(f"malformed: {quoted(str(error))}")
    except ConfigError as error:
        return BadReport(quoted(str(error)))
    defect = defect_of(report, cpus=read_structure(wire.machine).cpus)
    return report if defect is None else BadReport(f"contradicts itself: {quoted(defect)}")


def _inflate(text: str) -> bytes:
    try:
        packed = b64decode(text.removeprefix(_COMPRESSED).encode(), validate=True)
        stream = zlib.decompressobj()
        most = min(MAX_TEXT, max(8 * PLAIN_LIMIT, MAX_RATIO * len(packed)))
        data = stream.decompress(packed, most)
    except (Base64Error, zlib.error) as error:
        raise InvalidValue(f"compressed text: {error}") from None
    if not stream.eof:
        raise InvalidValue(f"compressed text: cut short or too long, {most} bytes at most")
    return data


def _to_wire(report: ExactReport) -> _Report:
    resources = {name: position for position, name in enumerate(report.devices)}
    lost, shared = _write_pool(report)
    return _Report(
        v=VERSION,
        kubernetes=report.kubernetes,
        machine=write_structure(report.machine),
        memory=write_memory(report.machine),
        settings=_write_settings(report.settings),
        lost=lost,
        shared=shared,
        books={node: write_cell(cell) for node, cell in report.memory.items()},
        devices={name: write_devices(table) for name, table in report.devices.items()},
        choices={
            name: write_choice(table.choice, len(table.numa_nodes))
            for name, table in report.devices.items()
            if table.choice is not None
        },
        pods=_write_pods(report, resources),
        tree=write_tree(report.tree),
        functions={
            name: write_functions(table.functions, report.tree)
            for name, table in report.devices.items()
            if table.functions
        },
        checksum=report.checksum,
    )


def _write_pods(report: ExactReport, resources: Mapping[str, int]) -> dict[str, str]:
    """Return the pods in the order of what they hold, so that a state has one text.

    Kubelets list pods in any order: it says nothing, and must not look like a change.
    """
    pods = {uid: write_holding(one, resources) for uid, one in report.pods.items()}
    return dict(sorted(pods.items(), key=lambda pod: (pod[1], pod[0])))


def _from_wire(wire: _Report) -> ExactReport:
    resources = tuple(wire.devices)
    limited("kinds of devices", len(resources), MAX_RESOURCES)
    limited("pods", len(wire.pods), MAX_PODS)
    limited("devices", sum(map(count_devices, wire.devices.values())), MAX_DEVICES)
    pods = {uid: read_holding(text, resources) for uid, text in wire.pods.items()}
    return ExactReport(
        machine=read_machine(wire.machine, wire.memory),
        settings=_read_settings(bytes(wire.settings)),
        kubernetes=wire.kubernetes,
        shared_cpus=_read_pool(wire, pods),
        memory={node: read_cell(text) for node, text in wire.books.items()},
        devices={
            name: _read_devices(text, wire.choices.get(name), wire.functions.get(name), wire.tree)
            for name, text in wire.devices.items()
        },
        pods=pods,
        tree=read_tree(wire.tree),
        checksum=wire.checksum,
    )


@lru_cache(maxsize=4096)
def _read_devices(
    text: str, choice: str | None, functions: str | None, tree: TreeTable | None
) -> DeviceTable:
    table = read_devices(text)
    count = len(table.numa_nodes)
    if choice is not None:
        table = replace(table, choice=read_choice(choice, count))
    if functions is not None:
        table = replace(table, functions=read_functions(functions, read_tree(tree), count))
    return table


def _write_pool(report: ExactReport) -> tuple[str | None, str | None]:
    """Return what to write as ``lost`` and as ``shared``."""
    if report.shared_cpus is None:
        return None, None
    shared, held = report.shared_cpus.bits, _held(report.pods)
    everything = read_structure(write_structure(report.machine)).cpus
    lost = everything & ~shared & ~held
    if everything & ~held & ~lost == shared:
        return str(CpuSet(lost)), None
    return None, str(report.shared_cpus)


def _read_pool(wire: _Report, pods: Mapping[str, Holding]) -> CpuSet | None:
    if wire.shared is not None:
        return CpuSet.parse(wire.shared)
    if wire.lost is None:
        return None
    taken = CpuSet.parse(wire.lost).bits | _held(pods)
    return CpuSet(read_structure(wire.machine).cpus & ~taken)


def _held(pods: Mapping[str, Holding]) -> int:
    return union(holding.cpus.bits for holding in pods.values())


def _write_settings(settings: KubeletSettings) -> msgspec.Raw:
    reserved = settings.reserved_cpus
    wire = _Settings(
        topology_policy=settings.topology_policy,
        topology_scope=settings.topology_scope,
        topology_options=dict(settings.topology_options),
        cpu_policy=settings.cpu_policy,
        cpu_options=dict(settings.cpu_options),
        reserved_cpus=None if reserved is None else str(reserved),
        reserved_cpu_milli=settings.reserved_cpu_milli,
        memory_policy=settings.memory_policy,
        reserved_memory={node: dict(sizes) for node, sizes in settings.reserved_memory.items()},
        memory_reservation=(
            None if settings.memory_reservation is None else dict(settings.memory_reservation)
        ),
        feature_gates=dict(settings.feature_gates),
    )
    return msgspec.Raw(_ENCODER.encode(wire))


# Nodes of one pool have the same settings: one object serves all of them.
@lru_cache(maxsize=1024)
def _read_settings(data: bytes) -> KubeletSettings:
    wire = _SETTINGS_DECODER.decode(data)
    reserved = wire.reserved_cpus
    return KubeletSettings(
        topology_policy=wire.topology_policy,
        topology_scope=wire.topology_scope,
        topology_options=wire.topology_options,
        cpu_policy=wire.cpu_policy,
        cpu_options=wire.cpu_options,
        reserved_cpus=None if reserved is None else CpuSet.parse(reserved),
        reserved_cpu_milli=wire.reserved_cpu_milli,
        memory_policy=wire.memory_policy,
        reserved_memory=wire.reserved_memory,
        memory_reservation=wire.memory_reservation,
        feature_gates=wire.feature_gates,
    )


# Ties exact data to the zones that it was written with.
#
# Every producer writes ``zones`` and ``attributes`` as a whole and leaves annotations of others as
# they are. So exact data outlives its exporter when another producer takes the object over, and
# would then speak of pods that left long ago. It carries a checksum of the zones and attributes
# that it belongs to: where these are others, somebody else wrote last, and the exact data says
# nothing.
#
# Exact data of exporters that write no checksum counts unless the object has marks of somebody
# else.


# 48 bits for each half: they tell two writers apart, and nobody gains by forging them.
_DIGEST_BYTES: Final = 6
_BETWEEN: Final = "-"


def with_exact(nrt: NodeResourceTopology, exact: ExactReport) -> NodeResourceTopology:
    """Return *nrt* with *exact* as the exact data of its zones."""
    exact = replace(exact, checksum=checksum_of(nrt.zones, nrt.attributes))
    annotations = {**nrt.metadata.annotations, nrt_names.EXACT_ANNOTATION: encode_report(exact)}
    metadata = msgspec.structs.replace(nrt.metadata, annotations=annotations)
    return msgspec.structs.replace(nrt, metadata=metadata)


def belongs_to(exact: ExactReport, nrt: NodeResourceTopology) -> bool:
    """Tell whether *exact* is of the zones that *nrt* has."""
    return is_checksum_of(exact.checksum, nrt)


def is_checksum_of(checksum: str, nrt: NodeResourceTopology) -> bool:
    """Tell whether exact data with that *checksum* is of the zones that *nrt* has."""
    if not checksum:
        return not _has_marks_of_others(nrt)
    zones, _, attributes = checksum.partition(_BETWEEN)
    if zones != _zones_digest(nrt.zones):
        return False
    # Version v1alpha1 of the API has no attributes of nodes.
    return not nrt.attributes or attributes == _attributes_digest(nrt.attributes)


def checksum_of(zones: Sequence[Zone], attributes: Iterable[Attribute]) -> str:
    """Return what exact data carries to be known as that of *zones* and *attributes*."""
    return f"{_zones_digest(zones)}{_BETWEEN}{_attributes_digest(attributes)}"


def _has_marks_of_others(nrt: NodeResourceTopology) -> bool:
    """Tell whether somebody else wrote last: our exporters delete the one and write the other."""
    if nrt.topology_policies:
        return True
    return bool(nrt.attributes) and attribute_value(nrt.attributes, nrt_names.CPU_POLICY) is None


def _zones_digest(zones: Iterable[Zone]) -> str:
    return _digest(
        f"{zone.name} {resource.name} {resource.capacity}"
        f" {resource.allocatable} {resource.available}"
        for zone in zones
        for resource in zone.resources
    )


def _attributes_digest(attributes: Iterable[Attribute]) -> str:
    # The word that a report is old comes later than the report.
    return _digest(
        f"{attribute.name} {attribute.value}"
        for attribute in attributes
        if attribute.name != nrt_names.STALE
    )


def _digest(lines: Iterable[str]) -> str:
    """Return the digest of *lines* in any order."""
    return blake2b("\n".join(sorted(lines)).encode(), digest_size=_DIGEST_BYTES).hexdigest()
