"""A pool as the kubelet sees it: its devices, and the answers for containers that get some.

An answer has variables, device files, mounts and CDI names.

When the kubelet asks which devices it should prefer, `KubeletDevices` finds out which others the
pod has. GetPreferredAllocation names no pod. But the kubelet lists in PodResources what a container
has been given so far, and writes its checkpoint only when the container has everything (kubelet
1.35 to 1.37, ``pkg/kubelet/cm/devicemanager``; its lock is free while it asks). What is listed and
not in the checkpoint belongs to the container that it asks for. The kubelet goes through a
container's resources in no certain order: when it asks for ours first, the pod is not known yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import structlog

from numakube.api.checkpoints import DEVICE_STATE, peek_device_manager_state
from numakube.errors import NumakubeError
from numakube.kubelet.preferred_allocation import AllocationWish, Chooser, OtherDevices, Preference
from numakube.node.device_plugin.device_choices import ChoiceFile, PluginChoice
from numakube.node.device_plugin.plugin_messages import Allocation, PluginOptions
from numakube.node.device_plugin.plugin_protocol import DevicePluginError
from numakube.node.pci.device_files import (
    describe,
    environment,
    forget_info,
    qualified_name,
    save_info,
    write_specification,
)
from numakube.node.pci.device_pools import DeviceType
from numakube.node.pci.host_scan import claims_by_id, fresh_trouble
from numakube.node.pci.pci_discovery import Facts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.kubelet import Device
    from numakube.node.host_files import DeviceFile
    from numakube.node.pci.device_files import Description
    from numakube.node.pci.device_links import DevicePaths
    from numakube.node.pci.device_pools import PoolSpec
    from numakube.node.pci.host_scan import PoolMember, Standing
    from numakube.node.pci.pci_discovery import Host
    from numakube.node.podresources_client import PodResources, PodResourcesClient
    from numakube_sriov.metrics import SriovMetrics


Poke: TypeAlias = Callable[[], None]
"""Asks for another look at the host."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where plugins write for others.

    Attributes:
        host: where devices are described.
        device_info: the folder of device-info files.
        choices: the folder in which exporters read how devices are chosen.
        cdi: the folder of CDI specifications; ``None`` if device files go to the kubelet.
        pods: tells which other devices a pod has; ``None`` if the kubelet cannot be asked.
    """

    host: Host
    device_info: Path
    choices: Path
    cdi: Path | None = None
    pods: KubeletDevices | None = None


class PoolPlugin:
    """The plugin of one pool.

    Attributes:
        pool: as it is configured now.
    """

    def __init__(self, pool: PoolSpec, places: Places, metrics: SriovMetrics, poke: Poke) -> None:
        self.pool = pool
        self._places = places
        self._metrics = metrics
        self._poke = poke
        self._standings: Mapping[str, Standing] = {}
        self._written: dict[str, Description] = {}
        self._choice = ChoiceFile(places.choices, f"{pool.prefix}_{pool.name}")
        self._is_served = False
        self._news = asyncio.Event()

    @property
    def options(self) -> PluginOptions:
        """Return which optional calls to expect."""
        return PluginOptions(preferred_allocation=self.pool.preference is not Preference.NONE)

    def devices(self) -> tuple[Device, ...]:
        """Return all devices as the kubelet sees them."""
        return tuple(standing.as_device() for standing in self._standings.values())

    @property
    def standings(self) -> Mapping[str, Standing]:
        """The devices by their ids."""
        return self._standings

    def update(self, pool: PoolSpec, standings: Mapping[str, Standing]) -> None:
        """Take what a look at the host has found."""
        self.pool = pool
        self._standings = standings
        self._metrics.show_devices(pool.resource, standings.values())
        self._tell_choice()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Yield all devices now and after each change."""
        told: tuple[Device, ...] | None = None
        while True:
            news, devices = self._news, self.devices()
            if devices != told:
                told = devices
                yield devices
            await news.wait()

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return the devices that go together best, and with the pod's other devices."""
        chooser = self._chooser()
        if self._places.pods is None:
            return chooser(available, must_include, size)
        around = await self._places.pods.around(self.pool.resource, self._standings.keys())
        if around is None:
            return chooser(available, must_include, size)
        return chooser.among(AllocationWish(available, must_include, size), around)

    def serve(self, *, on: bool) -> None:
        """Take note whether the kubelet is to take devices from here."""
        self._is_served = on
        self._tell_choice()

    def _chooser(self) -> Chooser:
        members = {id_: one.member for id_, one in self._standings.items()}
        return Chooser(self.pool.preference, members, near=self._places.pods is not None)

    def _tell_choice(self) -> None:
        """Tell exporters how devices are chosen; schedulers then know better which."""
        choice = None
        if self._is_served and self.options.preferred_allocation:
            chooser = self._chooser()
            choice = PluginChoice(
                self.pool.resource, str(chooser.policy), chooser.groups(), near=chooser.near
            )
        try:
            self._choice.tell(choice)
        except OSError as error:
            _log.warning("choice_not_told", resource=self.pool.resource, error=str(error))

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Do nothing: devices are ready."""

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Return what a container needs to use these devices."""
        try:
            await self._check_claims(ids)
            allocation = await asyncio.to_thread(self._allocate, self.pool, tuple(ids))
        except DevicePluginError as refusal:
            self._metrics.allocated(self.pool.resource, "refused")
            _log.warning(
                "allocation_refused", resource=self.pool.resource, devices=ids, why=str(refusal)
            )
            self._poke()
            raise
        self._metrics.allocated(self.pool.resource, "done")
        _log.info("allocated", resource=self.pool.resource, devices=ids)
        return allocation

    async def _check_claims(self, ids: Sequence[str]) -> None:
        """Refuse devices that a claim has got since the last look."""
        pods = self._places.pods
        claimed = await pods.claimed(within=_PATIENCE_SECONDS) if pods is not None else {}
        for id_, claim in claims_by_id(claimed, ids).items():
            raise DevicePluginError(
                f"device {id_} of {self.pool.resource} belongs to claim {claim}",
                code="FAILED_PRECONDITION",
            )

    def _allocate(self, pool: PoolSpec, ids: tuple[str, ...]) -> Allocation:
        facts = Facts(self._places.host)
        members = {id_: self._usable(pool, id_) for id_ in ids}
        devices = {id_: describe(pool, member, facts) for id_, member in members.items()}
        for id_, description in devices.items():
            for warning in description.warnings:
                _log.warning("device_incomplete", resource=pool.resource, detail=warning)
            self._save_info(pool, members[id_], description)
        if self._places.cdi is not None:
            self._renew_specification(self._places.cdi, pool, devices)
        return answer(pool, devices, use_cdi=self._places.cdi is not None)

    def _usable(self, pool: PoolSpec, id_: str) -> PoolMember:
        """Return a device if it can be given out at this very moment."""
        standing = self._standings.get(id_)
        if standing is None:
            raise DevicePluginError(f"{pool.resource} has no device {id_!r}", code="NOT_FOUND")
        trouble = standing.trouble or fresh_trouble(standing.member)
        if trouble:
            raise DevicePluginError(
                f"device {id_} of {pool.resource} {trouble}", code="FAILED_PRECONDITION"
            )
        return standing.member

    def _save_info(self, pool: PoolSpec, member: PoolMember, description: Description) -> None:
        if pool.type is not DeviceType.NETWORK or member.candidate is None:
            return
        address = member.candidate.function.address
        try:
            save_info(self._places.device_info, pool, member.id, address, description)
        except OSError as error:
            raise DevicePluginError(
                f"cannot write the device-info file of {member.id}: {error}", code="INTERNAL"
            ) from None

    def write_specification(self, standings: Mapping[str, Standing]) -> str:
        """Bring the pool's CDI file up to date, if there is to be one; return what went wrong."""
        folder, pool = self._places.cdi, self.pool
        if folder is None:
            return ""
        facts = Facts(self._places.host)
        devices = {
            id_: self._remembered(id_, describe(pool, one.member, facts))
            for id_, one in standings.items()
        }
        try:
            write_specification(folder, pool, devices)
        except OSError as error:
            return f"its CDI specification cannot be written: {error}"
        self._written = devices
        return ""

    def forget(self, id_: str) -> None:
        """Remove what was written about a device that the pool has no more."""
        if self.pool.type is DeviceType.NETWORK:
            try:
                forget_info(self._places.device_info, self.pool, id_)
            except OSError as error:
                _log.warning("device_info_left", device=id_, error=str(error))

    def _renew_specification(
        self, folder: Path, pool: PoolSpec, devices: Mapping[str, Description]
    ) -> None:
        """Write the file again if something about *devices* differs from what it says."""
        old = {id_: self._written.get(id_) for id_ in devices}
        if all(one is not None and one.nodes == devices[id_].nodes for id_, one in old.items()):
            return
        self._written |= devices
        try:
            write_specification(folder, pool, self._written)
        except OSError as error:
            raise DevicePluginError(
                f"cannot write the CDI specification of {pool.resource}: {error}", code="INTERNAL"
            ) from None

    def _remembered(self, id_: str, description: Description) -> Description:
        """Return what was known of a device whose RDMA files are with a pod now."""
        known = self._written.get(id_)
        is_away = "rdma" in description.info and not description.rdma
        return known if is_away and known is not None and known.rdma else description


