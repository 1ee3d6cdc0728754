"""What users say to the driver in claims and classes: opaque parameters of the driver.

    apiVersion: numakube.dev/v1alpha1
    kind: ClaimParameters
    cpus: {take: spread, preferL3: true, cpuset: "2-5", exclusive: true}
    memory: bind
    quota: lift
    with: [main]

They come from users and choose among what the claim was allocated, and nothing else. What is not
understood refuses the claim: a misspelt wish would otherwise be one that is silently not followed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.api.resource_claims import DeviceAllocationConfiguration, DeviceAllocationResult

API_VERSION: Final = "numakube.dev/v1alpha1"
KIND: Final = "ClaimParameters"
MOST_BYTES: Final = 10 << 10
"""What the API server takes as well."""
FROM_CLASS: Final = "FromClass"


class Take(StrEnum):
    """Which CPUs of a group are taken first."""

    PACKED = "packed"
    SPREAD = "spread"
    ONE_PER_CORE = "one-per-core"


class MemoryBinding(StrEnum):
    """Which NUMA nodes memory comes from."""

    BIND = "bind"
    NEAR = "near"
    ANY = "any"


class Quota(StrEnum):
    """Whether CPU time is limited on CPUs that nobody else has."""

    LIFT = "lift"
    KEEP = "keep"


class _Strict(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """Base of what users write; a field that is not set is left to others."""


class CpuParameters(_Strict, frozen=True):
    """How to choose CPUs.

    Attributes:
        take: whole cores first, one CPU of each core first, or one CPU of each core and no more; as
            the kubelet does by default.
        prefer_l3: few last-level caches come before few cores.
        cpuset: exactly these.
        exclusive: nobody else runs on them; otherwise the claim stands for the place alone.
    """

    take: Take | None = None
    prefer_l3: bool | None = msgspec.field(default=None, name="preferL3")
    cpuset: str | None = None
    exclusive: bool | None = None


class Parameters(_Strict, frozen=True):
    """All parameters of one request.

    Attributes:
        memory: to the NUMA nodes of the claim's memory, or to those of its CPUs if it has no
            memory, or to none.
        quota: whether CPU time is limited on CPUs of its own.
        bundle: requests that are called like this one with ``-`` and more go with it.
        goes_with: containers that name one of these requests have this one, too.
    """

    api_version: str = ""
    kind: str = ""
    cpus: CpuParameters = CpuParameters()
    memory: MemoryBinding | None = None
    quota: Quota | None = None
    bundle: bool | None = None
    goes_with: tuple[str, ...] | None = msgspec.field(default=None, name="with")


def parameters_of(allocation: DeviceAllocationResult, request: str, driver: str) -> Parameters:
    """Return the parameters of *request*: of its class first, of the claim over those.

    Raises:
        InvalidValue: some make no sense.
    """
    ours = [
        configuration
        for configuration in allocation.config
        if configuration.opaque and configuration.opaque.driver == driver
    ]
    ours.sort(key=lambda one: one.source != FROM_CLASS)
    merged = Parameters()
    for configuration in ours:
        if applies_to(configuration, request):
            written = _read(configuration)
            cpus = _over(merged.cpus, written.cpus)
            merged = msgspec.structs.replace(_over(merged, written), cpus=cpus)
    return merged


def applies_to(configuration: DeviceAllocationConfiguration, request: str) -> bool:
    """Tell whether parameters are for *request*, or for what it is an alternative of."""
    named = configuration.requests
    return not named or request in named or request.partition("/")[0] in named


def checked_size(config: DeviceAllocationConfiguration, where: str) -> object:
    """Return what a configuration says, if that is not too much.

    Raises:
        InvalidValue: it is.
    """
    tree = config.opaque.parameters if config.opaque is not None else None
    if len(msgspec.json.encode(tree)) > MOST_BYTES:
        raise InvalidValue(f"{where}: more than {MOST_BYTES} bytes")
    return tree


_S = TypeVar("_S", bound=_Strict)


def _over(under: _S, written: _S) -> _S:
    """Return *under* with what is said in *written*."""
    said = {name: getattr(written, name) for name in written.__struct_fields__}
    changes = {name: value for name, value in said.items() if value is not None}
    return msgspec.structs.replace(under, **changes)


def _read(config: DeviceAllocationConfiguration) -> Parameters:
    where = f"parameters of {'class' if config.source == FROM_CLASS else 'claim'}"
    tree = checked_size(config, where)
    try:
        read = msgspec.convert(tree, Parameters)
        CpuSet.parse(read.cpus.cpuset or "")
    except (msgspec.ValidationError, InvalidValue, RecursionError) as error:
        raise InvalidValue(f"{where}: {error}") from None
    if (read.api_version, read.kind) != (API_VERSION, KIND):
        raise InvalidValue(
            f"{where}: {read.api_version or '(none)'} {read.kind or '(none)'} is not known; "
            f"this driver knows {API_VERSION} {KIND}"
        )
    return read
