"""Devices that drivers publish and pods claim."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: DeviceAllocationMode DeviceTaintEffect DeviceTolerationOperator AllocationConfigSource
= str: FullyQualifiedName

kind DeviceClass:
  spec  DeviceClassSpec  !

DeviceClassSpec:
  selectors             []DeviceSelector
  config                []DeviceClassConfiguration
  extendedResourceName  *str

DeviceClassConfiguration:
  ...DeviceConfiguration

DeviceConfiguration:
  opaque  *OpaqueDeviceConfiguration

OpaqueDeviceConfiguration:
  driver      str  !
  parameters  raw  !

DeviceSelector:
  cel  *CELDeviceSelector

CELDeviceSelector:
  expression  str  !

kind ResourceClaimTemplate:
  spec  ResourceClaimTemplateSpec  !

ResourceClaimTemplateSpec:
  metadata  ObjectMeta
  spec      ResourceClaimSpec  !

kind ResourceClaim:
  spec    ResourceClaimSpec  !
  status  ResourceClaimStatus

ResourceClaimSpec:
  devices  DeviceClaim  +

DeviceClaim:
  requests     []DeviceRequest  +
  constraints  []DeviceConstraint
  config       []DeviceClaimConfiguration

DeviceRequest:
  name            str  !
  exactly         *ExactDeviceRequest
  firstAvailable  []DeviceSubRequest

ExactDeviceRequest:
  deviceClassName  str  !
  selectors        []DeviceSelector
  allocationMode   DeviceAllocationMode
  count            int64
  adminAccess      *bool
  tolerations      []DeviceToleration
  capacity         *CapacityRequirements

DeviceSubRequest:
  name             str  !
  deviceClassName  str  !
  selectors        []DeviceSelector
  allocationMode   DeviceAllocationMode
  count            int64
  tolerations      []DeviceToleration
  capacity         *CapacityRequirements

CapacityRequirements:
  requests  {}quantity

DeviceConstraint:
  requests           []str
  matchAttribute     *FullyQualifiedName
  distinctAttribute  *FullyQualifiedName

DeviceClaimConfiguration:
  requests  []str
  ...DeviceConfiguration

DeviceToleration:
  key                str
  operator           DeviceTolerationOperator
  value              str
  effect             DeviceTaintEffect
  tolerationSeconds  *int64

ResourceClaimStatus:
  allocation   *AllocationResult
  reservedFor  []ResourceClaimConsumerReference  keys=uid merge=uid
  devices      []AllocatedDeviceStatus  keys=driver,device,pool,shareID

ResourceClaimConsumerReference:
  apiGroup  str
  resource  str  !
  name      str  !
  uid       UID  !

AllocationResult:
  devices              DeviceAllocationResult
  nodeSelector         *NodeSelector
  allocationTimestamp  *time

DeviceAllocationResult:
  results  []DeviceRequestAllocationResult
  config   []DeviceAllocationConfiguration

DeviceRequestAllocationResult:
  request                   str  !
  driver                    str  !
  pool                      str  !
  device                    str  !
  adminAccess               *bool
  tolerations               []DeviceToleration
  bindingConditions         []str
  bindingFailureConditions  []str
  shareID                   *UID
  consumedCapacity          {}quantity

DeviceAllocationConfiguration:
  source    AllocationConfigSource  !
  requests  []str
  ...DeviceConfiguration

AllocatedDeviceStatus:
  driver       str  !
  pool         str  !
  device       str  !
  shareID      *str
  conditions   []Condition  + keys=type
  data         *raw
  networkData  *NetworkDeviceData

NetworkDeviceData:
  interfaceName    str
  ips              []str
  hardwareAddress  str

kind ResourceSlice:
  spec  ResourceSliceSpec  !

ResourceSliceSpec:
  driver                  str  !
  pool                    ResourcePool  !
  nodeName                *str
  nodeSelector            *NodeSelector
  allNodes                *bool
  devices                 []Device
  perDeviceNodeSelection  *bool
  sharedCounters          []CounterSet

ResourcePool:
  name                str  !
  generation          int64  !
  resourceSliceCount  int64  !

CounterSet:
  name      str  !
  counters  {}Counter

Counter:
  value  quantity  !

Device:
  name                      str  !
  attributes                {}DeviceAttribute
  capacity                  {}DeviceCapacity
  consumesCounters          []DeviceCounterConsumption
  nodeName                  *str
  nodeSelector              *NodeSelector
  allNodes                  *bool
  taints                    []DeviceTaint
  bindsToNode               *bool
  bindingConditions         []str
  bindingFailureConditions  []str
  allowMultipleAllocations  *bool

DeviceAttribute:
  int      *int64
  bool     *bool
  string   *str
  version  *str

DeviceCapacity:
  value          quantity  !
  requestPolicy  *CapacityRequestPolicy

CapacityRequestPolicy:
  default      *quantity  +
  validValues  []quantity
  validRange   *CapacityRequestPolicyRange

CapacityRequestPolicyRange:
  min   *quantity
  max   *quantity
  step  *quantity

DeviceCounterConsumption:
  counterSet  str  !
  counters    {}Counter

DeviceTaint:
  key        str  !
  value      str
  effect     DeviceTaintEffect  !
  timeAdded  *time
"""
