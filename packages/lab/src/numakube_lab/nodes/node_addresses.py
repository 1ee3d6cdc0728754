"""Addresses of nodes and pods. Nothing listens on them; they tell pods and nodes apart.

Nodes are numbered from 0. Node *n* is 172.16.0.2 + n and gives its pods addresses of a /24 of its
own within 10.128.0.0/9, which makes room for 32,768 nodes of 253 pods.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Final

from numakube.errors import ConfigError

_FIRST_HOST: Final = IPv4Address("172.16.0.2")
_PODS: Final = IPv4Address("10.128.0.0")
_BLOCK: Final = 256
MAX_NODES: Final = 32768
# Network address, the node's own bridge and the broadcast address are not given out.
_FIRST_POD: Final = 2
_LAST_POD: Final = _BLOCK - 2


class NodeAddresses:
    """The addresses of one node."""

    def __init__(self, number: int) -> None:
        if not 0 <= number < MAX_NODES:
            raise ConfigError(f"node number {number}: a lab has addresses for {MAX_NODES} nodes")
        self._base = int(_PODS) + number * _BLOCK
        self.host = str(_FIRST_HOST + number)
        self.cidr = str(IPv4Network((self._base, 24)))
        self._next = _FIRST_POD
        self._taken: dict[str, str] = {}
        self._used: set[str] = set()

    def pod(self, uid: str, *, wanted: str = "") -> str:
        """Return the address of a pod; the one it has or *wanted* before a restart, if given."""
        held = self._taken.get(uid)
        if held is not None:
            return held
        address = wanted if wanted and wanted not in self._used else self._free()
        self._taken[uid] = address
        self._used.add(address)
        return address

    def release(self, uid: str) -> None:
        """Take a pod's address back; unknown uids are fine."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._used.discard(address)

    def _free(self) -> str:
        """Return the next unused address, round-robin so that none is reused at once."""
        for _ in range(_BLOCK):
            offset, self._next = self._next, self._next + 1
            if self._next > _LAST_POD:
                self._next = _FIRST_POD
            address = str(IPv4Address(self._base + offset))
            if address not in self._used:
                return address
        raise ConfigError(f"no address left for another pod in {self.cidr}")
