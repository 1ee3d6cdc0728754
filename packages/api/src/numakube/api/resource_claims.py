"""ResourceClaims: what pods want of DRA devices, and what was allocated to them.

Of ``resource.k8s.io/v1`` (1.37, alpha fields included), the fields that allocation depends on.
"""

from typing import Any, Final

import msgspec

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.codec import QuantityText, Timestamp, Wire, always
from numakube.api.meta import ObjectMeta
from numakube.api.resource_slices import DeviceSelector, OpaqueDeviceConfiguration

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""On claims that are allocated."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of claims that the scheduler created for extended resources."""
EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


class DeviceToleration(Wire, frozen=True):
    """A taint that a request tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Wire, frozen=True):
    """How much of each capacity is wanted."""

    requests: dict[str, QuantityText] = {}


class DeviceDerivedAttribute(Wire, frozen=True):
    """An attribute that is computed from others (alpha)."""

    name: str
    expression: str


class ExactDeviceRequest(Wire, frozen=True):
    """A request without alternatives, or one of several alternatives."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = always(EXACT_COUNT)
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(ExactDeviceRequest, frozen=True):
    """One of several alternatives."""

    name: str = ""


class DeviceRequest(Wire, frozen=True):
    """A request for devices, with alternatives or without."""

    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire, frozen=True):
    """What the devices of several requests must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire, frozen=True):
    """Parameters for the devices of some requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire, frozen=True):
    """Everything that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire, frozen=True):
    """A device that a request got."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityText] = {}
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Wire, frozen=True):
    """Parameters that came with an allocation, and where from."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire, frozen=True):
    """The devices of an allocation."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire, frozen=True):
    """What was allocated to a claim, and the nodes that can use it."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Timestamp | None = None


class ResourceClaimConsumerReference(Wire, frozen=True):
    """Who may use a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class DeviceCondition(Wire, frozen=True):
    """One aspect of an allocated device's state."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


class AllocatedDeviceStatus(Wire, frozen=True):
    """What a driver says of a device that it has for a claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[DeviceCondition, ...] = ()
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(Wire, frozen=True):
    """What became of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaimTemplateSpec(Wire, frozen=True):
    """What the claims of a template are to be."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Wire, frozen=True):
    """What claims are made from, one for each pod; pods refer to it by name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ResourceClaim(Wire, frozen=True):
    """A wish for devices that pods share."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()
    api_version: str = always("resource.k8s.io/v1")
    kind: str = always("ResourceClaim")
