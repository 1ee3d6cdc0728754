"""When two pods are the same to a kubelet: what is known of one then holds for the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from numakube.api.core import Pod

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def demand_key(pod: Pod) -> bytes:
    """Return all of a pod that kubelets look at, to be compared; equal for replicas."""
    spec = pod.spec
    containers = [
        (one.name, one.restart_policy, one.resources)
        for one in (*spec.init_containers, *spec.containers)
    ]
    return _encode((len(spec.init_containers), containers, spec.resources))
