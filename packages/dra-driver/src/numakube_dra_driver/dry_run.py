"""What a dry run prints: the devices that the node would offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.codec import to_tree
from numakube.api.yaml_text import dump_yaml
from numakube.values.cpuset import CpuSet
from numakube.values.resources import quantity_of
from numakube_dra_driver.devices import NUMA_NODE
from numakube_dra_driver.settings import JSON, TABLE

if TYPE_CHECKING:
    from numakube.api.resource_slices import Device
    from numakube_dra_driver.offer import Offer


def printed(offer: Offer, output: str, note: str = "") -> str:
    """Return *offer* as a table, or as the devices of a slice; below a table is a *note*."""
    if output == TABLE:
        return _table(offer, note)
    functions = offer.functions.by_name.values() if offer.functions is not None else ()
    devices = [*offer.devices, *(one.device for one in functions if not one.trouble)]
    tree = {"devices": [to_tree(device) for device in devices]}
    if output == JSON:
        return msgspec.json.format(msgspec.json.encode(tree)).decode()
    return dump_yaml(tree)


def _table(offer: Offer, note: str) -> str:
    rows = [("DEVICE", "CPUS", "AMOUNT", "STEP", "NUMA", "SHARED")]
    rows += [
        (
            group.name,
            str(CpuSet(group.cpus)),
            str(group.cpus.bit_count()),
            str(group.step),
            ",".join(map(str, group.numa_nodes)),
            "yes" if group.is_shared else "no",
        )
        for group in offer.groups.values()
    ]
    rows += [
        (
            pool.name,
            "-",
            str(quantity_of(pool.resource, pool.size_bytes)),
            str(quantity_of(pool.resource, pool.step_bytes)),
            str(pool.numa_node),
            "yes",
        )
        for pool in offer.memory.values()
    ]
    functions = offer.functions.by_name.values() if offer.functions is not None else ()
    rows += [
        (one.device.name, "-", one.resource, "-", _numa_node(one.device), "no")
        for one in functions
        if not one.trouble
    ]
    notes = [note, offer.refused, offer.functions.trouble if offer.functions is not None else ""]
    notes += [
        f"{one.device.name} is not offered: {one.id} {one.trouble}"
        for one in functions
        if one.trouble
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *(f"# {note}" for note in notes if note)])


def _numa_node(device: Device) -> str:
    """Return the NUMA node of a device, if it is near one."""
    attribute = device.attributes.get(NUMA_NODE)
    return "-" if attribute is None else str(attribute.integer)
