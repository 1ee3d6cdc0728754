"""What a pod asks for, as the Go plugin adds it up.

Only requests count. For the whole pod it is the larger of the largest init container and of the sum
of the app containers, plus overhead; a sidecar counts as any other init container, and pod-level
resources are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.pod_resources import BEST_EFFORT, GUARANTEED, is_sidecar, qos_class
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, STORAGE, is_memory, is_native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Container, Pod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts

Quantities: TypeAlias = "Mapping[str, Quantity]"

_LARGEST_AMOUNT: Final = Quantity.of_count(2**50)
"""Larger requests are left to the reference: products with them leave an int64."""


def is_numa_affine(resource: str) -> bool:
    """Tell whether *resource* must be reported by zone; only Guaranteed pods get it by zone."""
    return resource == CPU or is_memory(resource)


def is_host_level(resource: str) -> bool:
    """Tell whether *resource* may belong to the node as a whole."""
    return resource in (EPHEMERAL_STORAGE, STORAGE) or not is_native(resource)


@dataclass(frozen=True)
class Request:
    """What one container, or the pod as a whole, asks for.

    Attributes:
        quantities: by name of the resource, zeros included.
        complaint: the refusal if it cannot be aligned.
        lasts: whether what it took is gone for those that come after it.
    """

    quantities: Quantities
    complaint: str
    lasts: bool = True

    @cached_property
    def wanted(self) -> Quantities:
        """The quantities that are not zero."""
        return {name: quantity for name, quantity in self.quantities.items() if quantity}

    @cached_property
    def amounts(self) -> Amounts:
        """The quantities in base units, by ascending name."""
        return {name: _amount(name, q) for name, q in sorted(self.quantities.items())}

    @cached_property
    def is_regular(self) -> bool:
        """Tell whether ``amounts`` are exact and small enough to count with in an int64."""
        return all(
            quantity.unscaled >= 0 and quantity <= _LARGEST_AMOUNT and exact == quantity
            for name, quantity in self.quantities.items()
            for exact in (_exact(name, self.amounts[name]),)
        )


@dataclass(frozen=True)
class Demand:
    """What a pod asks for: container by container and as a whole."""

    qos: str
    inits: tuple[Request, ...]
    containers: tuple[Request, ...]
    whole: Request

    @property
    def is_guaranteed(self) -> bool:
        """Tell whether CPU, memory and hugepages are given out by zone."""
        return self.qos == GUARANTEED

    @cached_property
    def each(self) -> tuple[Request, ...]:
        """Init containers, then app containers: the order in which the kubelet aligns them."""
        return self.inits + self.containers

    @cached_property
    def needs_no_zone(self) -> bool:
        """Tell whether the pod is BestEffort and asks for no device."""
        names = {name for request in self.each for name in request.quantities}
        return self.qos == BEST_EFFORT and all(map(is_native, names))

    @cached_property
    def is_regular(self) -> bool:
        """Tell whether the vectorised forms can count with it."""
        return all(request.is_regular for request in (*self.each, self.whole))

    def counts(self, resource: str) -> bool:
        """Tell whether *resource* is taken from a zone; if not, the zone must only name it."""
        return self.is_guaranteed or not is_numa_affine(resource)


def demand_of(pod: PodInfo) -> Demand:
    """Return what *pod* asks for, computed once."""
    return pod.memo("upstream-demand", _demand)


def _demand(pod: Pod) -> Demand:
    inits = tuple(
        Request(
            _requests(one),
            "cannot align sidecar container" if is_sidecar(one) else "cannot align init container",
            lasts=False,
        )
        for one in pod.spec.init_containers
    )
    containers = tuple(
        Request(_requests(one), "cannot align container") for one in pod.spec.containers
    )
    whole = Request(_whole(pod, inits, containers), "cannot align pod")
    return Demand(qos_class(pod), inits, containers, whole)


def _whole(pod: Pod, inits: Iterable[Request], containers: Iterable[Request]) -> Quantities:
    total: dict[str, Quantity] = {}
    for one in containers:
        _add(total, one.quantities)
    for one in inits:
        for name, quantity in one.quantities.items():
            if name not in total or quantity > total[name]:
                total[name] = quantity
    _add(total, _parsed(pod.spec.overhead))
    return total


def _add(total: dict[str, Quantity], more: Quantities) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _requests(container: Container) -> Quantities:
    return _parsed(container.resources.requests) if container.resources else {}


def _parsed(texts: Mapping[str, QuantityText]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value() if name == CPU else quantity.value()


def _exact(name: str, amount: int) -> Quantity:
    return Quantity.of_milli(amount) if name == CPU else Quantity.of_count(amount)
