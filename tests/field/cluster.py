"""The cluster of the field's acceptance tests: three nodes of two zones, padded as a scenario says.

The scenarios are those of the NUMA Resources Operator's end-to-end suites, by their ids. As there,
a device of each zone pins padding to it: a container that asks for ``kni.node/numacell01`` ends up
in zone 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.apps.scheduler.world import NAME, World

from numakube.api.nrt import NodeResourceTopology
from numakube.errors import NotFound
from numakube.kube.catalog import CORE_EVENTS, NODE_RESOURCE_TOPOLOGIES, PODS
from numakube.topology.view import NodeTopology, view_of
from numakube.values.quantity import value

SHAPE = (
    "2 sockets, 14 cores, smt 2, 48Gi, hugepages-2Mi 512, hugepages-1Gi 8,"
    " vendor.example/dev1 6, vendor.example/dev2 6, vendor.example/dev3 6,"
    " kni.node/numacell00 15/0, kni.node/numacell01 0/15"
)
TARGET = "node-0"
OTHERS = ("node-1", "node-2")
SHORT = {
    "mem": "memory",
    "hp2": "hugepages-2Mi",
    "hp1": "hugepages-1Gi",
    "eph": "ephemeral-storage",
    **{name: f"vendor.example/{name}" for name in ("dev1", "dev2", "dev3")},
}
NEXT_TO_NOTHING = "10m"
"""CPU of padding that is only about other resources: a pod without is not pinned."""

Amounts = Mapping[str, str]
Zones = tuple[Amounts, Amounts]


def amounts(text: str) -> dict[str, str]:
    """Return the resources in *text*, such as ``cpu=4 mem=4Gi dev1=2``."""
    pairs = (word.split("=") for word in text.split())
    return {SHORT.get(name, name): amount for name, amount in pairs}


def zones(first: str, second: str) -> Zones:
    """Return what is to be left in both zones."""
    return amounts(first), amounts(second)


@dataclass(slots=True)
class Field:
    """A cluster in which a scenario takes place."""

    world: World
    _count: itertools.count[int] = field(default_factory=itertools.count)

    async def topologies(self) -> dict[str, NodeTopology]:
        """Return what the nodes report."""
        found = (await self.world.client.list(NODE_RESOURCE_TOPOLOGIES)).items
        return {one.metadata.name: _view(one) for one in found}

    async def available(self, node: str, zone: int, resource: str) -> int:
        """Return what a zone has left."""
        view = (await self.topologies())[node]
        found = view.zone(zone)
        assert found is not None
        return found.available[resource]

    async def leave(self, left: Mapping[str, Zones]) -> None:
        """Pad the zones of nodes, so that just *left* is free there of what it names."""
        places = [
            (node, zone, free) for node, both in left.items() for zone, free in enumerate(both)
        ]
        views = await self.topologies()
        pads = [self._pad(views[node], zone, free) for node, zone, free in places]
        await self.placed(*pads)
        for node, zone, free in places:
            for resource, amount in free.items():
                await self._until_left(node, zone, resource, amount)

    def _pad(self, view: NodeTopology, zone: int, free: Amounts) -> dict[str, Any]:
        taken: dict[str, str] = {f"kni.node/numacell{zone:02}": "1", "memory": "4Mi"}
        found = view.zone(zone)
        assert found is not None
        for resource, amount in free.items():
            surplus = found.available[resource] - _units(resource, amount)
            assert surplus >= 0, f"{view.node} zone {zone} has too little {resource}"
            if surplus:
                taken[resource] = _text(resource, surplus)
        taken.setdefault("cpu", NEXT_TO_NOTHING)
        return pod(f"pad-{next(self._count)}", [taken], node=view.node)

    async def _until_left(self, node: str, zone: int, resource: str, amount: str) -> None:
        wanted = _units(resource, amount)
        async with asyncio.timeout(60):
            while (found := await self.available(node, zone, resource)) != wanted:
                # Padding takes a little memory besides what a scenario is about.
                if resource == "memory" and abs(found - wanted) <= 1 << 24:
                    return
                await asyncio.sleep(0.05)

    async def placed(self, *documents: dict[str, Any]) -> None:
        """Create pods and wait until all of them run."""
        names = {one["metadata"]["name"] for one in documents}
        await self.world.create(*documents)
        await self.world.until(lambda: names <= self.world.by_phase("Running"))

    async def scheduled_by(self, name: str) -> str:
        """Return who has scheduled a pod."""
        async with asyncio.timeout(60):
            while True:
                for event in (await self.world.client.list(CORE_EVENTS)).items:
                    if event.reason == "Scheduled" and event.involved_object.name == name:
                        return event.source.component
                await asyncio.sleep(0.05)

    async def clear(self) -> None:
        """Delete all pods and wait until the nodes report that everything is free again."""
        found = await self.world.client.list(PODS, namespace="default")
        for one in found.items:
            with contextlib.suppress(NotFound):  # Its workload may have taken it along.
                await self.world.delete(one.metadata.name)
        await self.world.until(lambda: not len(self.world.pods.store))
        await self.world.until_true(self._is_free)

    async def _is_free(self) -> bool:
        return all(_is_free(one) for one in (await self.topologies()).values())


def _view(nrt: NodeResourceTopology) -> NodeTopology:
    view = view_of(nrt)
    assert isinstance(view, NodeTopology)
    return view


def _is_free(view: NodeTopology) -> bool:
    return all(zone.available == zone.allocatable for zone in view.zones)


def _units(resource: str, amount: str) -> int:
    return value(amount) * 1000 if resource == "cpu" else value(amount)


def _text(resource: str, units: int) -> str:
    return str(units // 1000) if resource == "cpu" else str(units)


def pod(
    name: str,
    containers: list[Amounts],
    *,
    init: tuple[Amounts, ...] = (),
    node: str = "",
    requests_only: bool = False,
    scheduler: str = NAME,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod whose containers ask for these amounts."""
    place = {"nodeName": node} if node else {"schedulerName": scheduler}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **place,
            **spec,
            **({"initContainers": _containers("init", init, requests_only=False)} if init else {}),
            "containers": _containers("c", containers, requests_only=requests_only),
        },
    }


def _containers(
    prefix: str, several: list[Amounts] | tuple[Amounts, ...], *, requests_only: bool
) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{prefix}{number}",
            "image": "registry.example/pause:1",
            "resources": {"requests": dict(one)} if requests_only else {"limits": dict(one)},
        }
        for number, one in enumerate(several)
    ]
