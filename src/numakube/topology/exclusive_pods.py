"""Which pods hold something for themselves, judged by their spec.

Producers with the method ``with-exclusive-resources`` take up pods to which the kubelet has given
CPUs, memory or devices of a NUMA node. A scheduler has to foresee the same from the spec; the rule
is the Go plugin's (scheduler-plugins, August 2026). Plain init containers do not count: the kubelet
does not list what they held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod_resources import is_sidecar, qos_class
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, is_memory, is_native

if TYPE_CHECKING:
    from collections.abc import Container as Collection

    from numakube.api.containers import Container
    from numakube.api.pod import Pod
    from numakube.api.wire import QuantityText

_NOTHING = Quantity.of_count(0)


def has_exclusive_resources(pod: Pod, listed: Collection[str]) -> bool:
    """Tell whether *pod* gets anything exclusively on a node whose NRT has *listed* resources."""
    guaranteed = qos_class(pod) == "Guaranteed"
    sidecars = (one for one in pod.spec.init_containers or () if is_sidecar(one))
    return any(
        _is_exclusive(name, quantity, listed, guaranteed=guaranteed)
        for container in (*sidecars, *pod.spec.containers)
        for name, quantity in _requests(container).items()
    )


def _requests(container: Container) -> dict[str, QuantityText]:
    return dict((container.resources and container.resources.requests) or {})


def _is_exclusive(
    name: str, quantity: QuantityText, listed: Collection[str], *, guaranteed: bool
) -> bool:
    if not is_native(name):
        return name in listed
    if not guaranteed:
        return False
    amount = parse_quantity(quantity)
    if name == CPU:
        whole = amount.value()
        return whole > 0 and Quantity.of_count(whole) == amount
    return is_memory(name) and amount > _NOTHING
