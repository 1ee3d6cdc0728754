"""The cluster of the field's acceptance tests: three nodes of two zones, padded as a scenario says.

The scenarios are those of the NUMA Resources Operator's end-to-end suites, by their ids. As there,
a device of each zone pins padding to it: a container that asks for ``kni.node/numacell01`` ends up
in zone 1.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.field.documents import Amounts, Zones, amounts, in_units, pod, zones

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.errors import NotFound
from numakube.kube.catalog import (
    CORE_EVENTS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    REPLICA_SETS,
)
from numakube.kube.client import merge_patch
from numakube.testing import until
from numakube.topology.topology_view import NodeTopology, view_of
from numakube_lab.testing import LabCluster, lab_cluster, without_election

DEVICES = (
    "vendor.example/dev1 6, vendor.example/dev2 6, vendor.example/dev3 6,"
    " kni.node/numacell00 15/0, kni.node/numacell01 0/15"
)
SHAPE = f"2 sockets, 14 cores, smt 2, 48Gi, hugepages-2Mi 512, hugepages-1Gi 8, {DEVICES}"
TARGET = "node-0"
OTHERS = ("node-1", "node-2")
ALL = (TARGET, *OTHERS)
WORKLOADS = {resource.kind: resource for resource in (DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS, JOBS)}

Report = Mapping[str, tuple[Mapping[str, int], ...]]
"""What the zones of every node have left."""


def everywhere(left: str) -> dict[str, Zones]:
    """Leave the same in all zones."""
    return {node: zones(left, left) for node in ALL}


def on_others(left: str) -> dict[str, Zones]:
    """Leave the same in all zones of the nodes that are not the target."""
    return {node: zones(left, left) for node in OTHERS}


def phase(one: Pod) -> str:
    """Return the phase of a pod."""
    return one.status.phase if one.status else ""


@contextlib.asynccontextmanager
async def field_of(scope: str, shape: str = SHAPE) -> AsyncIterator[Field]:
    """Run three nodes under single-numa-node in a scope, with exporters and our scheduler."""
    async with lab_cluster(3, shape, f"policy=single-numa-node,scope={scope}") as world:
        await world.start(without_election())
        yield Field(world)


@dataclass(slots=True)
class Field:
    """A cluster in which a scenario takes place."""

    world: LabCluster
    _count: itertools.count[int] = field(default_factory=itertools.count)

    async def topologies(self) -> dict[str, NodeTopology]:
        """Return what the nodes report."""
        found = (await self.world.client.list(NODE_RESOURCE_TOPOLOGIES)).items
        return {report.metadata.name: _view(report) for report in found}

    async def reported(self) -> Report:
        """Return what every zone has left."""
        views = await self.topologies()
        return {name: tuple(zone.available for zone in view.zones) for name, view in views.items()}

    async def leave(self, left: Mapping[str, Zones]) -> list[str]:
        """Pad the zones of nodes, so that just *left* is free there of what it names."""
        places = [
            (node, zone, free) for node, both in left.items() for zone, free in enumerate(both)
        ]
        report = await self.reported()
        pads = [self._pad(node, zone, report[node][zone], free) for node, zone, free in places]
        await self.placed(*pads)
        await self.world.until(lambda: self._is_left(left, report))
        return [pad["metadata"]["name"] for pad in pads]

    def _pad(
        self, node: str, zone: int, available: Mapping[str, int], free: Amounts
    ) -> dict[str, Any]:
        taken = amounts(f"cell{zone}=1")
        for resource, units in in_units(free).items():
            surplus = available[resource] - units
            assert surplus >= 0, f"{node} zone {zone} has too little {resource}"
            if surplus:
                taken[resource] = f"{surplus}m" if resource == "cpu" else str(surplus)
        # Without either it would not be guaranteed.
        taken.setdefault("cpu", "10m")
        taken.setdefault("memory", "4Mi")
        return pod(f"pad-{next(self._count)}", [taken], node=node)

    async def _is_left(self, left: Mapping[str, Zones], before: Report) -> bool:
        """Tell whether every pad is reported, of which each has the cell of its zone."""
        report = await self.reported()
        places = [
            (node, zone, free) for node, both in left.items() for zone, free in enumerate(both)
        ]
        return all(
            _is_close(resource, report[node][zone][resource], units)
            for node, zone, free in places
            for resource, units in in_units(free).items()
        ) and all(
            report[node][zone][cell] < before[node][zone][cell]
            for node, zone, _ in places
            for cell in amounts(f"cell{zone}=1")
        )

    async def until_taken(self, before: Report, taken: Mapping[str, tuple[Amounts, ...]]) -> None:
        """Wait until nodes report that just this was taken, each from one zone of theirs."""
        wanted = {node: _sorted(map(in_units, each)) for node, each in taken.items()}

        async def used() -> dict[str, Any]:
            after = await self.reported()
            all_used = {
                node: _sorted(map(_difference, had, after[node])) for node, had in before.items()
            }
            return {node: used for node, used in all_used.items() if used}

        await until(used, lambda found: found == wanted)

    async def unchanged(self, before: Report) -> None:
        """Check that zones have as much left as *before*, in reports that are younger than this.

        A device that is taken on every node shows which reports these are.
        """
        marks = [pod(f"mark-{node}", [amounts("cell0=1")], node=node) for node in ALL]
        await self.placed(*marks)
        await self.until_taken(before, dict.fromkeys(ALL, (amounts("cell0=1"),)))
        await self.remove(*(mark["metadata"]["name"] for mark in marks))
        await self.until_taken(before, {})

    async def placed(self, *documents: dict[str, Any]) -> None:
        """Create pods and wait until all of them run."""
        names = {document["metadata"]["name"] for document in documents}
        await self.world.create(*documents)
        await self.world.runs(*names)

    async def remove(self, *names: str) -> None:
        """Delete pods and wait until they are gone."""
        for name in names:
            await self.world.delete(name)
        await self.world.until(
            lambda: not {one.metadata.name for one in self.world.pods.store} & set(names)
        )

    async def waits(self, name: str, text: str) -> None:
        """A pod is refused with a text."""
        await self.world.refuses(name, text)

    async def scheduled_by(self, *names: str) -> set[str]:
        """Return who has scheduled these pods."""
        uids = {self.world.pod(name).metadata.uid for name in names}
        found: dict[str, str] = {}

        async def are_told() -> bool:
            for event in (await self.world.client.list(CORE_EVENTS)).items:
                if event.reason == "Scheduled" and event.involved_object.uid in uids:
                    found[event.involved_object.uid] = event.source.component
            return uids == found.keys()

        await self.world.until(are_told)
        return set(found.values())

    async def events_of(self, name: str, reason: str) -> list[str]:
        """Return what was told about a pod, and why."""
        uid = self.world.pod(name).metadata.uid
        events = (await self.world.client.list(CORE_EVENTS)).items
        return [
            event.message
            for event in events
            if (event.reason, event.involved_object.uid) == (reason, uid)
        ]

    async def is_on_target(self, *names: str) -> None:
        """Pods are on the target, and our scheduler has put them there."""
        assert {self.world.pod(name).spec.node_name for name in names} == {TARGET}
        assert await self.scheduled_by(*names) == {SCHEDULER_NAME}

    async def create(self, document: dict[str, Any]) -> None:
        """Create a workload."""
        resource = WORKLOADS[document["kind"]]
        await self.world.client.create(resource, document, namespace="default")

    async def change(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Change the spec of a workload."""
        patch = merge_patch({"spec": spec})
        await self.world.client.patch(WORKLOADS[kind], name, patch, namespace="default")

    async def drop(self, kind: str, name: str) -> None:
        """Delete a workload, and its pods with it."""
        await self.world.client.delete(
            WORKLOADS[kind], name, namespace="default", propagation="Background"
        )

    def pods_of(self, workload: str) -> list[Pod]:
        """Return the pods of a workload that are there to stay."""
        return [
            one
            for one in self.world.pods.store
            if one.metadata.labels.get("app") == workload
            and one.metadata.deletion_timestamp is None
        ]

    async def complete(self, workload: str, asked: Sequence[Amounts], count: int = 1) -> list[str]:
        """Wait until a workload has just so many pods, that ask for this and run."""
        wanted = [in_units(one) for one in asked]

        def is_so() -> bool:
            pods = self.pods_of(workload)
            running = [one for one in pods if phase(one) == "Running" and _asks(one) == wanted]
            return len(running) == len(pods) == count

        await self.world.until(is_so)
        return [one.metadata.name for one in self.pods_of(workload)]

    @contextlib.asynccontextmanager
    async def changed(self, **nodes: Mapping[str, Any]) -> AsyncIterator[None]:
        """Change nodes, ``node_0`` and so on, and have them as before in the end."""
        for name, change in nodes.items():
            await self._change(name, change)
        try:
            yield
        finally:
            for name, change in nodes.items():
                await self._change(name, _undone(change))

    async def _change(self, name: str, change: Mapping[str, Any]) -> None:
        await self.world.change_node(name.replace("_", "-"), dict(change))

    async def clear(self) -> None:
        """Delete all that was made and wait until the nodes report that everything is free."""
        for kind, resource in WORKLOADS.items():
            for item in (await self.world.client.list(resource, namespace="default")).items:
                with contextlib.suppress(NotFound):  # Its owner may have taken it along.
                    await self.drop(kind, item["metadata"]["name"])
        for left in (await self.world.client.list(PODS, namespace="default")).items:
            with contextlib.suppress(NotFound):
                await self.world.delete(left.metadata.name)
        await self.world.until(lambda: not len(self.world.pods.store))
        await self.world.until(self._is_free)

    async def _is_free(self) -> bool:
        return all(
            zone.available == zone.allocatable
            for view in (await self.topologies()).values()
            for zone in view.zones
        )


def _view(nrt: NodeResourceTopology) -> NodeTopology:
    view = view_of(nrt)
    assert isinstance(view, NodeTopology)
    return view


def _is_close(resource: str, found: int, wanted: int) -> bool:
    """Tell whether so much is left; padding takes a little memory besides what it is about."""
    return abs(found - wanted) <= (1 << 24 if resource == "memory" else 0)


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: had - after[name] for name, had in before.items() if had != after[name]}


def _sorted(amounts_of_zones: Iterable[Mapping[str, int]]) -> list[list[tuple[str, int]]]:
    """Return what zones gave, in an order that does not depend on which ones they are."""
    return sorted(sorted(zone.items()) for zone in amounts_of_zones if zone)


def _asks(one: Pod) -> list[dict[str, int]]:
    """Return what the containers of a pod ask for."""
    found = [each.resources.requests if each.resources else {} for each in one.spec.containers]
    return [in_units({name: str(amount) for name, amount in each.items()}) for each in found]


def _undone(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that takes back one that only adds."""
    return {
        key: _undone(inner) if isinstance(inner, Mapping) else None for key, inner in change.items()
    }
