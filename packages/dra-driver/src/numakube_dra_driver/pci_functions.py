"""PCI functions and other devices of pools, as ``numakube sriov`` has them, offered to claims.

The configuration, the pools and the way to look at a host are those of the device plugin
(``numakube.node.pci``): a node has the plugin or the driver for a device, never both. Who has a
device through a plugin is asked of the kubelet: it is not offered, and not given to a claim either
that was allocated it before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.api.resource_slices import Device, DeviceAttribute
from numakube.errors import ConfigError, InvalidValue, KubeletUnavailable
from numakube.kubelet.machine import path_of
from numakube.node.pci.device_files import describe, info_text
from numakube.node.pci.device_links import DevicePaths
from numakube.node.pci.device_pools import DeviceType
from numakube.node.pci.host_scan import SurveyOptions, fresh_trouble, look, name_in_slices
from numakube.node.pci.netlink import Devlink
from numakube.node.pci.pci_discovery import Facts, Host
from numakube.node.pci.pci_functions import is_address
from numakube.node.pci.pool_config import read_config_file
from numakube_dra_driver.devices import (
    DRIVER,
    LONGEST_TEXT,
    NUMA_NODE,
    PCIE_ROOT,
    OfferedFunction,
    OfferedFunctions,
    single,
)
from numakube_dra_driver.ledger import GivenFunction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.kube.clock import Clock
    from numakube.node.pci.device_pools import Config, PoolSpec
    from numakube.node.pci.host_scan import PoolMember, Standing, Survey
    from numakube.node.pci.pci_discovery import FoundFunction
    from numakube.node.podresources_client import AllocatableResources, PodResources

PCI, STATIC = "pci", "static"
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_MULTUS: Final = "k8s.cni.cncf.io"
_LONGEST_NAME: Final = 63
_KUBELET_SECONDS: Final = 2.0
"""A claim waits for the answer, and the pod with it."""
_SWITCHED: Final = 3
"""Bridges above a function behind a switch: the root port, and two ports of the switch."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class FunctionReader:
    """Looks at the host again and again; blocks for some milliseconds.

    Attributes:
        survey: what the last look has found.
    """

    def __init__(
        self, config_file: Path, host: Host, *, prefix: str, options: SurveyOptions
    ) -> None:
        """Read the configuration.

        Raises:
            ConfigError: it makes no sense.
        """
        self._file = config_file
        self._host = host
        self._paths = DevicePaths(host.sysfs, host.proc)
        self._prefix = prefix
        self._options = options
        self._config = self._read()
        self._trouble = ""
        self._told = ""
        self._troubles: dict[str, str] = {}
        self.survey: Survey | None = None

    def look(self, taken: Mapping[str, str], now: float) -> OfferedFunctions:
        """Return what can be offered *now*, of which others have what is *taken*."""
        offered = self._look(taken, now)
        self._tell(offered)
        return offered

    def _tell(self, offered: OfferedFunctions) -> None:
        """Log which functions no claim can have, once."""
        troubles = {one.id: one.trouble for one in offered.by_name.values() if one.trouble}
        for id_, why in troubles.items():
            if self._troubles.get(id_) != why:
                _log.warning("function_not_offered", device=id_, why=why)
        self._troubles = troubles
        if offered.trouble != self._told:
            _log.warning("functions_unknown", why=offered.trouble or "known again")
        self._told = offered.trouble

    def _look(self, taken: Mapping[str, str], now: float) -> OfferedFunctions:
        try:
            config = self._read()
        except ConfigError as error:
            # As the device plugin does: the last good configuration stays in force.
            self._trouble = str(error)
        else:
            if config != self._config:
                _log.info("pools_read", pools=len(config.pools))
            self._config, self._trouble = config, ""
        self.survey = look(self._config, self._host, self._options, before=self.survey, now=now)
        addresses = self._paths.read(one for one in taken if not is_address(one)).functions
        named = {addresses.get(id_, id_): why for id_, why in taken.items()}
        return offered_functions(self.survey, named, config_trouble=self._trouble)

    def ready(self, resource: str, id_: str, *, is_held: bool) -> GivenFunction:
        """Return what a container needs to use a device of a pool at this very moment.

        Args:
            resource: the pool.
            id_: the device.
            is_held: whether the claim has it already, and so whatever its link is like.

        Raises:
            InvalidValue: it cannot be used.
        """
        survey = self.survey
        standing = survey.standings.get(resource, {}).get(id_) if survey is not None else None
        if survey is None or standing is None:
            raise InvalidValue(f"{id_} is not in pool {resource} any more")
        seen = "" if is_held else standing.trouble
        if trouble := seen or fresh_trouble(standing.member):
            raise InvalidValue(f"{id_} of pool {resource} {trouble}")
        (pool,) = (pool for pool in survey.config.pools if pool.resource == resource)
        return given_function(pool, standing.member, Facts(self._host))

    def _read(self) -> Config:
        return read_config_file(self._file, prefix=self._prefix)


