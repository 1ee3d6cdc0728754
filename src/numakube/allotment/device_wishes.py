"""What a pod wants of devices, from its requests and annotations.

Amounts are told as the Device resource counts them, so that whole GPUs of a vendor and parts of
GPUs compare: one GPU is 100 of core and 100 of memory ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.allotment.spelling import annotation, read_json
from numakube.allotment.wishes import DeviceWish
from numakube.api.koordinator import devices as api
from numakube.api.koordinator import keys
from numakube.api.selectors import selector_of
from numakube.errors import InvalidValue
from numakube.values.resources import add_amounts
from numakube.values.topology_policy import TopologyScope

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numakube.allotment.wishes import ContainerWish
    from numakube.api.meta import LabelSelector
    from numakube.values.resources import Amounts

TYPES: Final = (api.GPU, api.RDMA, api.FPGA)
_WHOLE: Final = 100
_TYPE_OF: Final = {
    **dict.fromkeys(api.WHOLE_GPUS, api.GPU),
    **dict.fromkeys(
        (api.GPU_SHARE, api.GPU_CORE, api.GPU_MEMORY, api.GPU_MEMORY_RATIO, api.GPU_SHARED), api.GPU
    ),
    api.RDMA_SHARE: api.RDMA,
    api.FPGA_SHARE: api.FPGA,
}
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
    wanted = requests_by_type(requests)
    if not wanted:
        return None
    parts = {one.name: part for one in containers if (part := requests_by_type(one.requests))}
    if scope is TopologyScope.CONTAINER:
        for index, one in enumerate(containers):
            _check(one.requests, hints, f"spec.containers[{index}] ({one.name})", problems)
    else:
        _check(requests, hints, "spec.containers", problems)
    together = tuple(kind for kind in joint.device_types if kind in wanted)
    return DeviceWish(
        requests=wanted,
        by_container=parts,
        joint=together if len(together) > 1 else (),
        same_pcie=joint.required_scope == "SamePCIe" and len(together) > 1,
        hints=hints,
    )


def device_type_of(resource: str) -> str:
    """Return the type of devices that *resource* is about; empty if it is about none."""
    return _TYPE_OF.get(resource, "")


def requests_by_type(requests: Amounts) -> dict[str, dict[str, int]]:
    """Return the part of *requests* that is about devices, by type, in the Device's resources."""
    wanted: dict[str, dict[str, int]] = {}
    for name, amount in by_present_names(requests).items():
        if amount <= 0 or name not in _TYPE_OF:
            continue
        into = wanted.setdefault(_TYPE_OF[name], {})
        for part, size in _spelled_out(name, amount).items():
            into[part] = into.get(part, 0) + size
    return wanted


def by_present_names(amounts: Amounts) -> Amounts:
    """Return *amounts* with resources under the names that they have now."""
    if amounts.keys().isdisjoint(api.FORMER_NAMES):
        return amounts
    renamed = ({api.FORMER_NAMES.get(name, name): size} for name, size in amounts.items())
    return add_amounts(*renamed)


def _spelled_out(name: str, amount: int) -> dict[str, int]:
    if name in api.WHOLE_GPUS:
        amount *= _WHOLE
    elif name != api.GPU_SHARE:
        return {name: amount}
    return {api.GPU_CORE: amount, api.GPU_MEMORY_RATIO: amount}


def _check(
    requests: Amounts, hints: Mapping[str, api.DeviceHint], place: str, problems: list[str]
) -> None:
    """Note combinations and amounts that mean nothing."""
    requests = by_present_names(requests)
    names = {name for name, amount in requests.items() if amount > 0}
    gpus = frozenset(name for name in names if _TYPE_OF.get(name) == api.GPU)
    if gpus and gpus not in _GPU_COMBINATIONS:
        listed = " ".join(sorted(gpus))
        problems.append(f"{place}: invalid resource device requests: [{listed}]")
    for name in _PERCENTS:
        amount = requests.get(name, 0)
        if amount > _WHOLE and amount % _WHOLE and not _is_count(name, hints):
            problems.append(f"{place}: invalid resource unit {name}: {amount}")


def _is_count(name: str, hints: Mapping[str, api.DeviceHint]) -> bool:
    hint = hints.get(_TYPE_OF[name])
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
