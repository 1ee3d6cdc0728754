"""Binding volumes at the API server, for the plugin VolumeBinding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.scheduler.change_signal import ChangeSignal
from numakube.apps.watched_kinds import CLAIMS, VOLUMES
from numakube.kube.client import merge_patch
from numakube.scheduling.framework.status import Status, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.kube.client import Client

import msgspec


class ApiVolumeActions:
    """`volume_actions.VolumeActions` by patches of what changed.

    Patches carry the ``resourceVersion`` that the decision was made on, so a volume that another
    program has taken meanwhile is not taken away.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._storage = ChangeSignal(client.clock)

    def storage_changed(self) -> None:
        """Say that a claim or a volume has changed."""
        self._storage.send()

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Write the ``claimRef`` and the annotations of *volume*."""
        metadata = volume.metadata
        change = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": dict(metadata.annotations),
            },
            "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
        }
        await self._client.patch(VOLUMES, metadata.name, merge_patch(change))

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Write the annotations of *claim*, which name the selected node."""
        metadata = claim.metadata
        change = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": dict(metadata.annotations),
            }
        }
        await self._client.patch(
            CLAIMS, metadata.name, merge_patch(change), namespace=metadata.namespace
        )

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask *done*, now and whenever claims or volumes change, until it gives an answer."""
        answer = await self._storage.until(done, timeout_seconds=timeout_seconds)
        return answer or failure("timed out waiting for volumes to be bound")