class Kubelet(Protocol):
    """Tells who has devices of device plugins."""

    async def allocatable(self) -> AllocatableResources:
        """Return what plugins offer."""
        ...

    async def list_pods(self) -> Sequence[PodResources]:
        """Return what pods have."""
        ...


class NodeFunctions:
    """The PCI functions of a node that has pools of them.

    What plugins have is as of when the kubelet was asked last; nothing is offered before that.
    """

    def __init__(self, reader: FunctionReader, kubelet: Kubelet, clock: Clock) -> None:
        self._reader = reader
        self._kubelet = kubelet
        self._clock = clock
        self._unknown = "it is not known yet whether a device plugin has it"
        self._taken: Mapping[str, str] | None = None

    def look(self) -> OfferedFunctions:
        """Return what can be offered now, as far as the kubelet has told what plugins have."""
        taken = self._taken
        found = self._reader.look(taken or {}, self._clock.monotonic())
        if taken is not None:
            return found
        return OfferedFunctions(
            by_name={
                name: replace(one, trouble=one.trouble or self._unknown)
                for name, one in found.by_name.items()
            },
            trouble=found.trouble,
        )

    def assume_none(self) -> None:
        """Take it that no device plugin has any."""
        self._taken = {}

    async def taken(self, *, offered_too: bool = True) -> Mapping[str, str]:
        """Return what has functions besides claims, by their names on the host.

        Args:
            offered_too: whether those count that a device plugin offers, besides those of pods.

        Raises:
            NumakubeError: the kubelet does not tell; then nothing is given that others might have.
        """
        try:
            async with self._clock.timeout(_KUBELET_SECONDS):
                plugins = (await self._kubelet.allocatable()).devices
                pods = await self._kubelet.list_pods()
        except TimeoutError:
            raise KubeletUnavailable(
                "the kubelet does not tell which functions device plugins have"
            ) from None
        offered = {
            id_: f"is offered by a device plugin as {devices.resource}: a node has the plugin or "
            "the DRA driver for it"
            for devices in plugins
            for id_ in devices.ids
        }
        had = {
            id_: f"belongs to pod {pod.namespace}/{pod.name}, by a device plugin"
            for pod in pods
            for container in pod.containers
            for devices in container.devices
            for id_ in devices.ids
        }
        self._taken = offered | had
        return self._taken if offered_too else had

    def ready(self, resource: str, id_: str, *, is_held: bool) -> GivenFunction:
        """Return what a container needs of a function at this moment.

        Raises:
            InvalidValue: it cannot be used.
        """
        return self._reader.ready(resource, id_, is_held=is_held)


def host_of(sysfs: Path, dev: Path, proc: Path) -> Host:
    """Return a host with what only netlink tells."""
    devlink = Devlink()
    return Host(
        sysfs=sysfs,
        dev=dev,
        proc=proc,
        firmware=devlink.firmware,
        rdma_enabled=devlink.is_rdma_enabled,
    )


def offered_functions(
    survey: Survey, taken: Mapping[str, str], *, config_trouble: str = ""
) -> OfferedFunctions:
    """Return what a look at the host has found, as claims know it.

    Args:
        survey: what was found.
        taken: what else has a device, by its id.
        config_trouble: why the configuration on the disk is not in force.
    """
    found: dict[str, OfferedFunction] = {}
    troubles = [config_trouble, survey.inventory.trouble]
    for pool in survey.config.pools:
        if len(pool.resource) > LONGEST_TEXT:
            troubles.append(f"pool {pool.resource}: the name has more than {LONGEST_TEXT} letters")
            continue
        for standing in survey.standings[pool.resource].values():
            one = _offered(pool, standing, taken, survey)
            other = found.setdefault(one.device.name, one)
            if other is not one:
                troubles.append(f"{one.id} and {other.id} would both be called {one.device.name}")
    return OfferedFunctions(by_name=found, trouble="; ".join(filter(None, troubles)))


