"""Ties exact data to the zones that it was written with.

Every producer writes ``zones`` and ``attributes`` as a whole and leaves annotations of others as
they are. So exact data outlives its exporter when another producer takes the object over, and would
then speak of pods that left long ago. It carries a checksum of the zones and attributes that it
belongs to: where these are others, somebody else wrote last, and the exact data says nothing.

Exact data of exporters that write no checksum counts unless the object has marks of somebody else.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.nrt import attribute_value
from numakube.topology import nrt_names
from numakube.topology.report_codec import encode_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
    from numakube.topology.exact_report import ExactReport

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
        f"{zone.name} {one.name} {one.capacity} {one.allocatable} {one.available}"
        for zone in zones
        for one in zone.resources
    )


def _attributes_digest(attributes: Iterable[Attribute]) -> str:
    # The word that a report is old comes later than the report.
    return _digest(f"{one.name} {one.value}" for one in attributes if one.name != nrt_names.STALE)


def _digest(lines: Iterable[str]) -> str:
    """Return the digest of *lines* in any order."""
    return blake2b("\n".join(sorted(lines)).encode(), digest_size=_DIGEST_BYTES).hexdigest()
