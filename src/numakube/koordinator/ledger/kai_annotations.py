"""NUMA placements that KAI's exporter and scheduler write on pods.

What was observed counts before what was predicted. A placement is a list of zones with amounts;
older versions wrote amounts by resource and NUMA node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from numakube.api.codec import convert, decode_tree
from numakube.api.koordinator import keys
from numakube.api.koordinator.pod_annotations import KaiZone
from numakube.api.nrt import numa_id_of
from numakube.api.wire import QuantityText
from numakube.errors import InvalidValue, MalformedObject
from numakube.koordinator.annotation_json import annotation
from numakube.koordinator.ledger.holdings import Allotment, Share
from numakube.values.gotext import parse_integer
from numakube.values.numamask import mask_of
from numakube.values.resources import add_amounts, amount_of, amounts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

_ByResource: TypeAlias = dict[str, dict[str, QuantityText]]


def placed_by_kai(annotations: Mapping[str, str], problems: list[str]) -> Allotment | None:
    """Return what KAI says that a pod takes of NUMA nodes; ``None`` if it says nothing."""
    for key in (keys.KAI_OBSERVED, keys.KAI_PREDICTED):
        if key not in annotations:
            continue
        try:
            zones = _zones(annotations[key])
            mask = mask_of(zones)
        except (InvalidValue, MalformedObject) as error:
            detail = error.detail if isinstance(error, MalformedObject) else str(error)
            problems.append(f"{annotation(key)}: {detail}")
            continue
        if zones:
            return Allotment(total=Share(zones=zones, mask=mask))
    return None


def _zones(text: str) -> dict[int, Amounts]:
    tree = decode_tree(text, "placement")
    if isinstance(tree, dict):
        return _turned(convert(_ByResource, tree, "placement"))
    zones: dict[int, Amounts] = {}
    for entry in convert(tuple[KaiZone, ...], tree, "placement"):
        node = numa_id_of(entry.zone)
        zones[node] = add_amounts(zones.get(node, {}), amounts_of(entry.amount))
    return zones


def _turned(by_resource: _ByResource) -> dict[int, Amounts]:
    """Return amounts by NUMA node instead of by resource."""
    zones: dict[int, dict[str, int]] = {}
    for name, nodes in by_resource.items():
        for node, quantity in nodes.items():
            zones.setdefault(parse_integer(node), {})[name] = amount_of(name, quantity)
    return dict(zones)
