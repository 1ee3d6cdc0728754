"""The resources in which devices are counted: which type each is of, and what a request amounts to.

Amounts are given as the Device resource counts them, so that whole GPUs of a vendor and parts of
GPUs compare: one GPU is 100 of core and 100 of memory ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import devices as api
from numakube.values.resources import add_amounts

if TYPE_CHECKING:
    from numakube.values.resources import Amounts

WHOLE_DEVICE: Final = 100
"""What a whole device has of a percent resource."""
_TYPE_OF: Final = {
    **dict.fromkeys(api.WHOLE_GPUS, api.GPU),
    **dict.fromkeys(
        (api.GPU_SHARE, api.GPU_CORE, api.GPU_MEMORY, api.GPU_MEMORY_RATIO, api.GPU_SHARED), api.GPU
    ),
    api.RDMA_SHARE: api.RDMA,
    api.FPGA_SHARE: api.FPGA,
}


def device_type_of(resource: str) -> str:
    """Return the type of devices that *resource* is about; empty if it is about none."""
    return _TYPE_OF.get(resource, "")


def is_chosen_by_scheduler(resource: str) -> bool:
    """Tell whether no kubelet has devices of *resource*: it is one of Koordinator's own."""
    return device_type_of(resource) != "" and resource not in api.WHOLE_GPUS


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
        amount *= WHOLE_DEVICE
    elif name != api.GPU_SHARE:
        return {name: amount}
    return {api.GPU_CORE: amount, api.GPU_MEMORY_RATIO: amount}
