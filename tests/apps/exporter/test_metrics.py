"""The zones of the last report as figures."""

from __future__ import annotations

from types import MappingProxyType

from prometheus_client import CollectorRegistry

from numakube.api.nrt import Zone, ZoneResource
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.report import Report


def report_of(*zones: Zone) -> Report:
    """Return a report of which only the zones matter."""
    nothing: MappingProxyType[str, str] = MappingProxyType({})
    return Report(
        zones=zones,
        attributes=(),
        annotations=nothing,
        fingerprints=nothing,
        method="all",
        pods=(),
        problems=(),
    )


def zone(name: str, **available: str) -> Zone:
    """Return a zone that may give out 8 of everything."""
    parts = [
        ZoneResource(name=resource, capacity="8", allocatable="8", available=left)
        for resource, left in available.items()
    ]
    return Zone(name=name, type="Node", resources=tuple(parts))


def test_free_amounts_are_shown_in_base_units_and_by_zone() -> None:
    """And for the node what the best zone does not have."""
    registry = CollectorRegistry(auto_describe=True)
    metrics = ExporterMetrics("worker-0", registry)
    metrics.zones.keep(
        report_of(zone("node-0", cpu="1500m", memory="2Ki"), zone("node-1", cpu="4"))
    )

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"node": "worker-0", **labels})

    assert value("numakube_zone_available", zone="node-0", resource="cpu") == 1.5
    assert value("numakube_zone_allocatable", zone="node-1", resource="cpu") == 8
    assert value("numakube_zone_available", zone="node-0", resource="memory") == 2048
    assert value("numakube_outside_best_zone", resource="cpu") == 1.5
    assert value("numakube_outside_best_zone", resource="memory") == 0

    metrics.zones.keep(report_of(zone("node-0", cpu="0")))
    assert value("numakube_zone_available", zone="node-1", resource="cpu") is None


def test_what_is_stranded_is_what_nobody_can_use() -> None:
    """Free CPUs beside which no memory is left."""
    registry = CollectorRegistry(auto_describe=True)
    metrics = ExporterMetrics("worker-0", registry)
    metrics.zones.keep(report_of(zone("node-0", cpu="4", memory="0"), zone("node-1", cpu="4")))

    def stranded(zone_name: str) -> float | None:
        labels = {"node": "worker-0", "zone": zone_name, "resource": "cpu"}
        return registry.get_sample_value("numakube_zone_stranded", labels)

    assert stranded("node-0") == 4
    assert stranded("node-1") == 0
