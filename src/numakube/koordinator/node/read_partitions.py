"""The GPU partitions of a node, as its Device lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import GpuPartitionEntry
from numakube.errors import InvalidValue
from numakube.koordinator.annotation_json import annotation, read_json
from numakube.koordinator.node.node_facts import GpuPartition
from numakube.values.quantity import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.koordinator.devices import DeviceCr

_HONOR: Final = "Honor"


def partitions_of(device: DeviceCr, problems: list[str]) -> tuple[GpuPartition, ...]:
    """Return the partitions; a table that cannot be read has none."""
    key = keys.GPU_PARTITIONS
    read = dict[str, tuple[GpuPartitionEntry, ...]]
    table = read_json(read, device.metadata.annotations, key, problems) or {}
    return tuple(_partitions(table, problems))


def honors_partitions(*labels: Mapping[str, str]) -> bool:
    """Tell whether GPUs are given in partitions only, by the labels of the Device or the node."""
    return any(one.get(keys.GPU_PARTITION_POLICY) == _HONOR for one in labels)


def _partitions(
    table: Mapping[str, tuple[GpuPartitionEntry, ...]], problems: list[str]
) -> Iterator[GpuPartition]:
    for count, entries in table.items():
        for index, entry in enumerate(entries):
            place = annotation(keys.GPU_PARTITIONS, f"[{count}][{index}]")
            if str(len(set(entry.minors))) != count:
                problems.append(f"{place}.minors: {len(set(entry.minors))} GPUs, not {count}")
                continue
            try:
                bandwidth = value(entry.ring_bus_bandwidth or 0)
            except InvalidValue as error:
                problems.append(f"{place}.ringBusBandwidth: {error}")
                continue
            yield GpuPartition(frozenset(entry.minors), entry.allocation_score, bandwidth)
