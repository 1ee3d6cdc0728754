"""The part of a report that changes with a node's pods, and what a new report says that is new.

    update = update_of(report, now, time=...)      # what the exporter writes
    now = updated(report, update)                  # what readers have, once they have both

A report is large and most of it stays: the machine, the settings, what zones have. An API server
needs a third of the time for the small object, and sends a third of the bytes to every watcher.

An update says which report it belongs to, by the time at which that report was written. One of
another report says nothing: either its report has yet to arrive, or a later one has replaced both.
Nor does one of a report whose zones another producer has overwritten since.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, attribute_value, with_attribute, without_attribute
from numakube.api.nrt_update import KIND, NodeResourceTopologyUpdate
from numakube.errors import InvalidValue
from numakube.topology import nrt_names
from numakube.topology.exact_report import Heartbeat
from numakube.topology.report_codec import (
    checksum_in,
    checksum_of,
    is_checksum_of,
    moving_part,
    with_moving_part,
)
from numakube.values.safe_text import quoted
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.errors import NumakubeError
    from numakube.topology.topology_view import NodeTopology


MOVING_ATTRIBUTES: Final = frozenset(
    {nrt_names.FINGERPRINT, nrt_names.PLACEMENT_METADATA, nrt_names.PLACEMENT_VECTOR}
)
"""Attributes of nodes and zones that change with the pods."""

MOVING_ANNOTATIONS: Final = frozenset(
    {
        nrt_names.EXACT_ANNOTATION,
        nrt_names.FINGERPRINT_ANNOTATION,
        nrt_names.RTE_UPDATE_ANNOTATION,
        nrt_names.SURPRISES_ANNOTATION,
    }
)
"""Annotations that change with the pods, or with every write."""


def update_of(
    report: NodeResourceTopology, now: NodeResourceTopology, *, time: str
) -> NodeResourceTopologyUpdate | None:
    """Return what makes *report* say what *now* says; ``None`` if more has changed than pods do.

    Args:
        report: as it was written.
        now: what readers are to have.
        time: when that is.
    """
    exact = now.metadata.annotations.get(nrt_names.EXACT_ANNOTATION)
    heartbeat = _heartbeat(report)
    if exact is None or heartbeat is None:
        return None
    vectors = tuple(_vector(zone) for zone in now.zones)
    update = NodeResourceTopologyUpdate(
        metadata=ObjectMeta(name=report.metadata.name),
        report=heartbeat.at,
        time=time,
        available=tuple(map(_amounts, now.zones)),
        attributes=tuple(
            attribute for attribute in now.attributes if attribute.name in MOVING_ATTRIBUTES
        ),
        vectors=vectors if any(vectors) else (),
        exact=moving_part(exact),
    )
    return update if _says(updated(report, update), now) else None


def promises_updates(report: NodeResourceTopology) -> bool:
    """Tell whether what pods change may be in an update of *report*."""
    return nrt_names.SURPRISES_ANNOTATION in report.metadata.annotations


def is_overdue(report: NodeResourceTopology, now: datetime) -> bool:
    """Tell whether *report* has no update by *now* though it promised one."""
    heartbeat = _heartbeat(report)
    try:
        written = None if heartbeat is None else parse_time(heartbeat.at)
    except InvalidValue:
        return False
    if heartbeat is None or written is None:
        return False
    return (now - written).total_seconds() > heartbeat.overdue_seconds


def is_of(update: NodeResourceTopologyUpdate, report: NodeResourceTopology) -> bool:
    """Tell whether *update* is of *report*, and not of one before or after it."""
    heartbeat = _heartbeat(report)
    return heartbeat is not None and update.report == heartbeat.at


def updated(
    report: NodeResourceTopology, update: NodeResourceTopologyUpdate | None
) -> NodeResourceTopology:
    """Return *report* with what *update* says; as it is if that is missing or of another report.

    If the update cannot be read, the report must not be trusted, and says so.
    """
    if update is None or not is_of(update, report):
        return report
    try:
        exact = report.metadata.annotations.get(nrt_names.EXACT_ANNOTATION, "")
        if not is_checksum_of(checksum_in(exact), report):
            return report  # another producer has written it since
        return _updated(report, update)
    except InvalidValue as error:
        return versioned(with_unreadable_update(report, error), update.metadata.resource_version)


def with_unreadable_update(
    report: NodeResourceTopology, error: NumakubeError
) -> NodeResourceTopology:
    """Return *report* with the word that it must not be trusted, if its updates count at all."""
    if not promises_updates(report):
        return report
    return distrusted(report, f"its {KIND} cannot be read: {error}")


def distrusted(report: NodeResourceTopology, reason: str) -> NodeResourceTopology:
    """Return *report* with the word that it must not be trusted."""
    marked = with_attribute(report.attributes, Attribute(name=nrt_names.STALE, value=reason))
    return msgspec.structs.replace(report, attributes=marked)


def current_reports(
    reports: Iterable[NodeResourceTopology], updates: Iterable[NodeResourceTopologyUpdate]
) -> Iterator[NodeResourceTopology]:
    """Yield *reports* as they are with their updates."""
    by_name = {update.metadata.name: update for update in updates}
    yield from (updated(report, by_name.get(report.metadata.name)) for report in reports)


def _updated(
    report: NodeResourceTopology, update: NodeResourceTopologyUpdate
) -> NodeResourceTopology:
    annotations = dict(report.metadata.annotations)
    heartbeat = Heartbeat.parse(annotations[nrt_names.SURPRISES_ANNOTATION])
    annotations[nrt_names.SURPRISES_ANNOTATION] = str(Heartbeat(heartbeat.seconds, update.time))
    attributes = report.attributes
    for attribute in update.attributes:
        if attribute.name not in MOVING_ATTRIBUTES:
            raise InvalidValue(f"pods do not change {quoted(attribute.name)}")
        attributes = with_attribute(attributes, attribute)
        if (
            attribute.name == nrt_names.FINGERPRINT
            and nrt_names.FINGERPRINT_ANNOTATION in annotations
        ):
            annotations[nrt_names.FINGERPRINT_ANNOTATION] = attribute.value
    told = {attribute.name for attribute in update.attributes}
    for name in MOVING_ATTRIBUTES - told:
        attributes = without_attribute(attributes, name)
    zones = _zones(report, update)
    annotations[nrt_names.EXACT_ANNOTATION] = with_moving_part(
        annotations.get(nrt_names.EXACT_ANNOTATION, ""),
        update.exact,
        checksum=checksum_of(zones, attributes),
    )
    metadata = msgspec.structs.replace(report.metadata, annotations=annotations)
    changed = msgspec.structs.replace(report, metadata=metadata, attributes=attributes, zones=zones)
    return versioned(changed, update.metadata.resource_version)


def _zones(report: NodeResourceTopology, update: NodeResourceTopologyUpdate) -> tuple[Zone, ...]:
    vectors = update.vectors or ("",) * len(report.zones)
    if len(update.available) != len(report.zones) or len(vectors) != len(report.zones):
        raise InvalidValue(f"the report has {len(report.zones)} zones")
    parts = zip(report.zones, update.available, vectors, strict=True)
    return tuple(_zone(zone, text, vector) for zone, text, vector in parts)


def _zone(zone: Zone, available: str, vector: str) -> Zone:
    left_of = available.split()
    if len(left_of) != len(zone.resources):
        raise InvalidValue(f"{zone.name} has {len(zone.resources)} resources: {quoted(available)}")
    if (available, vector) == (_amounts(zone), _vector(zone)):
        return zone
    resources = tuple(
        one if one.available == left else msgspec.structs.replace(one, available=intern(left))
        for one, left in zip(zone.resources, left_of, strict=True)
    )
    attributes = without_attribute(zone.attributes, nrt_names.PLACEMENT_VECTOR)
    if vector:
        attributes = (Attribute(name=nrt_names.PLACEMENT_VECTOR, value=vector), *attributes)
    return msgspec.structs.replace(zone, resources=resources, attributes=attributes)


def _amounts(zone: Zone) -> str:
    return " ".join(str(resource.available) for resource in zone.resources)


def _vector(zone: Zone) -> str:
    return attribute_value(zone.attributes, nrt_names.PLACEMENT_VECTOR) or ""


def _heartbeat(report: NodeResourceTopology) -> Heartbeat | None:
    try:
        return Heartbeat.parse(report.metadata.annotations[nrt_names.SURPRISES_ANNOTATION])
    except (KeyError, InvalidValue):
        return None


def versioned(report: NodeResourceTopology, version: str) -> NodeResourceTopology:
    """Return *report* in a version of its own: with every write of either it is another object."""
    versions = report.metadata.resource_version, version
    latest = max(versions, key=int) if all(map(str.isdecimal, versions)) else version
    metadata = msgspec.structs.replace(report.metadata, resource_version=latest)
    return msgspec.structs.replace(report, metadata=metadata)


def _says(one: NodeResourceTopology, other: NodeResourceTopology) -> bool:
    """Tell whether both say the same of the node."""
    exact = nrt_names.EXACT_ANNOTATION
    return (
        one.zones == other.zones
        and one.attributes == other.attributes
        and one.metadata.owner_references == other.metadata.owner_references
        and one.metadata.annotations.get(exact) == other.metadata.annotations.get(exact)
        and lasting(one.metadata.annotations) == lasting(other.metadata.annotations)
    )


def lasting(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that neither pods nor writes change."""
    return {name: one for name, one in annotations.items() if name not in MOVING_ANNOTATIONS}


