"""Finding out which other devices a pod has when the kubelet asks which of ours it is to get.

GetPreferredAllocation names no pod. But the kubelet lists in PodResources what a container has been
given so far, and writes its checkpoint only when the container has everything (kubelet 1.35 to
1.37, ``pkg/kubelet/cm/devicemanager``; its lock is free while it asks). What is listed and not
in the checkpoint belongs to the container that it asks for. The kubelet goes through a container's
resources in no certain order: when it asks for ours first, the pod is not known yet.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from numakube.api.checkpoints import DEVICE_STATE, peek_device_manager_state
from numakube.errors import NumakubeError
from numakube.kubelet.preferred_allocation import Surroundings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from numakube.node.pci.device_links import DevicePaths
    from numakube.node.podresources_client import PodResources, PodResourcesClient

_PATIENCE_SECONDS: Final = 1.0
"""The kubelet waits for the answer, and the pod with it."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Held(NamedTuple):
    """A device that a container has."""

    container: str
    resource: str
    id: str


class PodDevices:
    """Asks the kubelet of this node who has what."""

    def __init__(self, kubelet: PodResourcesClient, folder: Path, paths: DevicePaths) -> None:
        """Ask nothing yet.

        Args:
            kubelet: its PodResources.
            folder: its folder ``device-plugins``, with the checkpoint.
            paths: tells how devices are connected.
        """
        self._kubelet = kubelet
        self._checkpoint = folder / DEVICE_STATE.rpartition("/")[2]
        self._paths = paths

    async def around(self, resource: str, own: Collection[str]) -> Surroundings | None:
        """Return what surrounds the devices *own* of a resource; ``None`` if that is not known."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                pods = [list(_held(pod)) for pod in await self._kubelet.list_pods()]
                saved = await asyncio.to_thread(self._saved)
                asking = [one for one in pods if not saved.issuperset(one)]
                # The kubelet admits one pod at a time; if it looks otherwise, nothing is certain.
                whose = asking[0] if len(asking) == 1 else []
                held = {one.id for one in whose if one.resource != resource}
                found = await asyncio.to_thread(self._paths.read, {*own, *held})
                free: set[str] = set()
                if held.isdisjoint(found.functions):
                    free = await self._free(resource, pods)
                    found = await asyncio.to_thread(self._paths.read, {*own, *free})
        except (NumakubeError, OSError, TimeoutError) as error:
            _log.warning("other_devices_unknown", resource=resource, why=str(error) or "no answer")
            return None
        functions = found.functions
        return Surroundings(
            found.tree,
            functions,
            held=tuple(functions[id_] for id_ in sorted(held) if id_ in functions),
            free=frozenset(functions[id_] for id_ in free if id_ in functions),
        )

    async def _free(self, resource: str, pods: Iterable[Iterable[Held]]) -> set[str]:
        """Return the devices of other resources that no pod has."""
        taken = {(one.resource, one.id) for held in pods for one in held}
        return {
            id_
            for entry in (await self._kubelet.allocatable()).devices
            for id_ in entry.ids
            if entry.resource != resource and (entry.resource, id_) not in taken
        }

    def _saved(self) -> frozenset[Held]:
        """Return what the checkpoint says; nothing before there is one."""
        try:
            state = peek_device_manager_state(self._checkpoint.read_bytes())
        except FileNotFoundError:
            return frozenset()
        return frozenset(
            Held(entry.container_name, entry.resource_name, id_)
            for entry in state.pod_device_entries or ()
            for ids in (entry.device_ids or {}).values()
            for id_ in ids
        )


def _held(pod: PodResources) -> Iterator[Held]:
    """Yield each device of a pod once: the kubelet lists one near several NUMA nodes repeatedly."""
    yield from dict.fromkeys(
        Held(container.name, entry.resource, id_)
        for container in pod.containers
        for entry in container.devices
        for id_ in entry.ids
    )
