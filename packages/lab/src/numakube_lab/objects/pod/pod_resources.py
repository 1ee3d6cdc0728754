"""What a pod asks for in total, and the quality of service that this gives it.

Sums follow component-helpers' ``resource`` package of 1.35: init containers run one after another
before the others, except restartable ones (sidecars), which stay. The QoS class is the one that
kube-apiserver writes on creation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.kinds import Json

Amounts: TypeAlias = dict[str, Quantity]
_QOS_RESOURCES: Final = frozenset({"cpu", "memory"})


def amounts_of(owner: Json | None, side: str) -> Amounts:
    """Return the ``requests`` or ``limits`` (*side*) in the ``resources`` of *owner*."""
    listed = ((owner or {}).get("resources") or {}).get(side) or {}
    return {name: parse_quantity(text) for name, text in listed.items()}


def is_sidecar(container: Json) -> bool:
    """Tell whether an init container keeps running next to the others."""
    return container.get("restartPolicy") == "Always"


def sum_containers(spec: Json, side: str) -> Amounts:
    """Return what the containers of *spec* need at any time, by ``requests`` or ``limits``."""
    total: Amounts = {}
    for container in spec.get("containers") or []:
        _add(total, amounts_of(container, side))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or []:
        own = amounts_of(container, side)
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def compute_qos(spec: Json) -> str:
    """Return the quality-of-service class of a pod with *spec*."""
    owners = [spec] if spec.get("resources") is not None else _all_containers(spec)
    requests: Amounts = {}
    limits: Amounts = {}
    guaranteed = True
    for owner in owners:
        own_limits = _positive(amounts_of(owner, "limits"))
        _add(requests, _positive(amounts_of(owner, "requests")))
        _add(limits, own_limits)
        exempt = owner is spec and not (spec["resources"].get("limits"))
        guaranteed = guaranteed and (exempt or own_limits.keys() == _QOS_RESOURCES)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _all_containers(spec: Json) -> Iterable[Json]:
    return [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]


def _positive(amounts: Amounts) -> Amounts:
    return {
        name: amount
        for name, amount in amounts.items()
        if name in _QOS_RESOURCES and amount.unscaled > 0
    }
