"""Machines in one line: ``2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, nic 4``.

The notation is described in `shape_parse`. Reading and writing are exact: a machine that the
notation cannot express is refused, never approximated. A line is written in one canonical order and
without clauses that only state a default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import InvalidValue
from numakube.kubelet.machines.shape import (
    DEFAULT_DISTANCES,
    PRESETS,
    SHORT_DOMAIN,
    UNITS,
    Attachment,
    CoreCount,
    CoreIds,
    DeviceClause,
    DeviceGroup,
    DistanceLevels,
    HugePagesClause,
    LinksClause,
    Numbering,
    PciClause,
    Shape,
    Uncore,
    size_text,
)
from numakube.kubelet.machines.shape_build import build, infer
from numakube.values.numamask import MAX_NODE_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.kubelet.machine import Machine
    from numakube.kubelet.machines.shape import DevicesPerNode, DistanceMatrix


# Reading the one-line notation of machine shapes, with errors that point at the clause.
#
#     2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, nic 4
#
# Clauses stand in any order, separated by commas, line ends or ` + `. Most may appear once.
#
#     N sockets                        default 1
#     N numa [each | total]            NUMA nodes of each socket (default 1), or of the machine
#     LIST cores                       cores of each NUMA node: 8, or 8/4/0/4, or hybrid 6p+8e
#     smt N                            threads of a core, 1, 2, 4 or 8; E-cores have one
#     LIST                             memory of each NUMA node: 64Gi, or 64Gi/32Gi
#     hugepages-SIZE LIST              pages of each NUMA node; - for no such pool
#     uncore N | node | socket         cores that share an uncore (L3) cache; default: not reported
#     numbering WORD                   siblings-last (default), adjacent or interleaved
#     core-ids socket | machine        where the kernel starts to count cores; default socket
#     distances A [B [C [D]]]          to itself, same socket, other socket, memory-only node
#     distances A B / C D              a matrix by ascending node id
#     distances none                   the machine reports none
#     [N] cxl SIZE                     N memory-only NUMA nodes (default 1)
#     ids N,N-N                        node ids by position: sockets' nodes first, then cxl
#     NAME ITEM...                     devices; a bare NAME is vendor.example/NAME
#     N switches [cascaded]            PCIe switches of each NUMA node, with its devices behind them
#     N slots                          cards of each resource on each NUMA node, on a root port each
#     links N NAME                     NVLink or xGMI links between any two devices NAME
#     islands N NAME                   only between those of one of N islands
#
# A device ITEM is a LIST of counts a NUMA node (`2` or `2/0`), `N@-` for devices whose plugin
# reports no topology, or `N@0+1` for devices that belong to the NUMA nodes 0 and 1. A LIST has
# either one value for all NUMA nodes with a socket, or one for each NUMA node separated by `/`.


KEYWORDS: Final = (
    "sockets",
    "numa",
    "cores",
    "smt",
    "memory",
    "hugepages",
    "uncore",
    "numbering",
    "core-ids",
    "distances",
    "cxl",
    "ids",
    "switches",
    "slots",
    "links",
    "islands",
)

_SEPARATOR = re.compile(r",|\n|(?:(?<=\s)|^)\+(?=\s)")
_SIZE = re.compile(r"([0-9]+)([KMGTP]i|[kMGTB])|0", re.ASCII)
_NUMBERED = re.compile(r"([0-9]+)(.*)", re.ASCII)
_LIKE_SIZE = re.compile(r"([0-9]+)([kmgtp])i?b?", re.ASCII | re.IGNORECASE)
_CORES = re.compile(r"([0-9]+)p?|(?:([0-9]+)p\+)?([0-9]+)e", re.ASCII)
_IDS = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
_SHORT_NAME = re.compile(r"[a-z][a-z0-9_.-]*", re.ASCII)
_FULL_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_DEVICES_AT = re.compile(r"([0-9]+)@(-|[0-9]+(?:\+[0-9]+)*)", re.ASCII)
# A bare word this similar to a keyword is a typing error rather than a device.
_TOO_CLOSE: Final = 0.75
# Longer numbers are typing errors, and would be slow to build.
_MAX_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class ShapeClause:
    """A piece of the sentence and where it stands, counted from 1."""

    text: str
    column: int

    def error(self, reason: str) -> InvalidValue:
        """Return the error that points at this clause."""
        return InvalidValue(f"machine shape, column {self.column}: {self.text!r}: {reason}")

    def number(self, word: str, *, minimum: int = 0) -> int:
        """Return *word* as a number."""
        if not (word.isascii() and word.isdigit() and len(word) <= _MAX_DIGITS):
            raise self.error(f"{word!r} is not a number")
        if int(word) < minimum:
            raise self.error(f"must be at least {minimum}")
        return int(word)

    def size(self, word: str) -> int:
        """Return *word*, such as ``64Gi``, in bytes."""
        match = _SIZE.fullmatch(word)
        if not match:
            raise self.error(f"{word!r} is not a size such as 64Gi")
        number, unit = match.groups()
        return self.number(number) * UNITS[unit] if unit else 0

    def only(self, words: list[str], example: str) -> str:
        """Return the only word, or explain with an *example*."""
        if len(words) != 1:
            raise self.error(f"write it like `{example}`")
        return words[0]


@dataclass(slots=True)
class _ShapeReader:
    """Collects the fields of a shape clause by clause; a later part may replace what it read."""

    fields: dict[str, Any] = field(default_factory=dict)
    hugepages: dict[int, HugePagesClause] = field(default_factory=dict)
    devices: dict[str, DeviceClause] = field(default_factory=dict)
    links: dict[str, LinksClause] = field(default_factory=dict)
    islands: dict[str, int] = field(default_factory=dict)
    clauses: dict[str, ShapeClause] = field(default_factory=dict)
    """Which clause has set a field or resource, to point at it."""
    fresh: set[str] = field(default_factory=set)
    """What the current part has set: setting it again is an error."""

    def read(self, text: str, *, column: int | None = None) -> None:
        """Read all clauses of *text*, reporting errors at *column* if it is given."""
        self.fresh.clear()
        for clause in _clauses(text):
            _read_clause(self, clause if column is None else ShapeClause(clause.text, column))

    def claim(self, key: str, clause: ShapeClause) -> None:
        """Note that *clause* sets *key*, which may happen once a part."""
        if key in self.fresh:
            raise clause.error(f"{key} is already given at column {self.clauses[key].column}")
        self.fresh.add(key)
        self.clauses[key] = clause

    def set(self, key: str, value: object, clause: ShapeClause) -> None:
        """Set a field of the shape."""
        self.claim(key, clause)
        self.fields[key] = value

    def shape(self, text: str) -> Shape:
        """Return the shape that was read, which must be complete and without contradiction."""
        for key, example in (("cores", "8 cores"), ("memory", "64Gi")):
            if key not in self.fields:
                raise InvalidValue(
                    f"machine shape {text!r}: {key} is missing; add for example `{example}`"
                )
        shape = Shape(
            **self.fields,
            hugepages=tuple(self.hugepages.values()),
            devices=tuple(self.devices.values()),
            links=tuple(self._linked()),
        )
        if defect := shape.defect():
            clause = self.clauses.get(defect.field, ShapeClause(text, 1))
            raise clause.error(defect.reason)
        return shape

    def _linked(self) -> Iterator[LinksClause]:
        """Yield the links of each resource; in islands that say no more there is one of each."""
        for resource in (*self.links, *(name for name in self.islands if name not in self.links)):
            clause = self.links.get(resource, LinksClause(resource, 1))
            yield replace(clause, islands=self.islands.get(resource, 1))


def parse(text: str, *, presets: Mapping[str, str] = MappingProxyType({})) -> Shape:
    """Return the shape that *text* describes; it may start with the name of a preset.

    Raises:
        InvalidValue: with the column and the clause at fault.
    """
    reader = _ShapeReader()
    name, comma, rest = text.partition(",")
    if name.strip() in presets:
        reader.read(presets[name.strip()], column=1)
        reader.read(" " * len(name + comma) + rest)
    else:
        _refuse_unknown_preset(text, presets)
        reader.read(text)
    return reader.shape(text)


def _refuse_unknown_preset(text: str, presets: Mapping[str, str]) -> None:
    word = text.partition(",")[0].strip()
    if not presets or not word or " " in word or "/" in word or _SIZE.fullmatch(word):
        return
    close = get_close_matches(word, presets, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(presets))}"
    raise InvalidValue(f"machine shape, column 1: {word!r}: unknown preset; {hint}")


def _clauses(text: str) -> Iterator[ShapeClause]:
    """Split *text* at its separators; a bare number belongs to the list before it."""
    start, pending = 0, None
    for end, after in [*(match.span() for match in _SEPARATOR.finditer(text)), (len(text),) * 2]:
        piece = text[start:end]
        clause = ShapeClause(piece.strip(), start + len(piece) - len(piece.lstrip()) + 1)
        start = after
        if (
            pending
            and pending.text.startswith(("ids ", "distances "))
            and _IDS.fullmatch(clause.text)
        ):
            pending = ShapeClause(f"{pending.text} {clause.text}", pending.column)
        elif clause.text:
            if pending:
                yield pending
            pending = clause
    if pending:
        yield pending


def _read_clause(reader: _ShapeReader, clause: ShapeClause) -> None:
    words = clause.text.split()
    for index, word in enumerate(words[:2]):
        if word in _READERS:
            _READERS[word](reader, clause, words[:index] + words[index + 1 :])
            return
    if all(_SIZE.fullmatch(item) for item in words[0].split("/")) and len(words) == 1:
        _read_memory(reader, clause, words)
    elif words[0].startswith("hugepages-"):
        _read_hugepages(reader, clause, words)
    else:
        _read_devices(reader, clause, words)


def _read_sockets(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    count = clause.number(clause.only(words, "2 sockets"), minimum=1)
    reader.set("sockets", count, clause)


def _read_numa(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    scope = words.pop() if len(words) == 2 else "each"
    if scope not in ("each", "total"):
        raise clause.error(f"{scope!r}: write it like `2 numa each` or `2 numa total`")
    count = clause.number(clause.only(words, "2 numa each"), minimum=1)
    reader.set("numa", count, clause)
    reader.fields["numa_is_total"] = scope == "total"


def _read_cores(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    items = clause.only(words, "8 cores").split("/")
    reader.set("cores", tuple(_core_count(clause, item) for item in items), clause)


def _core_count(clause: ShapeClause, item: str) -> CoreCount:
    match = _CORES.fullmatch(item)
    if not match:
        raise clause.error(f"{item!r} is not a number of cores such as 8 or 6p+8e")
    plain, full, single = (clause.number(group or "0") for group in match.groups())
    return CoreCount(full=plain + full, single=single)


def _read_smt(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    reader.set("smt", clause.number(clause.only(words, "smt 2")), clause)


def _read_memory(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    items = clause.only(words, "64Gi").split("/")
    reader.set("memory", tuple(clause.size(item) for item in items), clause)


def _read_hugepages(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    page_bytes = clause.size(words[0].removeprefix("hugepages-"))
    if page_bytes == 0 or page_bytes % UNITS["Ki"]:
        raise clause.error("a hugepage is a whole number of KiB, such as hugepages-2Mi")
    items = clause.only(words[1:], "hugepages-1Gi 4").split("/")
    counts = tuple(None if item == "-" else clause.number(item) for item in items)
    reader.claim(f"hugepages-{size_text(page_bytes)}", clause)
    reader.clauses["hugepages"] = clause
    reader.hugepages[page_bytes] = HugePagesClause(page_bytes, counts)


def _read_uncore(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    extent = clause.only(words, "uncore 8")
    value = Uncore(extent) if extent in set(Uncore) else clause.number(extent, minimum=1)
    reader.set("uncore", value, clause)


def _read_numbering(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    word = clause.only(words, "numbering adjacent")
    if word not in set(Numbering):
        raise clause.error(f"{word!r}: choose {', '.join(Numbering)}")
    reader.set("numbering", Numbering(word), clause)


def _read_core_ids(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    word = clause.only(words, "core-ids machine")
    if word not in set(CoreIds):
        raise clause.error(f"{word!r}: choose {' or '.join(CoreIds)}")
    reader.set("core_ids", CoreIds(word), clause)


def _read_distances(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    rows = [row.split() for row in " ".join(words).split("/")]
    value: DistanceLevels | DistanceMatrix | None
    if words == ["none"]:
        value = None
    elif len(rows) > 1:
        value = tuple(tuple(clause.number(word) for word in row) for row in rows)
    elif 1 <= len(words) <= len(DistanceLevels._fields):
        value = DistanceLevels(*(clause.number(word) for word in words))
    else:
        raise clause.error("write one to four numbers, or a matrix with rows separated by /")
    reader.set("distances", value, clause)


def _read_cxl(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    count = clause.number(words.pop(0), minimum=1) if len(words) == 2 else 1
    memory = clause.size(clause.only(words, "cxl 128Gi"))
    before: tuple[int, ...] = reader.fields.get("extra_memory", ())
    if "extra_memory" not in reader.fresh:
        before = ()
        reader.claim("extra_memory", clause)
    if count > MAX_NODE_ID:
        raise clause.error(f"{count} NUMA nodes; {MAX_NODE_ID + 1} is the limit")
    reader.fields["extra_memory"] = before + (memory,) * count


def _read_ids(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    ids: list[int] = []
    for word in words:
        match = _IDS.fullmatch(word)
        if not match:
            raise clause.error(f"{word!r} is not a node id or a range of ids")
        first = clause.number(match[1])
        last = clause.number(match[2] or match[1])
        if last > MAX_NODE_ID:
            raise clause.error(f"{last} is above {MAX_NODE_ID}, the highest id of a node")
        ids.extend(range(first, last + 1))
    reader.set("ids", tuple(ids), clause)


def _read_switches(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    kind = Attachment.SWITCHES
    if words[1:] == ["cascaded"]:
        kind = Attachment.CASCADES
        words = words[:1]
    _read_attachment(reader, clause, words, kind)


def _read_slots(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    _read_attachment(reader, clause, words, Attachment.SLOTS)


def _read_attachment(
    reader: _ShapeReader, clause: ShapeClause, words: list[str], kind: Attachment
) -> None:
    count = clause.number(clause.only(words, f"2 {kind}"), minimum=1)
    reader.set("pci", PciClause(kind, count), clause)


def _read_links(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    if len(words) != 2:
        raise clause.error("write it like `links 18 nvidia.com/gpu`")
    resource = _resource(clause, words[1])
    reader.claim(f"links {resource}", clause)
    reader.clauses["links"] = clause
    reader.links[resource] = LinksClause(resource, clause.number(words[0], minimum=1))


def _read_islands(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    if len(words) != 2:
        raise clause.error("write it like `islands 2 nvidia.com/gpu`")
    resource = _resource(clause, words[1])
    reader.claim(f"islands {resource}", clause)
    reader.clauses["links"] = clause
    reader.islands[resource] = clause.number(words[0], minimum=1)


def _read_devices(reader: _ShapeReader, clause: ShapeClause, words: list[str]) -> None:
    resource = _resource(clause, words[0])
    if len(words) == 1:
        raise clause.error(f"how many for each NUMA node? For example `{words[0]} 2`")
    items = tuple(_device_item(clause, word) for word in words[1:])
    reader.claim(resource, clause)
    reader.devices[resource] = DeviceClause(resource, items)


def _resource(clause: ShapeClause, name: str) -> str:
    if _FULL_NAME.fullmatch(name):
        return name
    if name[0].isdigit():
        raise clause.error(f"unknown clause; {_hint(clause.text.split())}")
    if not _SHORT_NAME.fullmatch(name):
        raise clause.error(f"{name!r} is not a clause and not the name of a resource")
    if close := get_close_matches(name, KEYWORDS, n=1, cutoff=_TOO_CLOSE):
        raise clause.error(
            f"did you mean {close[0]}? (for a device of that name, write {SHORT_DOMAIN}/{name})"
        )
    return f"{SHORT_DOMAIN}/{name}"


def _hint(words: list[str]) -> str:
    """Return what was probably meant by *words* that begin with a number."""
    if len(words) == 1 and (size := _LIKE_SIZE.fullmatch(words[0])):
        return f"a size is written like {size[1]}{size[2].upper()}i"
    if words[1:2] in (["node"], ["nodes"]):
        return (
            "a shape is one machine; how many there are is written as in `10x 2 sockets`, or apart"
        )
    found = _NUMBERED.fullmatch(words[0])
    number, word = found.groups() if found else ("", "")
    close = get_close_matches(word or " ".join(words[1:]), KEYWORDS, n=1)
    return f"did you mean {number} {close[0]}?" if close else "devices are written like `gpu 2`"


def is_short_name(name: str) -> bool:
    """Tell whether a device can be called by this bare name."""
    return bool(_SHORT_NAME.fullmatch(name)) and not (
        name.startswith("hugepages-") or get_close_matches(name, KEYWORDS, n=1, cutoff=_TOO_CLOSE)
    )


def _device_item(clause: ShapeClause, word: str) -> DevicesPerNode | DeviceGroup:
    if match := _DEVICES_AT.fullmatch(word):
        place = () if match[2] == "-" else tuple(map(clause.number, match[2].split("+")))
        return DeviceGroup(clause.number(match[1]), place)
    return tuple(clause.number(item) for item in word.split("/"))


_READERS: Final[dict[str, Callable[[_ShapeReader, ShapeClause, list[str]], None]]] = {
    "socket": _read_sockets,
    "sockets": _read_sockets,
    "numa": _read_numa,
    "core": _read_cores,
    "cores": _read_cores,
    "smt": _read_smt,
    "memory": _read_memory,
    "uncore": _read_uncore,
    "numbering": _read_numbering,
    "core-ids": _read_core_ids,
    "distances": _read_distances,
    "cxl": _read_cxl,
    "ids": _read_ids,
    "switch": _read_switches,
    "switches": _read_switches,
    "slot": _read_slots,
    "slots": _read_slots,
    "links": _read_links,
    "islands": _read_islands,
}


def from_shape(text: str) -> Machine:
    """Return the machine that *text* describes: a shape, a preset, or a preset with changes.

    Raises:
        InvalidValue: with the column and the clause at fault.
    """
    return build(parse(text, presets=PRESETS))


def to_shape(machine: Machine) -> str:
    """Return the one line from which `from_shape` makes *machine*.

    Raises:
        InvalidValue: the machine is not regular enough; the message says where.
    """
    return print_shape(infer(machine))


def print_shape(shape: Shape) -> str:
    """Return the sentence that `shape_parse.parse` reads as *shape*."""
    return ", ".join((*_processor_clauses(shape), *_memory_clauses(shape), *_other_clauses(shape)))


def _processor_clauses(shape: Shape) -> Iterator[str]:
    yield f"{shape.sockets} socket{'s' if shape.sockets != 1 else ''}"
    if shape.numa_is_total:
        yield f"{shape.numa} numa total"
    elif shape.numa != 1:
        yield f"{shape.numa} numa each"
    yield f"{_list(shape, (_cores_text(count, shape.smt) for count in shape.cores))} cores"
    if shape.smt != 1:
        yield f"smt {shape.smt}"
    if shape.numbering is not Numbering.SIBLINGS_LAST:
        yield f"numbering {shape.numbering}"
    if shape.core_ids is not CoreIds.SOCKET:
        yield f"core-ids {shape.core_ids}"
    if shape.uncore is not None:
        yield f"uncore {shape.uncore}"


def _memory_clauses(shape: Shape) -> Iterator[str]:
    yield _list(shape, (size_text(size) for size in shape.memory))
    for clause in shape.hugepages:
        counts = _list(shape, ("-" if n is None else str(n) for n in clause.counts))
        yield f"hugepages-{size_text(clause.page_bytes)} {counts}"
    for size, group in groupby(shape.extra_memory):
        number = len(list(group))
        yield f"{number if number > 1 else ''} cxl {size_text(size)}".lstrip()


def _other_clauses(shape: Shape) -> Iterator[str]:
    if shape.ids:
        yield f"ids {' '.join(map(str, shape.ids))}"
    if shape.distances != DEFAULT_DISTANCES:
        yield f"distances {_distances_text(shape)}"
    yield from (_devices_text(shape, clause) for clause in shape.devices)
    if shape.pci is not None:
        yield _pci_text(shape.pci)
    for clause in shape.links:
        yield f"links {clause.count} {_name(clause.resource)}"
        if clause.islands > 1:
            yield f"islands {clause.islands} {_name(clause.resource)}"


def _list(shape: Shape, items: Iterable[str]) -> str:
    """Join *items* with slashes, or say it once if it is so on every node with a socket."""
    listed = list(items)
    same = len(set(listed)) == 1 and len(listed) <= shape.socketed_nodes
    return listed[0] if same else "/".join(listed)


def _cores_text(count: CoreCount, smt: int) -> str:
    if smt == 1 or not count.single:
        return str(count.full + count.single)
    return f"{count.full}p+{count.single}e" if count.full else f"{count.single}e"


def _distances_text(shape: Shape) -> str:
    match shape.distances:
        case None:
            return "none"
        case DistanceLevels() as levels:
            used = max(i for i in range(len(levels)) if levels[i] != DEFAULT_DISTANCES[i])
            return " ".join(map(str, levels[: used + 1]))
        case matrix:
            return " / ".join(" ".join(map(str, row)) for row in matrix)


def _devices_text(shape: Shape, clause: DeviceClause) -> str:
    items = (_item_text(shape, item) for item in clause.items)
    return " ".join((_name(clause.resource), *items))


def _pci_text(clause: PciClause) -> str:
    one = {"switches": "switch", "slots": "slot"} if clause.count == 1 else {}
    return " ".join((str(clause.count), *(one.get(word, word) for word in clause.kind.split())))


def _name(resource: str) -> str:
    domain, _, short = resource.rpartition("/")
    return short if domain == SHORT_DOMAIN and is_short_name(short) else resource


def _item_text(shape: Shape, item: DevicesPerNode | DeviceGroup) -> str:
    if isinstance(item, DeviceGroup):
        return f"{item.count}@{'+'.join(map(str, item.nodes)) or '-'}"
    return _list(shape, map(str, item))
