"""What the plugin counts and shows."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.node.pci.device_pools import Config
    from numakube.node.pci.host_scan import Standing

_SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_NOWHERE: Final = ""


class SriovMetrics:
    """The metrics of one plugin process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._devices = Gauge(
            "numakube_sriov_devices",
            "Devices by pool, NUMA node (empty if none) and health.",
            ("resource", "numa_node", "health"),
            registry=registry,
        )
        self._registered = Gauge(
            "numakube_sriov_registered",
            "1 while the kubelet follows the devices of a pool.",
            ("resource",),
            registry=registry,
        )
        self._registrations = Counter(
            "numakube_sriov_registrations_total",
            "Registrations with the kubelet, by their outcome.",
            ("resource", "result"),
            registry=registry,
        )
        self._allocations = Counter(
            "numakube_sriov_allocations_total",
            "Requests for devices of containers, by their outcome.",
            ("resource", "result"),
            registry=registry,
        )
        self.scan_seconds = Histogram(
            "numakube_sriov_scan_seconds",
            "How long a scan of the host takes.",
            buckets=_SECONDS_BUCKETS,
            registry=registry,
        )
        self.unreadable = Gauge(
            "numakube_sriov_unreadable_functions",
            "PCI functions that could not be read.",
            registry=registry,
        )
        self._config_valid = Gauge(
            "numakube_sriov_config_valid",
            "0 while the configuration file is invalid and an earlier one is in force.",
            registry=registry,
        )
        self._remarks = Gauge(
            "numakube_sriov_config_remarks",
            "Problems in the configuration; skipped pools are counted separately.",
            ("skipped",),
            registry=registry,
        )
        self._shown: dict[str, set[tuple[str, str]]] = {}

    def show_devices(self, resource: str, standings: Iterable[Standing]) -> None:
        """Show the devices of a pool."""
        tally: Tally[tuple[str, str]] = Tally()
        for standing in standings:
            health = "unhealthy" if standing.trouble else "healthy"
            nodes = standing.member.numa_nodes
            tally.update((str(node), health) for node in nodes or (_NOWHERE,))
        for key in self._shown.get(resource, set()) - tally.keys():
            self._devices.remove(resource, *key)
        for key, count in tally.items():
            self._devices.labels(resource, *key).set(count)
        self._shown[resource] = set(tally)

    def show_registered(self, resource: str, *, registered: bool) -> None:
        """Show whether the kubelet follows a pool."""
        self._registered.labels(resource).set(int(registered))

    def registration(self, resource: str, *, done: bool) -> None:
        """Count a registration."""
        self._registrations.labels(resource, "done" if done else "failed").inc()

    def allocated(self, resource: str, result: str) -> None:
        """Count a request for devices."""
        self._allocations.labels(resource, result).inc()

    def forget(self, resource: str) -> None:
        """Show nothing of a pool that is not configured any more."""
        self.show_devices(resource, ())
        self._registered.remove(resource)

    def show_config(self, config: Config) -> None:
        """Show a configuration that is in force now."""
        self._config_valid.set(1)
        for skipped in (True, False):
            count = sum(remark.skipped is skipped for remark in config.remarks)
            self._remarks.labels(str(skipped).lower()).set(count)

    def config_failed(self) -> None:
        """Show that the configuration file cannot be used."""
        self._config_valid.set(0)
