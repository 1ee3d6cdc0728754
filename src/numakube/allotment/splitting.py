"""How an amount is split over NUMA nodes: in equal parts, as far as each node has them.

The node with the least comes first, so that the others make up for what it lacks; with any other
order an amount that fits could be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def even_parts(
    available: Mapping[int, int], amount: int, *, unit: int = 1
) -> dict[int, int] | None:
    """Return what each NUMA node gives of *amount*, or ``None`` if they have too little.

    Every part is a multiple of *unit*, so *amount* must be one. Nodes that give nothing are left
    out; the result ascends by node.
    """
    wholes = {node: left // unit for node, left in available.items()}
    remaining, odd = divmod(amount, unit)
    parts: dict[int, int] = {}
    order = sorted(wholes, key=lambda node: (wholes[node], node))
    for left, node in zip(range(len(order), 0, -1), order, strict=True):
        grant = min(remaining // left, wholes[node])
        if grant > 0:
            parts[node] = grant * unit
            remaining -= grant
    return None if remaining or odd else dict(sorted(parts.items()))
