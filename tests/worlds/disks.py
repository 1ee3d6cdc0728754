"""Disks for claims: what the controller of volumes and a driver do together, a moment late.

Classes differ in where a disk can be reached from, and in when it is made:

local      on one node, once a scheduler has chosen it
rack       from all nodes of a rack, once a scheduler has chosen a node there
at-once    on some node, before any pod asks for it
offered    disks lie ready on nodes, and a scheduler takes one of them
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Final

from tests.apps.scheduler.gang_trials import RACK

from numakube.api.storage_objects import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from numakube.apps.watched_kinds import CLAIMS, RESOURCES, VOLUMES
from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.catalog import NODES
from numakube.kube.client import Client, merge_patch
from numakube.kube.reflector import Reflector

CLASSES: Final = {
    "local": ("example.com/disks", "WaitForFirstConsumer"),
    "rack": ("example.com/disks", "WaitForFirstConsumer"),
    "at-once": ("example.com/disks", "Immediate"),
    "offered": ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
}
"""Provisioner and binding mode of every class."""
HOST: Final = "kubernetes.io/hostname"
_LATE_SECONDS: Final = 1.0
_SIZE: Final = "1Gi"


def disk_claim(of_class: str) -> dict[str, Any]:
    """Return the specification of a claim."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": _SIZE}},
    }


class Disks:
    """Makes disks, binds them to claims, and takes them away with their claims."""

    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._numbers = count()
        self.claims: Reflector[PersistentVolumeClaim] = Reflector(client, CLAIMS)
        self.volumes: Reflector[PersistentVolume] = Reflector(client, VOLUMES)

    async def create_classes(self) -> None:
        """Create the classes."""
        for name, (provisioner, mode) in CLASSES.items():
            document = {"provisioner": provisioner, "volumeBindingMode": mode}
            await self._client.create(
                RESOURCES["storage_classes"].raw, {"metadata": {"name": name}, **document}
            )

    async def offer(self, node: str) -> None:
        """Let a disk lie ready on a node."""
        await self._make("offered", HOST, node, {})

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.claims.run())
            tasks.create_task(self.volumes.run())
            while True:
                await self._client.clock.sleep(_LATE_SECONDS)
                for claim in list(self.claims.store.values()):
                    with suppress(ApiError, ClusterUnreachable):
                        await self._look_at(claim)

    async def _look_at(self, claim: PersistentVolumeClaim) -> None:
        metadata = claim.metadata
        if metadata.deletion_timestamp is not None:
            await self._let_go(claim)
        elif not claim.is_bound:
            taken = next(
                (volume for volume in self.volumes.store.values() if _is_for(volume, claim)), None
            )
            if taken is not None:
                await self._bind(claim, taken.metadata.name)
            elif claim.class_name != "offered":
                await self._provide(claim)

    async def _provide(self, claim: PersistentVolumeClaim) -> None:
        """Make the disk of a claim whose node is chosen, or that does not wait for one."""
        names = sorted(
            node["metadata"]["name"] for node in (await self._client.list(NODES.raw)).items
        )
        chosen = claim.metadata.annotations.get(SELECTED_NODE, "")
        node = self._rng.choice(names) if claim.class_name == "at-once" and names else chosen
        if not node:
            return
        labels = (await self._client.get(NODES.raw, node))["metadata"].get("labels") or {}
        of_rack = claim.class_name == "rack" and RACK in labels
        key = RACK if of_rack else HOST
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
        }
        owner = {"claimRef": reference}
        name = await self._make(claim.class_name, key, labels.get(key, node), owner)
        await self._bind(claim, name)

    async def _make(self, of_class: str, key: str, value: str, owner: dict[str, Any]) -> str:
        name = f"disk-{next(self._numbers)}"
        term = {"key": key, "operator": "In", "values": [value]}
        spec = {
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of_class,
            "hostPath": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            **owner,
        }
        await self._client.create(VOLUMES.raw, {"metadata": {"name": name}, "spec": spec})
        phase = merge_patch({"status": {"phase": "Bound" if owner else "Available"}})
        await self._client.patch(VOLUMES.raw, name, phase, subresource="status")
        return name

    async def _bind(self, claim: PersistentVolumeClaim, volume: str) -> None:
        """Write into the claim that it has a disk."""
        name, space = claim.metadata.name, claim.metadata.namespace
        done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        change = merge_patch({"metadata": done, "spec": {"volumeName": volume}})
        await self._client.patch(CLAIMS.raw, name, change, namespace=space)
        phase = merge_patch({"status": {"phase": "Bound"}})
        await self._client.patch(CLAIMS.raw, name, phase, namespace=space, subresource="status")

    async def _let_go(self, claim: PersistentVolumeClaim) -> None:
        """Let a claim that is being deleted go, and its disk with it."""
        free = merge_patch({"metadata": {"finalizers": None}})
        for volume in list(self.volumes.store.values()):
            if _is_for(volume, claim):
                await self._client.patch(VOLUMES.raw, volume.metadata.name, free)
                await self._client.delete(VOLUMES.raw, volume.metadata.name)
        metadata = claim.metadata
        await self._client.patch(CLAIMS.raw, metadata.name, free, namespace=metadata.namespace)


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    named = (reference.namespace, reference.name)
    same = named == (claim.metadata.namespace, claim.metadata.name)
    return same and reference.uid in ("", claim.metadata.uid)
