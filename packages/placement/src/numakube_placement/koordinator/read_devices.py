"""What a pod wants of devices, from its requests and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import devices as api
from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import (
    WHOLE_DEVICE,
    by_present_names,
    device_type_of,
    requests_by_type,
)
from numakube.api.selectors import selector_of
from numakube.api.strictness import strictness_of
from numakube.errors import InvalidValue
from numakube.values.quantity import value
from numakube.values.topology_policy import TopologyScope
from numakube_placement.koordinator.annotation_values import annotation, read_json
from numakube_placement.koordinator.pod_wish import DeviceWish, PartitionWish

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numakube.api.meta import LabelSelector
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.pod_wish import ContainerWish


TYPES: Final = (api.GPU, api.RDMA, api.FPGA)
_SIZES: Final = (
    {api.GPU_MEMORY},
    {api.GPU_MEMORY_RATIO},
    {api.GPU_CORE, api.GPU_MEMORY},
    {api.GPU_CORE, api.GPU_MEMORY_RATIO},
)
_GPU_COMBINATIONS: Final = frozenset(
    map(
        frozenset,
        (
            *({name} for name in api.WHOLE_GPUS),
            {api.GPU_SHARE},
            *_SIZES,
            *(size | {api.GPU_SHARED} for size in _SIZES),
        ),
    )
)
_PERCENTS: Final = (
    api.GPU_SHARE, api.GPU_CORE, api.GPU_MEMORY_RATIO, api.RDMA_SHARE, api.FPGA_SHARE,
)  # fmt: skip
_COUNTING: Final = frozenset({"ApplyForAll", "RequestsAsCount"})
_HINT_WORDS: Final = {
    "allocateStrategy": _COUNTING,
    "requiredTopologyScope": frozenset({"Device", "PCIe", "NUMANode", "Node"}),
    "exclusivePolicy": frozenset({"DeviceLevel", "PCIeLevel"}),
}


def device_wish_of(
    annotations: Mapping[str, str],
    requests: Amounts,
    containers: Sequence[ContainerWish],
    scope: TopologyScope | None,
    problems: list[str],
) -> DeviceWish | None:
    """Return what is wanted of devices; ``None`` if nothing is."""
    hints = _read_hints(annotations, problems)
    joint = _read_joint(annotations, problems)
    partition = _read_partition(annotations, problems)
    wanted = requests_by_type(requests)
    if not wanted:
        return None
    parts = {
        container.name: part
        for container in containers
        if (part := requests_by_type(container.requests))
    }
    if scope is TopologyScope.CONTAINER:
        for index, one in enumerate(containers):
            _check(one.requests, hints, f"spec.containers[{index}] ({one.name})", problems)
    else:
        _check(requests, hints, "spec.containers", problems)
    together = tuple(kind for kind in joint.device_types if kind in wanted)
    same_pcie = joint.required_scope == "SamePCIe" and len(together) > 1
    closeness = strictness_of(annotations).closeness if len(wanted) > 1 else None
    if closeness is not None and not same_pcie:
        together += tuple(kind for kind in TYPES if kind in wanted and kind not in together)
    return DeviceWish(
        requests=wanted,
        by_container=parts,
        joint=together if len(together) > 1 else (),
        same_pcie=same_pcie,
        closeness=closeness,
        hints=hints,
        partition=partition,
    )


def _check(
    requests: Amounts, hints: Mapping[str, api.DeviceHint], place: str, problems: list[str]
) -> None:
    """Note combinations and amounts that mean nothing."""
    requests = by_present_names(requests)
    names = {name for name, amount in requests.items() if amount > 0}
    gpus = frozenset(name for name in names if device_type_of(name) == api.GPU)
    if gpus and gpus not in _GPU_COMBINATIONS:
        listed = " ".join(sorted(gpus))
        problems.append(f"{place}: invalid resource device requests: [{listed}]")
    for name in _PERCENTS:
        amount = requests.get(name, 0)
        if amount > WHOLE_DEVICE and amount % WHOLE_DEVICE and not _is_count(name, hints):
            problems.append(f"{place}: invalid resource unit {name}: {amount}")


def _is_count(name: str, hints: Mapping[str, api.DeviceHint]) -> bool:
    hint = hints.get(device_type_of(name))
    return hint is not None and hint.allocate_strategy in _COUNTING


def _read_joint(annotations: Mapping[str, str], problems: list[str]) -> api.DeviceJointAllocate:
    key = keys.DEVICE_JOINT_ALLOCATE
    joint = read_json(api.DeviceJointAllocate, annotations, key, problems)
    if joint is None:
        return api.DeviceJointAllocate()
    for index, kind in enumerate(joint.device_types):
        _known(kind, TYPES, annotation(key, f"deviceTypes[{index}]"), problems)
    _known(joint.required_scope, ("", "SamePCIe"), annotation(key, "requiredScope"), problems)
    return joint


def _read_partition(annotations: Mapping[str, str], problems: list[str]) -> PartitionWish | None:
    key = keys.GPU_PARTITION_SPEC
    spec = read_json(api.GpuPartitionSpec, annotations, key, problems)
    if spec is None:
        return None
    words = ("", "BestEffort", "Restricted")
    _known(spec.allocate_policy, words, annotation(key, "allocatePolicy"), problems)
    try:
        bandwidth = value(spec.ring_bus_bandwidth or 0)
    except InvalidValue as error:
        problems.append(f"{annotation(key, 'ringBusBandwidth')}: {error}")
        return None
    return PartitionWish(spec.allocate_policy == "Restricted", bandwidth)


def _read_hints(annotations: Mapping[str, str], problems: list[str]) -> api.DeviceHints:
    key = keys.DEVICE_ALLOCATE_HINT
    hints = read_json(dict[str, api.DeviceHint], annotations, key, problems) or {}
    for kind, hint in hints.items():
        _known(kind, TYPES, annotation(key, f"[{kind}]"), problems)
        said = {
            "allocateStrategy": hint.allocate_strategy,
            "requiredTopologyScope": hint.required_topology_scope,
            "exclusivePolicy": hint.exclusive_policy,
        }
        for field, word in said.items():
            place = annotation(key, f"[{kind}].{field}")
            _known(word, ("", *sorted(_HINT_WORDS[field])), place, problems)
        for field, selector in (("selector", hint.selector), ("vfSelector", hint.vf_selector)):
            _check_selector(selector, annotation(key, f"[{kind}].{field}"), problems)
    return hints


def _check_selector(selector: LabelSelector | None, place: str, problems: list[str]) -> None:
    try:
        selector_of(selector)
    except InvalidValue as error:
        problems.append(f"{place}: {error}")


def _known(word: str, known: Collection[str], place: str, problems: list[str]) -> None:
    if word not in known:
        problems.append(f"{place}: unknown word {word!r}: use {', '.join(filter(None, known))}")
