"""The ResourceSlices of a node, kept as they should be whoever removes or changes them.

A starting kubelet deletes all slices of its node, and one that has not heard of a driver for 30
seconds those of the driver; so they are written again as soon as that is seen. Follows the slice
controller of Kubernetes 1.37 (``dynamic-resource-allocation/resourceslice``): names begin with the
slice's place, since allocators sort by name; slices of other places are deleted first; the pool's
generation stays if one slice alone changes, as schedulers allocate nothing from a pool whose slices
are of several generations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from numakube.api.codec import encode, to_tree
from numakube.api.resource_slices import ResourceSlice
from numakube.errors import Conflict, NotFound
from numakube.kube.catalog import NODES, RESOURCE_SLICES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube.api.resource_slices import Device
    from numakube.kube import Client
    from numakube_dra_driver.metrics import DraMetrics

MOST_DEVICES: Final = 128
"""Devices of a slice, at most."""
MOST_WITH_LISTS: Final = 64
"""The same if any has a taint, or an attribute that is a list."""
SLICES: Final = RESOURCE_SLICES.decoded_as(ResourceSlice)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class SlicePublisher:
    """Keeps the slices of one pool.

    Attributes:
        lost: what the server does not keep of devices, as a feature of it is off; empty if nothing.
    """

    def __init__(
        self,
        client: Client,
        *,
        driver: str,
        node: str,
        pool: str,
        metrics: DraMetrics,
        siblings: Collection[str] = (),
    ) -> None:
        """Prepare.

        Args:
            client: writes.
            driver: whose slices.
            node: where its devices are.
            pool: which of its slices.
            metrics: counts.
            siblings: the driver's other pools on this node, which others keep.
        """
        self._client = client
        self._driver = driver
        self._node = node
        self._pool = pool
        self._siblings = frozenset(siblings)
        self._metrics = metrics
        # What the server made of what was written: it drops fields whose feature is off.
        self._kept: dict[bytes, tuple[Device, ...]] = {}
        self.lost = ""

    @property
    def fields(self) -> str:
        """Selects the slices of this driver on this node."""
        return f"spec.driver={self._driver},spec.nodeName={self._node}"

    async def publish(self, devices: Sequence[Device]) -> None:
        """Let the slices be those of *devices*; a pool without devices is one empty slice.

        Raises:
            NumakubeError: the API server does not want them, or does not answer.
        """
        with self._metrics.publish_seconds.time():
            most = MOST_WITH_LISTS if any(map(_has_lists, devices)) else MOST_DEVICES
            wanted = [
                tuple(devices[start : start + most])
                for start in range(0, max(len(devices), 1), most)
            ]
            stored = await self._stored(len(wanted))
            right = {
                place: one
                for place, one in stored.items()
                if one.spec.pool.resource_slice_count == len(wanted)
                and one.spec.devices in (wanted[place], self._kept.get(encode(wanted[place])))
            }
            generations = {piece.spec.pool.generation for piece in stored.values()}
            if len(right) == len(wanted) and len(generations) == 1:
                return
            generation = max(generations, default=0)
            alone = len(stored) == len(wanted) and len(right) == len(wanted) - 1
            if not alone or len(generations) != 1:
                generation, right = generation + 1, {}
            for place, part in enumerate(wanted):
                if place not in right:
                    await self._write(place, part, stored.get(place), generation, len(wanted))

    async def remove(self) -> None:
        """Delete the slices: nothing is offered any more."""
        for piece in (await self._client.list(SLICES, fields=self.fields)).items:
            await self._delete(piece)

    async def _stored(self, count: int) -> dict[int, ResourceSlice]:
        """Return the stored slices by place; delete what has no place among *count*."""
        stored: dict[int, ResourceSlice] = {}
        for piece in (await self._client.list(SLICES, fields=self.fields)).items:
            place = _place(piece)
            if piece.spec.pool.name in self._siblings:
                continue
            if piece.spec.pool.name == self._pool and place not in stored and 0 <= place < count:
                stored[place] = piece
            else:
                await self._delete(piece)
        return stored

    async def _write(
        self,
        place: int,
        devices: tuple[Device, ...],
        stored: ResourceSlice | None,
        generation: int,
        count: int,
    ) -> None:
        pool = {"name": self._pool, "generation": generation, "resourceSliceCount": count}
        spec: dict[str, Any] = {
            "driver": self._driver,
            "nodeName": self._node,
            "pool": pool,
            "devices": [to_tree(device) for device in devices],
        }
        if stored is None:
            kept = await self._client.create(
                SLICES, {"metadata": await self._metadata(place), "spec": spec}
            )
        else:
            metadata = {
                "name": stored.metadata.name,
                "resourceVersion": stored.metadata.resource_version,
                "ownerReferences": [await self._owner()],
            }
            kept = await self._client.update(SLICES, {"metadata": metadata, "spec": spec})
        self._metrics.written.labels("create" if stored is None else "update").inc()
        self._kept[encode(devices)] = kept.spec.devices
        self._note_lost(devices, kept.spec.devices)
        _log.info("slice_written", slice=kept.metadata.name, devices=len(devices))

    def _note_lost(self, sent: Sequence[Device], kept: Sequence[Device]) -> None:
        lost = any(
            one.allow_multiple_allocations and not other.allow_multiple_allocations
            for one, other in zip(sent, kept, strict=False)
        )
        self.lost = (
            "the API server does not keep allowMultipleAllocations: its feature gate "
            "DRAConsumableCapacity is off (it is on from Kubernetes 1.36)"
            if lost
            else ""
        )

    async def _metadata(self, place: int) -> dict[str, Any]:
        prefix = f"{place:05x}-{self._driver}-{self._node}-"
        return {"generateName": prefix, "ownerReferences": [await self._owner()]}

    async def _owner(self) -> dict[str, Any]:
        """Return the node as an owner, so that slices go when it goes."""
        node = await self._client.get(NODES, self._node)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._node,
            "uid": node.metadata.uid,
            "controller": True,
        }

    async def _delete(self, one: ResourceSlice) -> None:
        metadata = one.metadata
        try:
            await self._client.delete(
                SLICES,
                metadata.name,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except (NotFound, Conflict):
            # Somebody else was faster; what is there now is seen the next time.
            return
        self._metrics.written.labels("delete").inc()


def _has_lists(device: Device) -> bool:
    return bool(device.taints) or any(one.strings for one in device.attributes.values())


def _place(one: ResourceSlice) -> int:
    """Return the place that a slice's name begins with; -1 if it begins otherwise."""
    text = one.metadata.name.partition("-")[0]
    try:
        return int(text, 16) if len(text) == 5 else -1
    except ValueError:
        return -1
