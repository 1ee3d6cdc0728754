"""Static pods have two uids: the kubelet's own, and that of their image in the API.

State files use the kubelet's, all others the API's. Here state files are converted to the API's, so
that a report names static pods as schedulers know them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.checkpoints import CpuManagerState, DeviceManagerState, MemoryManagerState
    from numakube.apps.exporter.kubelet_checkpoints import Checkpoints

V = TypeVar("V")


def held_uids(checkpoints: Checkpoints) -> frozenset[str]:
    """Return the uids of all pods that the kubelet's state files know."""
    found: set[str] = set()
    if checkpoints.cpu is not None:
        found |= {*checkpoints.cpu.entries, *checkpoints.cpu.pod_entries}
    if checkpoints.memory is not None:
        found |= {*checkpoints.memory.entries, *checkpoints.memory.pod_entries}
    if checkpoints.devices is not None:
        found |= {one.pod_uid for one in checkpoints.devices.pod_device_entries or ()}
    return frozenset(found)


def admitted_uids(checkpoints: Checkpoints, aliases: Mapping[str, str]) -> frozenset[str]:
    """Return the API's uids of the pods that the kubelet has admitted, as far as it says so."""
    return frozenset(aliases.get(uid, uid) for uid in checkpoints.allocated)


def with_api_uids(checkpoints: Checkpoints, aliases: Mapping[str, str]) -> Checkpoints:
    """Return *checkpoints* with the API's uids in place of the kubelet's own of static pods."""
    if not aliases.keys() & held_uids(checkpoints):
        return checkpoints
    cpu, memory, devices = checkpoints.cpu, checkpoints.memory, checkpoints.devices
    return replace(
        checkpoints,
        cpu=None if cpu is None else _cpu(cpu, aliases),
        memory=None if memory is None else _memory(memory, aliases),
        devices=None if devices is None else _devices(devices, aliases),
    )


def _cpu(state: CpuManagerState, aliases: Mapping[str, str]) -> CpuManagerState:
    return replace(
        state,
        entries=_renamed(state.entries, aliases),
        pod_entries=_renamed(state.pod_entries, aliases),
        baselines=_renamed(state.baselines, aliases),
    )


def _memory(state: MemoryManagerState, aliases: Mapping[str, str]) -> MemoryManagerState:
    return msgspec.structs.replace(
        state,
        entries=_renamed(state.entries, aliases),
        pod_entries=_renamed(state.pod_entries, aliases),
    )


def _devices(state: DeviceManagerState, aliases: Mapping[str, str]) -> DeviceManagerState:
    entries = tuple(
        msgspec.structs.replace(one, pod_uid=aliases.get(one.pod_uid, one.pod_uid))
        for one in state.pod_device_entries or ()
    )
    return msgspec.structs.replace(state, pod_device_entries=entries)


def _renamed(entries: Mapping[str, V], aliases: Mapping[str, str]) -> dict[str, V]:
    return {aliases.get(uid, uid): value for uid, value in entries.items()}