def answer(pool: PoolSpec, devices: Mapping[str, Description], *, use_cdi: bool) -> Allocation:
    """Return what a container needs that gets *devices*, in their order.

    With CDI the runtime takes device files and mounts from the specification that the names in the
    answer lead to; variables are in the answer in either case.
    """
    envs = environment(pool, devices)
    if use_cdi:
        names = tuple(qualified_name(pool, id_) for id_ in devices)
        return Allocation(envs=envs, cdi_devices=names)
    nodes: dict[str, DeviceFile] = {}
    for description in devices.values():
        for node in description.nodes:
            nodes.setdefault(node.host_path, node)
    mounts = [mount for description in devices.values() for mount in description.mounts]
    return Allocation(envs=envs, devices=tuple(nodes.values()), mounts=tuple(dict.fromkeys(mounts)))


_PATIENCE_SECONDS: Final = 1.0
"""The kubelet waits for the answer, and the pod with it."""


class Held(NamedTuple):
    """A device that a container has."""

    container: str
    resource: str
    id: str


class KubeletDevices:
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
        self._claimed: Mapping[str, str] = {}
        self._asked_at = float("-inf")
        self._is_silent = False

    async def claimed(self, *, within: float) -> Mapping[str, str]:
        """Return which claims have devices, by the devices' names in slices.

        What was known stays so while the kubelet does not answer, which does not want to be asked
        often, and for so many seconds after it was asked.
        """
        if asyncio.get_running_loop().time() >= self._asked_at + within:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._listed()
            except (NumakubeError, OSError, TimeoutError) as error:
                if not self._is_silent:
                    _log.warning("claims_unknown", why=str(error) or "no answer")
                self._is_silent = True
        return self._claimed

    async def _listed(self) -> Sequence[PodResources]:
        """Return what pods have."""
        self._asked_at = asyncio.get_running_loop().time()
        pods = await self._kubelet.list_pods()
        self._is_silent = False
        self._claimed = {
            device.device: f"{claim.claim_namespace}/{claim.claim_name}"
            for pod in pods
            for container in pod.containers
            for claim in container.dynamic_resources
            for device in claim.devices
        }
        return pods

    async def around(self, resource: str, own: Collection[str]) -> OtherDevices | None:
        """Return what surrounds the devices *own* of a resource; ``None`` if that is not known."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                pods = [list(_held(pod)) for pod in await self._listed()]
                saved = await asyncio.to_thread(self._saved)
                asking = [pod for pod in pods if not saved.issuperset(pod)]
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
        return OtherDevices(
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