def _offered(
    pool: PoolSpec, standing: Standing, taken: Mapping[str, str], survey: Survey
) -> OfferedFunction:
    member = standing.member
    attributes = dict(_attributes(pool, member, survey.inventory.facts))
    return OfferedFunction(
        device=Device(name=device_name(member), attributes=attributes),
        id=member.id,
        resource=pool.resource,
        trouble=standing.trouble or taken.get(member.id, ""),
    )


def device_name(member: PoolMember) -> str:
    """Return what a device is called in slices: ``pci-0000-3b-02-1``."""
    kind = PCI
    if member.candidate is None:
        kind = STATIC
    elif member.candidate.aux_type:
        kind = member.candidate.aux_type
    name = f"{kind}-{name_in_slices(member.id)}"
    return name[:_LONGEST_NAME].rstrip("-")


def _attributes(
    pool: PoolSpec, member: PoolMember, facts: Facts
) -> Iterator[tuple[str, DeviceAttribute]]:
    """Yield what slices say of a device; what is not known is not said."""
    kind = STATIC if member.static is not None else PCI
    texts = {
        f"{DRIVER}/kind": kind,
        f"{DRIVER}/pool": pool.resource,
        f"{_MULTUS}/deviceID": member.id,
        f"{_MULTUS}/resourceName": pool.resource,
    }
    if member.candidate is not None:
        texts |= _texts(member.candidate)
        is_rdma = DeviceAttribute(boolean=facts.is_rdma(member.candidate))
        yield f"{DRIVER}/rdma", is_rdma
        if member.candidate.index is not None:
            yield f"{DRIVER}/vf", DeviceAttribute(integer=member.candidate.index)
    for name, text in texts.items():
        if 0 < len(text.encode()) <= LONGEST_TEXT:
            yield name, DeviceAttribute(string=text)
    # A function that is near no NUMA node has none: -1 would be the same for all such functions.
    yield from single(
        member.numa_nodes, NUMA_NODE, "dra.cpu/numaNodeID", "dra.net/numaNode"
    ).items()


def _texts(candidate: FoundFunction) -> dict[str, str]:
    function = candidate.function
    texts = {
        PCI_BUS_ID: function.address,
        f"{DRIVER}/vendor": function.vendor,
        f"{DRIVER}/device": function.device,
        f"{DRIVER}/driver": function.driver,
        f"{DRIVER}/pf": candidate.pf_name,
        f"{DRIVER}/pfAddress": candidate.pf_address,
        f"{DRIVER}/linkType": candidate.link_type,
    }
    try:
        path = path_of(candidate.folder.resolve(strict=True).parts, None)
    except OSError:
        path = None
    if path is not None:
        texts[PCIE_ROOT] = path.root
        texts[f"{DRIVER}/switch"] = path.bridges[1] if len(path.bridges) >= _SWITCHED else ""
    return texts


def given_function(pool: PoolSpec, member: PoolMember, facts: Facts) -> GivenFunction:
    """Return what a container gets of a device, as the device plugin's answers have it."""
    description = describe(pool, member, facts)
    for warning in description.warnings:
        _log.warning("device_incomplete", resource=pool.resource, detail=warning)
    network_info = ""
    if pool.type is DeviceType.NETWORK and member.candidate is not None:
        network_info = info_text(member.candidate.function.address, description)
    return GivenFunction(
        id=member.id,
        resource=pool.resource,
        info={name: dict(said) for name, said in description.info.items()},
        envs=dict(description.envs),
        nodes=tuple(dict.fromkeys(description.nodes)),
        mounts=tuple(dict.fromkeys(description.mounts)),
        # What follows its interface into a pod is not seen from the host meanwhile.
        is_away="rdma" in description.info and not description.rdma,
        network_info=network_info,
    )
