"""What a dry run prints: the devices that the node would offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.codec import to_tree
from numakube.api.yaml_text import dump_yaml
from numakube.values.cpuset import CpuSet
from numakube.values.resources import quantity_of
from numakube_dra_driver.settings import JSON, TABLE

if TYPE_CHECKING:
    from numakube_dra_driver.offer import Offer


def printed(offer: Offer, output: str) -> str:
    """Return *offer* as a table, or as the devices of a slice."""
    if output == TABLE:
        return _table(offer)
    tree = {"devices": [to_tree(device) for device in offer.devices]}
    if output == JSON:
        return msgspec.json.format(msgspec.json.encode(tree)).decode()
    return dump_yaml(tree)


def _table(offer: Offer) -> str:
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
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *([f"# {offer.refused}"] if offer.refused else [])])
