"""Devices that drivers publish and pods claim."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: DeviceAllocationMode DeviceTaintEffect DeviceTolerationOperator AllocationConfigSource
= str: FullyQualifiedName

kind DeviceClass:
    2  spec  DeviceClassSpec  !

DeviceClassSpec:
    1  selectors             []DeviceSelector
    2  config                []DeviceClassConfiguration
    4  extendedResourceName  *str

DeviceClassConfiguration:
    1  ...DeviceConfiguration

DeviceConfiguration:
    1  opaque  *OpaqueDeviceConfiguration

OpaqueDeviceConfiguration:
    1  driver      str  !
    2  parameters  raw  !

DeviceSelector:
    1  cel  *CELDeviceSelector

CELDeviceSelector:
    1  expression  str  !

kind ResourceClaimTemplate:
    2  spec  ResourceClaimTemplateSpec  !

ResourceClaimTemplateSpec:
    1  metadata  ObjectMeta
    2  spec      ResourceClaimSpec  !

kind ResourceClaim:
    2  spec    ResourceClaimSpec  !
    3  status  ResourceClaimStatus

ResourceClaimSpec:
    1  devices  DeviceClaim  +

DeviceClaim:
    1  requests     []DeviceRequest  +
    2  constraints  []DeviceConstraint
    3  config       []DeviceClaimConfiguration

DeviceRequest:
    1  name            str  !
    2  exactly         *ExactDeviceRequest
    3  firstAvailable  []DeviceSubRequest

ExactDeviceRequest:
    1  deviceClassName  str  !
    2  selectors        []DeviceSelector
    3  allocationMode   DeviceAllocationMode
    4  count            int64
    5  adminAccess      *bool
    6  tolerations      []DeviceToleration
    7  capacity         *CapacityRequirements

DeviceSubRequest:
    1  name             str  !
    2  deviceClassName  str  !
    3  selectors        []DeviceSelector
    4  allocationMode   DeviceAllocationMode
    5  count            int64
    6  tolerations      []DeviceToleration
    7  capacity         *CapacityRequirements

CapacityRequirements:
    1  requests  {}quantity  go=map[v1.QualifiedName]resource.Quantity

DeviceConstraint:
    1  requests           []str
    2  matchAttribute     *FullyQualifiedName
    3  distinctAttribute  *FullyQualifiedName

DeviceClaimConfiguration:
    1  requests  []str
    2  ...DeviceConfiguration

DeviceToleration:
    1  key                str
    2  operator           DeviceTolerationOperator  default=Equal
    3  value              str
    4  effect             DeviceTaintEffect
    5  tolerationSeconds  *int64

ResourceClaimStatus:
    1  allocation   *AllocationResult
    2  reservedFor  []ResourceClaimConsumerReference  keys=uid merge=uid
    4  devices      []AllocatedDeviceStatus  keys=driver,device,pool,shareID

ResourceClaimConsumerReference:
    1  apiGroup  str
    3  resource  str  !
    4  name      str  !
    5  uid       UID  !

AllocationResult:
    1  devices              DeviceAllocationResult
    3  nodeSelector         *NodeSelector
    5  allocationTimestamp  *time

DeviceAllocationResult:
    1  results  []DeviceRequestAllocationResult
    2  config   []DeviceAllocationConfiguration

DeviceRequestAllocationResult:
    1  request                   str  !
    2  driver                    str  !
    3  pool                      str  !
    4  device                    str  !
    5  adminAccess               *bool
    6  tolerations               []DeviceToleration
    7  bindingConditions         []str
    8  bindingFailureConditions  []str
    9  shareID                   *UID
   10  consumedCapacity          {}quantity  go=map[v1.QualifiedName]resource.Quantity

DeviceAllocationConfiguration:
    1  source    AllocationConfigSource  !
    2  requests  []str
    3  ...DeviceConfiguration

AllocatedDeviceStatus:
    1  driver       str  !
    2  pool         str  !
    3  device       str  !
    7  shareID      *str
    4  conditions   []Condition  + keys=type
    5  data         *raw
    6  networkData  *NetworkDeviceData

NetworkDeviceData:
    1  interfaceName    str
    2  ips              []str
    3  hardwareAddress  str

kind ResourceSlice:
    2  spec  ResourceSliceSpec  !

ResourceSliceSpec:
    1  driver                  str  !
    2  pool                    ResourcePool  !
    3  nodeName                *str
    4  nodeSelector            *NodeSelector
    5  allNodes                *bool
    6  devices                 []Device
    7  perDeviceNodeSelection  *bool
    8  sharedCounters          []CounterSet

ResourcePool:
    1  name                str  !
    2  generation          int64  !
    3  resourceSliceCount  int64  !

CounterSet:
    1  name      str  !
    2  counters  {}Counter

Counter:
    1  value  quantity  !

Device:
    1  name                      str  !
    2  attributes                {}DeviceAttribute  go=map[v1.QualifiedName]v1.DeviceAttribute
    3  capacity                  {}DeviceCapacity  go=map[v1.QualifiedName]v1.DeviceCapacity
    4  consumesCounters          []DeviceCounterConsumption
    5  nodeName                  *str
    6  nodeSelector              *NodeSelector
    7  allNodes                  *bool
    8  taints                    []DeviceTaint
    9  bindsToNode               *bool
   10  bindingConditions         []str
   11  bindingFailureConditions  []str
   12  allowMultipleAllocations  *bool
   14  nodeAllocatableResources  {}NodeAllocatableResource  \
           go=map[v1.ResourceName]v1.NodeAllocatableResource

NodeAllocatableResource:
    3  mapping   *NodeAllocatableMapping
    4  overhead  *NodeAllocatableOverhead

NodeAllocatableMapping:
    1  capacityKey         *str
    2  capacityMultiplier  *quantity
    3  deviceMultiplier    *quantity

NodeAllocatableOverhead:
    1  perPod        *quantity
    2  perContainer  *quantity

DeviceAttribute:
    2  int       *int64
    3  bool      *bool
    4  string    *str
    5  version   *str
    6  ints      []int64
    7  bools     []bool
    8  strings   []str
    9  versions  []str

DeviceCapacity:
    1  value          quantity  !
    2  requestPolicy  *CapacityRequestPolicy

CapacityRequestPolicy:
    1  default      *quantity  +
    3  validValues  []quantity
    4  validRange   *CapacityRequestPolicyRange

CapacityRequestPolicyRange:
    1  min   *quantity
    2  max   *quantity
    3  step  *quantity

DeviceCounterConsumption:
    1  counterSet  str  !
    2  counters    {}Counter

DeviceTaint:
    1  key        str  !
    2  value      str
    3  effect     DeviceTaintEffect  !
    4  timeAdded  *time

kind DeviceTaintRule:
    2  spec    DeviceTaintRuleSpec  !
    3  status  DeviceTaintRuleStatus

DeviceTaintRuleSpec:
    1  deviceSelector  *DeviceTaintSelector
    2  taint           DeviceTaint  !

DeviceTaintSelector:
    2  driver  *str
    3  pool    *str
    4  device  *str

DeviceTaintRuleStatus:
    1  conditions  []Condition  keys=type merge=type
"""
