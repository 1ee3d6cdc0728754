"""What users say to the driver in claims and classes: opaque parameters of the driver.

    apiVersion: numakube.dev/v1alpha1
    kind: ClaimParameters
    cpus: {take: spread, preferL3: true, cpuset: "2-5"}

They come from users and choose among what the claim was allocated, and nothing else. What is not
understood refuses the claim: a misspelt wish would otherwise be one that is silently not followed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.api.resource_claims import DeviceAllocationConfiguration, DeviceAllocationResult

API_VERSION: Final = "numakube.dev/v1alpha1"
KIND: Final = "ClaimParameters"
MOST_BYTES: Final = 10 << 10
"""What the API server takes as well."""
_FROM_CLASS: Final = "FromClass"


class Take(StrEnum):
    """Which CPUs of a group are taken first."""

    PACKED = "packed"
    SPREAD = "spread"


class _Strict(
    msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True
):
    """Base of what users write; a field that is not set is left to others."""


class CpuParameters(_Strict, frozen=True):
    """How to choose CPUs.

    Attributes:
        take: whole cores first, or one CPU of each core first; as the kubelet does by default.
        prefer_l3: few last-level caches come before few cores.
        cpuset: exactly these.
    """

    take: Take | None = None
    prefer_l3: bool | None = msgspec.field(default=None, name="preferL3")
    cpuset: str | None = None


class Parameters(_Strict, frozen=True):
    """All parameters of one request."""

    api_version: str = ""
    kind: str = ""
    cpus: CpuParameters = CpuParameters()


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
    ours.sort(key=lambda one: one.source != _FROM_CLASS)
    merged: dict[str, Any] = {}
    for configuration in ours:
        if (
            not configuration.requests
            or request in configuration.requests
            or request.split("/")[0] in configuration.requests
        ):
            written = _read(configuration)
            merged |= {
                name: value
                for name in written.cpus.__struct_fields__
                if (value := getattr(written.cpus, name)) is not None
            }
    return Parameters(cpus=CpuParameters(**merged))


def _read(config: DeviceAllocationConfiguration) -> Parameters:
    tree = config.opaque.parameters if config.opaque is not None else None
    where = f"parameters of {'class' if config.source == _FROM_CLASS else 'claim'}"
    if len(msgspec.json.encode(tree)) > MOST_BYTES:
        raise InvalidValue(f"{where}: more than {MOST_BYTES} bytes")
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
