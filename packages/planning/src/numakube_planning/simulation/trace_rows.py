"""Public traces of GPU clusters: their rows, and draws from them.

Nodes and pods of the public Alibaba GPU traces, read from CSV.

Two formats of pods are known and told apart by their header:

- cluster-trace-gpu-v2023 ("openb"): ``name, cpu_milli, memory_mib, num_gpu, gpu_milli``; variants
  add ``gpu_spec``, ``qos``, ``creation_time`` and ``deletion_time``. A pod has several whole GPUs
  or a part of one. The nodes are in a file of their own: ``sn, cpu_milli, memory_mib, gpu, model``.
- cluster-trace-gpu-v2025: ``instance_sn, app_name, cpu_request, gpu_request, rdma_request,
  memory_request`` (GiB), ``max_instance_per_node`` and times, where ``NaN`` is before the start or
  after the end of the trace. It has no file of nodes.

A row that cannot be used is an error that names file, row and field. Rows are counted as an editor
counts lines: the header is row 1.

Draws from the pods of a trace: the commonest shapes, and as many pods as a demand takes.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np

WHOLE_GPU: Final = 1000
"""Thousandths of a GPU."""
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_OPENB_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_V2025_COLUMNS: Final = (
    "instance_sn",
    "app_name",
    "cpu_request",
    "gpu_request",
    "rdma_request",
    "memory_request",
    "max_instance_per_node",
    "creation_time",
    "deletion_time",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """A node of a trace. All of its GPUs are of one model."""

    name: str
    cpu_milli: int
    memory_bytes: int
    gpus: int = 0
    gpu_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePod:
    """A pod of a trace.

    Attributes:
        gpus: how many GPUs it is on; 1 for a part of a GPU.
        gpu_milli: thousandths that it has of each of them.
        gpu_models: the models that it accepts; empty for any.
        rdma_percent: its part of the bandwidth of an RDMA card.
        qos: the class in the words of the trace, such as ``LS`` or ``BE``.
        app: the group of pods that it belongs to; empty if the trace has no groups.
        most_per_node: how many pods of the group a node may have; ``None`` for any number.
        created: seconds since the start of the trace; 0 if it was there before.
        deleted: likewise; ``None`` if it was there at the end.
    """

    name: str
    cpu_milli: int
    memory_bytes: int
    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    rdma_percent: int = 0
    qos: str = ""
    app: str = ""
    most_per_node: int | None = None
    created: float = 0.0
    deleted: float | None = None

    @property
    def total_gpu_milli(self) -> int:
        """Thousandths of all GPUs together."""
        return self.gpus * self.gpu_milli

    @property
    def shares_gpu(self) -> bool:
        """Whether it has only a part of a GPU."""
        return 0 < self.gpu_milli < WHOLE_GPU


T = TypeVar("T", TraceNode, TracePod)


def read_nodes(lines: Iterable[str], *, file: str) -> tuple[TraceNode, ...]:
    """Return the nodes of an openb file; *file* is its name for messages."""
    reader = csv.DictReader(lines)
    _check_header(reader.fieldnames or (), _NODE_COLUMNS, file)
    return _unlike((row, _node(row)) for row in _rows(reader, file))


def read_pods(lines: Iterable[str], *, file: str) -> tuple[TracePod, ...]:
    """Return the pods of a file in either format; *file* is its name for messages."""
    reader = csv.DictReader(lines)
    header = reader.fieldnames or ()
    make: Callable[[_Row], TracePod] = _openb_pod
    if "instance_sn" in header:
        make = _v2025_pod
        _check_header(header, _V2025_COLUMNS, file)
    else:
        _check_header(header, _OPENB_COLUMNS, file)
    return _unlike((row, make(row)) for row in _rows(reader, file))


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of a row; what cannot be read raises `MalformedObject`."""

    where: str
    cells: Mapping[str, str]

    def text(self, field: str) -> str:
        return self.cells.get(field, "").strip()

    def whole(self, field: str, *, most: int | None = None) -> int:
        value = self.number(field)
        if value != int(value):
            raise self.error(field, f"{self.text(field)!r} is not a whole number")
        if most is not None and value > most:
            raise self.error(field, f"{self.text(field)} is more than {most}")
        return int(value)

    def number(self, field: str, *, least: float = 0) -> float:
        text = self.text(field)
        try:
            value = float(text)
        except ValueError:
            raise self.error(field, f"{text!r} is not a number") from None
        if not isfinite(value):
            raise self.error(field, f"{text!r} is not a number")
        if value < least:
            raise self.error(field, f"{text} is less than {least:g}")
        return value

    def time(self, field: str) -> float | None:
        """Return seconds, or ``None`` for an empty cell or ``NaN``."""
        text = self.text(field)
        return None if text == "" or text.lower() == "nan" else self.number(field)

    def error(self, field: str, detail: str) -> MalformedObject:
        return MalformedObject(self.where, detail, path=field)


