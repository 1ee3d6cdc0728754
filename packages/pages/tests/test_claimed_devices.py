"""Devices of DRA drivers on the dashboard."""

from __future__ import annotations

from msgspec.structs import replace
from packages.pages.tests.serving import page, served, words
from tests.insight.claim_world import DRIVER, mixed

from numakube.apps.dra_mirror import CLAIMS
from numakube.dra.device_ids import DeviceId
from numakube.insight.dra_devices import DraDevice
from numakube.insight.facts import ClusterFacts
from numakube.kube.clock import SystemClock
from numakube_pages.node_rows import row_of
from numakube_pages.page_source import Source
from numakube_pages.process import source_of_facts


def shown(facts: ClusterFacts) -> Source:
    """Return a source that shows *facts*."""
    source = source_of_facts(facts, SystemClock())
    source.open()
    return source


async def test_pages_show_who_holds_devices_of_claims_and_where() -> None:
    """The drawing, the zones, and the pods of a node; the claims of a pod."""
    async with served(shown(mixed().facts())) as visitor:
        node = await page(visitor, "nodes/node-a")
        assert "gpu.example gpu-3: of default/train by claim default/far, near zone 1" in node
        assert "gpu.example" in words(node).partition("Zones")[2].partition("Pods")[0]
        assert "pods/claim" not in node
        pod = words(await page(visitor, "pods/default/train"))
        assert "Claim device far: gpu.example gpu-3 (zone 1)" in pod
        assert "zone 0 4 cpu 1Gi memory zone 1 1 gpu.example" in pod


async def test_the_map_of_the_cluster_has_drivers_among_its_resources() -> None:
    """Used, free and stranded by zone."""
    source = shown(mixed().facts())
    (row,) = await source.zone_book.rows()
    assert row.uses[DRIVER].allocatable == (2, 2)
    assert row.uses[DRIVER].free == (1, 1)
    heat = await source.zone_book.heat(DRIVER, "stranded")
    assert heat["zones"] == 2


def test_a_device_between_zones_counts_once_on_its_node() -> None:
    """It is in each of its zones, which add up to more."""
    facts = mixed().facts()
    (node,), (report,) = facts.nodes.values(), facts.topologies.values()
    between = DraDevice(id=DeviceId(DRIVER, "node-a", "gpu-9"), zones=(0, 1))
    taken = DraDevice(id=DeviceId(DRIVER, "node-a", "gpu-8"), zones=(0, 1), is_free=False)
    use = row_of(node, report, devices=[between, taken]).uses[DRIVER]
    assert (use.allocatable, use.free) == ((2, 2), (1, 1))
    assert (use.total, use.total_free) == (2, 1)


def test_a_device_of_unknown_place_counts_on_its_node_as_in_top() -> None:
    """No zone has it: neither the driver nor the report tells one."""
    facts = mixed().facts()
    (node,), (report,) = facts.nodes.values(), facts.topologies.values()
    devices = [
        DraDevice(id=DeviceId(DRIVER, "node-a", f"gpu-{number}"), zones=zones, is_free=is_free)
        for number, (zones, is_free) in enumerate((((0,), False), ((), True), ((), False)))
    ]
    use = row_of(node, report, devices=devices).uses[DRIVER]
    assert (use.allocatable, use.free) == ((1, 0), (0, 0))
    assert (use.total, use.total_free) == (3, 1)
    alone = row_of(node, report, devices=devices[1:2]).uses[DRIVER]
    assert (alone.total, alone.total_free, alone.largest) == (1, 1, 0)
    assert row_of(node, None, devices=devices).uses == {}


async def test_rows_change_when_a_claim_does() -> None:
    """A claim that gives its device back makes one zone freer; other rows stay."""
    source = shown(mixed().facts())
    (before,) = await source.zone_book.rows()
    state = source.state_of("node/node-a")
    claim = next(
        store for store in source.device_book.stores[CLAIMS] if store.metadata.name == "far"
    )
    gone = replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))
    source.device_book.stores[CLAIMS].put(gone)
    (after,) = await source.zone_book.rows()
    assert after.version > before.version
    assert after.uses[DRIVER].free == (1, 2)
    assert source.state_of("node/node-a") != state


async def test_nothing_is_shown_of_devices_without_their_claims() -> None:
    """All of them would look free."""
    source = Source(
        nodes=(known := shown(mixed().facts())).nodes,
        pods=known.pods,
        topologies=known.topologies,
        clock=SystemClock(),
        devices=known.device_book.stores,
        devices_known=lambda: False,
    )
    row = await source.zone_book.row("node-a")
    assert row is not None
    assert DRIVER not in row.uses
