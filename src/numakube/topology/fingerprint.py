"""The pod fingerprint: one short text that stands for the set of pods on a node.

A producer puts the fingerprint of the pods that it has accounted for into the NRT; a scheduler
computes that of the pods it knows of and, if both agree, may trust the zones. Byte-compatible with
podfingerprint v0.2.3: only namespaces and names count, order does not, and a pod that is added
twice counts twice.

Producers with the method ``with-exclusive-resources`` include only pods to which the kubelet has
given CPUs, memory or devices of a NUMA node. A scheduler has to predict this from the spec; the
rule is the Go plugin's (scheduler-plugins, August 2026). Plain init containers do not count: the
kubelet does not list what they held.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.api.pod_resources import is_sidecar, qos_class
from numakube.topology.xxh64 import xxh64
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, is_memory, is_native

if TYPE_CHECKING:
    from collections.abc import Container as Collection
    from collections.abc import Iterable

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Container, Pod


PREFIX: Final = "pfp0"
VERSION: Final = "v001"
_NOTHING = Quantity.of_count(0)


class PodName(NamedTuple):
    """Which pod; its uid is not known to a producer that asks the kubelet."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def fingerprint_of(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of *pods*, given as namespaces and names."""
    return PREFIX + VERSION + _digest(pods)


def _digest(pods: Iterable[tuple[str, str]]) -> str:
    return _digest_of(tuple(sorted([_pod_hash(namespace, name) for namespace, name in pods])))


@lru_cache(maxsize=4096)
def _digest_of(hashes: tuple[int, ...]) -> str:
    return f"{xxh64(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


@lru_cache(maxsize=65536)
def _pod_hash(namespace: str, name: str) -> int:
    return xxh64(name.encode("utf-8", "surrogatepass"), _namespace_hash(namespace))


@lru_cache(maxsize=4096)
def _namespace_hash(namespace: str) -> int:
    return xxh64(namespace.encode("utf-8", "surrogatepass"))


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