def _rows(reader: csv.DictReader[str], file: str) -> Iterator[_Row]:
    for cells in reader:
        where = f"{file} row {reader.line_num}"
        if None in cells:
            raise MalformedObject(where, "the row has more cells than the header")
        short = next((field for field, cell in cells.items() if cell is None), None)
        if short is not None:
            raise MalformedObject(where, "the row ends before this field", path=short)
        yield _Row(where, cells)


def _check_header(header: Iterable[str], needed: Iterable[str], file: str) -> None:
    missing = [column for column in needed if column not in set(header)]
    if missing:
        raise MalformedObject(f"{file} row 1", f"the header lacks {', '.join(missing)}")


def _unlike(read: Iterable[tuple[_Row, T]]) -> tuple[T, ...]:
    """Return the objects; raise if two have one name."""
    known: dict[str, T] = {}
    for row, one in read:
        if not one.name or one.name in known:
            field = next(iter(row.cells))
            raise row.error(field, f"{one.name!r} is there twice" if one.name else "no name")
        known[one.name] = one
    return tuple(known.values())


def _node(row: _Row) -> TraceNode:
    return TraceNode(
        name=row.text("sn"),
        cpu_milli=row.whole("cpu_milli"),
        memory_bytes=row.whole("memory_mib") * _MIB,
        gpus=row.whole("gpu"),
        gpu_model=row.text("model"),
    )


def _openb_pod(row: _Row) -> TracePod:
    gpus, gpu_milli = row.whole("num_gpu"), row.whole("gpu_milli", most=WHOLE_GPU)
    if bool(gpus) != bool(gpu_milli) or (gpus > 1 and gpu_milli < WHOLE_GPU):
        raise row.error("gpu_milli", f"{gpus} GPUs with {gpu_milli} thousandths of each")
    return TracePod(
        name=row.text("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory_bytes=row.whole("memory_mib") * _MIB,
        gpus=gpus,
        gpu_milli=gpu_milli,
        gpu_models=tuple(model for model in row.text("gpu_spec").split("|") if model),
        qos=row.text("qos"),
        created=row.time("creation_time") or 0.0,
        deleted=row.time("deletion_time"),
    )


def _v2025_pod(row: _Row) -> TracePod:
    gpus = row.whole("gpu_request")
    density = row.number("max_instance_per_node", least=-1)
    return TracePod(
        name=row.text("instance_sn"),
        cpu_milli=round(row.number("cpu_request") * 1000),
        memory_bytes=round(row.number("memory_request") * _GIB),
        gpus=gpus,
        gpu_milli=WHOLE_GPU if gpus else 0,
        rdma_percent=row.whole("rdma_request", most=100),
        qos="LS",
        app=row.text("app_name"),
        most_per_node=int(density) if density > 0 else None,
        created=row.time("creation_time") or 0.0,
        deleted=row.time("deletion_time"),
    )


POPULARITY: Final = 0.95
"""The part of a workload that typical pods make up."""
Shape: TypeAlias = tuple[int, int, int, tuple[str, ...]]
_T = TypeVar("_T", bound=tuple[Any, ...])


def commonest(pods: Iterable[TracePod], popularity: float = POPULARITY) -> Counter[Shape]:
    """Return the commonest shapes, as many as make up *popularity* of *pods*, with their number."""
    counted = Counter(
        (pod.cpu_milli, pod.gpus, pod.gpu_milli, tuple(sorted(pod.gpu_models))) for pod in pods
    )
    return most_of(counted, popularity)


def most_of(counted: Counter[_T], popularity: float = POPULARITY) -> Counter[_T]:
    """Return the commonest of what was counted, as many as make up *popularity* of all."""
    wanted = popularity * counted.total()
    chosen: Counter[_T] = Counter()
    for shape, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if chosen.total() >= wanted:
            break
        chosen[shape] = count
    return chosen


def arrivals(
    pods: Sequence[TracePod], wanted_milli: float, rng: np.random.Generator
) -> Iterator[TracePod]:
    """Yield *pods* in random order, then some of them again, until they ask for *wanted_milli*."""
    asked = sum(pod.total_gpu_milli for pod in pods)
    order = [pods[index] for index in rng.permutation(len(pods))]
    while asked > wanted_milli:
        asked -= order.pop(int(rng.integers(len(order)))).total_gpu_milli
    yield from order
    while asked < wanted_milli:
        pod = pods[int(rng.integers(len(pods)))]
        asked += pod.total_gpu_milli
        yield pod
