"""The pod fingerprint: one short text that stands for the set of pods on a node.

A producer puts the fingerprint of the pods that it has accounted for into the NRT; a scheduler
computes that of the pods it knows of and, if both agree, may trust the zones. Byte-compatible with
podfingerprint v0.2.3: only namespaces and names count, order does not, and a pod that is added
twice counts twice.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.topology.xxh64 import xxh64

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "pfp0"
VERSION: Final = "v001"


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
