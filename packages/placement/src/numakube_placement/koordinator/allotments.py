"""What pods hold of a node by a scheduler's decision, and the annotations that record it.

The annotations are the only record: a scheduler that starts reads from them which pod holds what.
So what is written must read back as the same allotment, and what others wrote must count as far as
it says something about NUMA nodes: Koordinator's scheduler, and KAI's exporter and scheduler. Of
KAI's annotations, an observed placement counts before a predicted one.

Koordinator's readers see the sums of the whole pod where they expect them; what each container was
given is in a field that they ignore. A NUMA node that the pod may use without taking anything from
it yet is listed without resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.api.codec import QuantityText, convert, decode, decode_tree, encode
from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import AllocationExtension, DeviceAllocation, VirtualFunction
from numakube.api.koordinator.pod_annotations import (
    ContainerResourceStatus,
    KaiZone,
    NumaNodeResource,
    ResourceSpec,
    ResourceStatus,
)
from numakube.api.nrt import numa_id_of
from numakube.errors import InvalidValue, MalformedObject
from numakube.topology.allotments import Allotment, CpuExclusive, HeldDevice, Share
from numakube.values.cpuset import NO_CPUS, CpuSet
from numakube.values.gotext import parse_integer
from numakube.values.numamask import MAX_NODE_ID, mask_of, nodes_of
from numakube.values.resources import (
    Amounts,
    add_amounts,
    amount_of,
    amounts_of,
    largest_amounts,
    quantities_of,
)
from numakube_placement.koordinator.annotation_values import annotation, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.codec import ResourceList
    from numakube.api.koordinator.devices import DeviceAllocations
    from numakube.api.pod import Pod
    from numakube_placement.koordinator.node_facts import NodeFacts
    from numakube_placement.koordinator.placement_rule import PlacementRule
    from numakube_placement.koordinator.pod_wish import PodWish


if TYPE_CHECKING:
    from collections.abc import Callable

    Combine = Callable[[Amounts, Amounts], Amounts]


def added_devices(one: Iterable[HeldDevice], other: Iterable[HeldDevice]) -> tuple[HeldDevice, ...]:
    """Return what is held by both, a device each, by type and minor."""
    return _combined((*one, *other), add_amounts)


def largest_devices(
    one: Iterable[HeldDevice], other: Iterable[HeldDevice]
) -> tuple[HeldDevice, ...]:
    """Return the most that is held of each device by either."""
    return _combined((*one, *other), largest_amounts)


def _combined(held: Iterable[HeldDevice], combine: Combine) -> tuple[HeldDevice, ...]:
    devices: dict[tuple[str, int], HeldDevice] = {}
    for device in held:
        key = device.type, device.minor
        before = devices.get(key)
        devices[key] = device if before is None else _both(before, device, combine)
    return tuple(devices[key] for key in sorted(devices))


def _both(one: HeldDevice, other: HeldDevice, combine: Combine) -> HeldDevice:
    return HeldDevice(
        type=one.type,
        minor=one.minor,
        resources=combine(one.resources, other.resources),
        vfs=tuple(sorted({*one.vfs, *other.vfs})),
    )


_DEFAULT: Final = "Default"
_ByResource: TypeAlias = dict[str, dict[str, QuantityText]]


def allotment_of(pod: Pod, problems: list[str]) -> Allotment | None:
    """Return what *pod* holds by its annotations; ``None`` if they say nothing of it.

    What cannot be read is added to *problems* and counts as nothing.
    """
    annotations = pod.metadata.annotations
    status = read_json(ResourceStatus, annotations, keys.RESOURCE_STATUS, problems)
    devices = _read_devices(annotations, problems)
    if status is None and devices is None:
        return placed_by_kai(annotations, problems)
    status = status or ResourceStatus()
    place = annotation(keys.RESOURCE_STATUS)
    total = _share(status, place, devices or (), problems)
    return Allotment(
        total=total,
        containers={
            one.name: _share_of_container(one, f"{place}.containers[{index}]", problems)
            for index, one in enumerate(status.containers)
        },
        cpu_exclusive=_exclusive(annotations) if total.cpus else CpuExclusive.NONE,
    )


def annotations_for(
    pod: Pod, wish: PodWish, rule: PlacementRule, allotment: Allotment, facts: NodeFacts
) -> dict[str, str]:
    """Return the annotations that record *allotment* on *pod*; none if it holds nothing.

    Args:
        pod: the pod.
        wish: what it wished.
        rule: what it was placed under.
        allotment: what it was given.
        facts: of the node, for the ids of devices.
    """
    written: dict[str, str] = {}
    ids = {(place.type, place.minor): place.id for place in facts.devices}
    status = _status(allotment, ids)
    if status != ResourceStatus():
        written[keys.RESOURCE_STATUS] = encode(status).decode()
    if allotment.total.devices:
        written[keys.DEVICE_ALLOCATED] = encode(_devices(allotment.total.devices, ids)).decode()
    if allotment.total.cpus and not wish.problems:
        written |= _spec_told(pod.metadata.annotations.get(keys.RESOURCE_SPEC), rule)
    return written


def _status(allotment: Allotment, ids: Mapping[tuple[str, int], str]) -> ResourceStatus:
    return ResourceStatus(
        cpuset=str(CpuSet(allotment.total.cpus)),
        numa_node_resources=_numa_nodes(allotment.total),
        containers=tuple(
            ContainerResourceStatus(
                name=name,
                cpuset=str(CpuSet(share.cpus)),
                numa_node_resources=_numa_nodes(share),
                devices=_devices(share.devices, ids),
            )
            for name, share in allotment.containers.items()
        ),
    )


def _numa_nodes(share: Share) -> tuple[NumaNodeResource, ...]:
    ids = sorted({*nodes_of(share.mask), *share.zones})
    return tuple(
        NumaNodeResource(node=node, resources=quantities_of(share.zones.get(node, {})))
        for node in ids
    )


def _devices(
    held: Iterable[HeldDevice], ids: Mapping[tuple[str, int], str]
) -> dict[str, tuple[DeviceAllocation, ...]]:
    written: dict[str, tuple[DeviceAllocation, ...]] = {}
    for device in held:
        vfs = tuple(VirtualFunction(bus_id=bus_id) for bus_id in device.vfs)
        allocation = DeviceAllocation(
            minor=device.minor,
            resources=quantities_of(device.resources),
            id=ids.get((device.type, device.minor), ""),
            extension=AllocationExtension(vfs=vfs) if vfs else None,
        )
        written[device.type] = (*written.get(device.type, ()), allocation)
    return written


def _spec_told(text: str | None, rule: PlacementRule) -> dict[str, str]:
    """Return the pod's own annotation with the policy that its CPUs were picked by filled in.

    Koordinator's agents look for it there; fields that we do not know are kept.
    """
    text = text or "{}"
    spec = decode(ResourceSpec, text)
    required, preferred = spec.required_cpu_bind_policy, spec.preferred_cpu_bind_policy
    told: dict[str, str] = {}
    if rule.bind_required and required in ("", _DEFAULT):
        told["requiredCPUBindPolicy"] = rule.bind
    if preferred == _DEFAULT or not (preferred or required or told):
        told["preferredCPUBindPolicy"] = rule.bind
    if not told or not rule.bind:
        return {}
    fields: dict[str, object] = {**msgspec.json.decode(text, type=dict[str, msgspec.Raw])}
    return {keys.RESOURCE_SPEC: encode({**fields, **told}).decode()}


def _share(
    status: ResourceStatus | ContainerResourceStatus,
    place: str,
    devices: tuple[HeldDevice, ...],
    problems: list[str],
) -> Share:
    try:
        cpus = CpuSet.parse(status.cpuset).mask
    except InvalidValue as error:
        problems.append(f"{place}.cpuset: {error}")
        cpus = NO_CPUS
    mask, zones = 0, {}
    for index, entry in enumerate(status.numa_node_resources):
        where = f"{place}.numaNodeResources[{index}]"
        if not 0 <= entry.node <= MAX_NODE_ID:
            problems.append(f"{where}.node: no NUMA node {entry.node}")
            continue
        mask |= 1 << entry.node
        if amounts := _amounts(entry.resources, f"{where}.resources", problems):
            zones[entry.node] = amounts
    return Share(cpus=cpus, zones=zones, mask=mask, devices=devices)


def _share_of_container(status: ContainerResourceStatus, place: str, problems: list[str]) -> Share:
    devices = _held(status.devices, f"{place}.devices", problems)
    return _share(status, place, devices, problems)


def _read_devices(
    annotations: Mapping[str, str], problems: list[str]
) -> tuple[HeldDevice, ...] | None:
    kind = dict[str, tuple[DeviceAllocation, ...]]
    found = read_json(kind, annotations, keys.DEVICE_ALLOCATED, problems)
    return None if found is None else _held(found, annotation(keys.DEVICE_ALLOCATED), problems)


def _held(
    allocations: DeviceAllocations, place: str, problems: list[str]
) -> tuple[HeldDevice, ...]:
    """Return the devices of *allocations*; amounts that cannot be read count as nothing."""
    return tuple(
        HeldDevice(
            type=kind,
            minor=one.minor,
            resources=_amounts(one.resources, f"{place}[{kind}][{index}].resources", problems),
            vfs=tuple(vf.bus_id for vf in one.extension.vfs) if one.extension else (),
        )
        for kind, some in allocations.items()
        for index, one in enumerate(some)
    )


def _amounts(quantities: ResourceList, place: str, problems: list[str]) -> Amounts:
    try:
        return amounts_of(quantities)
    except InvalidValue as error:
        problems.append(f"{place}: {error}")
        return {}


def _exclusive(annotations: Mapping[str, str]) -> CpuExclusive:
    spec = read_json(ResourceSpec, annotations, keys.RESOURCE_SPEC, [])
    word = spec.preferred_cpu_exclusive_policy if spec else ""
    return next((known for known in CpuExclusive if known == word), CpuExclusive.NONE)


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
