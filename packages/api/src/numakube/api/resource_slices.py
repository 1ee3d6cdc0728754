"""ResourceSlices, DeviceClasses and DeviceTaintRules: the devices that DRA drivers offer.

Of ``resource.k8s.io/v1`` (1.37, alpha fields included), the fields that allocation depends on.
"""

from typing import Any

import msgspec

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.codec import QuantityText, Timestamp, Wire, always
from numakube.api.meta import ObjectMeta


class DeviceAttribute(Wire, frozen=True):
    """A fact about a device; exactly one of the fields is set."""

    integer: int | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    integers: tuple[int, ...] | None = msgspec.field(default=None, name="ints")
    booleans: tuple[bool, ...] | None = msgspec.field(default=None, name="bools")
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Wire, frozen=True):
    """Which amounts may be asked for: from *min* to *max* in steps."""

    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class CapacityRequestPolicy(Wire, frozen=True):
    """How requests for part of a capacity are rounded and limited."""

    default: QuantityText | None = None
    valid_values: tuple[QuantityText, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire, frozen=True):
    """How much of something a device has."""

    value: QuantityText = 0
    request_policy: CapacityRequestPolicy | None = None


class CounterValueFrom(Wire, frozen=True):
    """Which capacity of a request says how much is consumed (KEP-5941, in no release yet)."""

    capacity_key: str = ""


class Counter(Wire, frozen=True):
    """An amount that several devices may draw on."""

    value: QuantityText = 0
    value_from: CounterValueFrom | None = None


class DeviceCounterConsumption(Wire, frozen=True):
    """What a device takes of a counter set while it is allocated."""

    counter_set: str
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class CounterSet(Wire, frozen=True):
    """Amounts that the devices of a pool share."""

    name: str
    counters: dict[str, Counter] = {}


class DeviceTaint(Wire, frozen=True):
    """Keeps claims away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Timestamp | None = None


class NodeAllocatableResourceMapping(Wire, frozen=True):
    """How much of a node's resource a device stands for."""

    capacity_key: str | None = None
    capacity_multiplier: QuantityText | None = None
    device_multiplier: QuantityText | None = None


class NodeAllocatableResourceOverhead(Wire, frozen=True):
    """What using a device costs besides."""

    per_pod: QuantityText | None = None
    per_container: QuantityText | None = None


class NodeAllocatableResource(Wire, frozen=True):
    """What a device means for one of the node's resources (alpha)."""

    mapping: NodeAllocatableResourceMapping | None = None
    overhead: NodeAllocatableResourceOverhead | None = None


class Device(Wire, frozen=True):
    """A device, or a part of one."""

    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Wire, frozen=True):
    """The pool that a slice belongs to, and how many slices it has."""

    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire, frozen=True):
    """Devices of one driver, and which nodes can reach them."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Wire, frozen=True):
    """A part of a pool of devices."""

    spec: ResourceSliceSpec
    metadata: ObjectMeta = ObjectMeta()
    api_version: str = always("resource.k8s.io/v1")
    kind: str = always("ResourceSlice")


class CELDeviceSelector(Wire, frozen=True):
    """An expression that is true of the wanted devices."""

    expression: str


class DeviceSelector(Wire, frozen=True):
    """Which devices are meant."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Wire, frozen=True):
    """Parameters that only the driver understands."""

    driver: str
    parameters: Any = None


class DeviceClassConfiguration(Wire, frozen=True):
    """Parameters for all devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire, frozen=True):
    """What makes a device one of a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Wire, frozen=True):
    """A kind of device, set up by an administrator."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
    api_version: str = always("resource.k8s.io/v1")
    kind: str = always("DeviceClass")


class DeviceTaintSelector(Wire, frozen=True):
    """Which devices a taint rule is about; what is not given does not matter."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire, frozen=True):
    """A taint, and the devices that get it."""

    taint: DeviceTaint = DeviceTaint()
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRule(Wire, frozen=True):
    """An administrator's taint of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
