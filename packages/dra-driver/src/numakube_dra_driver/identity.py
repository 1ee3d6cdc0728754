"""In whose name the driver speaks: its own, or that of dra-driver-cpu, whose place it can take.

With ``--compatible`` the node's CPUs are offered as dra-driver-cpu (0.2, commit de98098) offers
them: claims, classes and workloads that are written for it work unchanged. Memory and PCI functions
keep the driver's own name. Both names share one ledger, as both give out one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.cdi import DRA_CPU_NAMES, NAMES, CdiNames
from numakube_dra_driver.devices import DRA_CPU, DRIVER
from numakube_dra_driver.parameters import (
    FROM_CLASS,
    CpuParameters,
    Parameters,
    applies_to,
    checked_size,
    parameters_of,
)

if TYPE_CHECKING:
    from numakube.api.resource_claims import DeviceAllocationConfiguration, DeviceAllocationResult

ReadParameters: TypeAlias = Callable[["DeviceAllocationResult", str], Parameters]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A driver as others know it.

    Attributes:
        driver: its name.
        cdi: what runtimes know of its claims.
        parameters_of: what a claim says about a request of it.
        one_container: a claim is for one container, and refused to a second one.
    """

    driver: str
    cdi: CdiNames
    parameters_of: ReadParameters
    one_container: bool = False


def _own(allocation: DeviceAllocationResult, request: str) -> Parameters:
    return parameters_of(allocation, request, DRIVER)


class _CpuConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which CPUs a claim names."""

    cpuset: str = ""


class _OpaqueConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What dra-driver-cpu reads in claims."""

    api_version: str = ""
    cpu_config: _CpuConfig = _CpuConfig()


def _of_dra_cpu(allocation: DeviceAllocationResult, request: str) -> Parameters:
    """Return what a claim says in the form of dra-driver-cpu: which CPUs, or nothing.

    Raises:
        InvalidValue: it makes no sense, is said by a class, or is said twice.
    """
    said = [
        one
        for one in allocation.config
        if one.opaque and one.opaque.driver == DRA_CPU and applies_to(one, request)
    ]
    if any(one.source == FROM_CLASS for one in said):
        raise InvalidValue(
            f"request {request}: CPUs are named by claims, not by classes; remove the config of "
            "the DeviceClass"
        )
    if len(said) > 1:
        raise InvalidValue(f"request {request}: {len(said)} configs name its CPUs; one may")
    return Parameters(cpus=CpuParameters(cpuset=_cpuset(said[0]))) if said else Parameters()


def _cpuset(config: DeviceAllocationConfiguration) -> str:
    tree = checked_size(config, "config of the claim")
    try:
        read = msgspec.convert(tree, _OpaqueConfig)
        CpuSet.parse(read.cpu_config.cpuset)
    except (msgspec.ValidationError, InvalidValue, RecursionError) as error:
        raise InvalidValue(f"config of the claim: {error}") from None
    if read.api_version != "v1alpha1":
        raise InvalidValue(
            f"config of the claim: apiVersion {read.api_version or '(none)'} is not known; this "
            "driver knows v1alpha1"
        )
    if not read.cpu_config.cpuset:
        raise InvalidValue("config of the claim: cpuConfig.cpuset is missing")
    return read.cpu_config.cpuset


OWN: Final = Identity(driver=DRIVER, cdi=NAMES, parameters_of=_own)
COMPATIBLE: Final = Identity(
    driver=DRA_CPU, cdi=DRA_CPU_NAMES, parameters_of=_of_dra_cpu, one_container=True
)
IDENTITIES: Final = {one.driver: one for one in (OWN, COMPATIBLE)}
