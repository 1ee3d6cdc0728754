"""Ports of nodes that pods have taken.

A port is taken per protocol and address; the address ``0.0.0.0`` (or none) collides with every
other. Follows HostPortInfo of kube-scheduler 1.35, but counts: a port taken twice is free when both
pods are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.api.pod_resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import Pod
    from numakube.scheduling.snapshot.pods import PodInfo

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104


class HostPort(NamedTuple):
    """A port of a node."""

    protocol: str
    port: int
    address: str

    def collides(self, other: HostPort) -> bool:
        """Tell whether only one of them can be taken."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return ANY_ADDRESS in (self.address, other.address) or self.address == other.address


def host_ports(pod: PodInfo) -> tuple[HostPort, ...]:
    """Return the ports of the node that *pod* takes, those of sidecars first."""
    spec = pod.pod.spec
    if not any(one.ports for one in spec.containers) and not spec.init_containers:
        return ()
    return _host_ports(pod.pod)


def _host_ports(pod: Pod) -> tuple[HostPort, ...]:
    sidecars = (one for one in pod.spec.init_containers if is_sidecar(one))
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


class PortTable:
    """Which rows have which ports taken."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def taken(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows where one of the *wanted* ports is taken."""
        found: set[int] = set()
        for want in wanted:
            for row, addresses in self._rows.get((want.protocol, want.port), {}).items():
                if (
                    want.address == ANY_ADDRESS
                    or ANY_ADDRESS in addresses
                    or want.address in addresses
                ):
                    found.add(row)
        return found

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        for port in host_ports(pod):
            rows = self._rows.setdefault((port.protocol, port.port), {})
            addresses = rows.setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + 1

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        for port in host_ports(pod):
            rows = self._rows[port.protocol, port.port]
            addresses = rows[row]
            addresses[port.address] -= 1
            if not addresses[port.address]:
                del addresses[port.address]
                if not addresses:
                    del rows[row]
                    if not rows:
                        del self._rows[port.protocol, port.port]