# What a node's next report says that its last one did not.


def may_take_more(before: NodeTopology | None, after: NodeTopology | None) -> bool:
    """Tell whether a kubelet that rejected a pod under *before* may admit it under *after*.

    Its configuration differs, a zone has more free, or a pod that held something is gone.
    """
    if before is after or after is None:
        return False
    return (
        before is None
        or configuration_of(before) != configuration_of(after)
        or _more_is_free(before, after)
        or _a_pod_left(before, after)
    )


def configuration_of(topology: NodeTopology | None) -> tuple[object, ...]:
    """Return what a kubelet's decisions depend on besides what pods hold."""
    if topology is None:
        return ()
    exact = topology.report
    return (
        [zone.id for zone in topology.zones],
        topology.policy,
        topology.scope,
        topology.max_numa_nodes,
        topology.topology_options,
        topology.cpu_manager_policy,
        topology.cpu_manager_options,
        topology.memory_manager_policy,
        None if exact is None else exact.settings,
    )


def _more_is_free(before: NodeTopology, after: NodeTopology) -> bool:
    zones = zip(before.zones, after.zones, strict=True)
    return any(
        amount > old.available.get(name, 0)
        for old, new in zones
        for name, amount in new.available.items()
    )


def _a_pod_left(before: NodeTopology, after: NodeTopology) -> bool:
    """Tell whether a pod holds nothing any more; equal counts may hide other CPUs."""
    if before.report is None or after.report is None:
        return False
    return bool(before.report.pods.keys() - after.report.pods.keys())
