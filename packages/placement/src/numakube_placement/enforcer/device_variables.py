"""The variables by which vendors' runtimes give containers the devices that a scheduler allotted.

``NVIDIA_VISIBLE_DEVICES`` has the numbers of GPUs, as koordlet 1.6 sets it, and NVIDIA's container
runtime makes these and no others visible. Where an allotment says which container has which device,
each gets its own, which koordlet does not do, and a container without any gets ``void``: an image
that asks for all of them would otherwise get them. An allotment for the pod as a whole is every
container's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.devices import GPU
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube_placement.koordinator.allotments import allotment_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.topology.allotments import Share

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
NOTHING: Final = "void"


def variables_of(annotations: Mapping[str, str], container: str) -> dict[str, str]:
    """Return the variables for a container of a pod with *annotations*."""
    pod = Pod(metadata=ObjectMeta(annotations=dict(annotations)))
    allotment = allotment_of(pod, [])
    if allotment is None:
        return {}
    by_container = {name: _gpus(share) for name, share in allotment.containers.items()}
    if not any(by_container.values()):
        gpus = _gpus(allotment.total)
        return {VISIBLE: gpus} if gpus else {}
    return {VISIBLE: by_container.get(container, "") or NOTHING}


def _gpus(share: Share) -> str:
    minors = sorted({held.minor for held in share.devices if held.type == GPU})
    return ",".join(map(str, minors))
