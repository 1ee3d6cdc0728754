"""Small groups around workloads: policy, coordination, scheduling, node, discovery and events."""

from __future__ import annotations

from typing import Final

POLICY: Final = """
= str: UnhealthyPodEvictionPolicyType

kind PodDisruptionBudget:
  spec    PodDisruptionBudgetSpec
  status  PodDisruptionBudgetStatus

PodDisruptionBudgetSpec:
  minAvailable                *intstr
  selector                    *LabelSelector  replace
  maxUnavailable              *intstr
  unhealthyPodEvictionPolicy  *UnhealthyPodEvictionPolicyType

PodDisruptionBudgetStatus:
  observedGeneration  int64
  disruptedPods       {}time
  disruptionsAllowed  int32  !
  currentHealthy      int32  !
  desiredHealthy      int32  !
  expectedPods        int32  !
  conditions          []Condition  keys=type merge=type

kind Eviction:
  deleteOptions  *DeleteOptions
"""

COORDINATION: Final = """
= str: CoordinatedLeaseStrategy

kind Lease:
  spec  LeaseSpec

LeaseSpec:
  holderIdentity        *str
  leaseDurationSeconds  *int32
  acquireTime           *microtime
  renewTime             *microtime
  leaseTransitions      *int32
  strategy              *CoordinatedLeaseStrategy
  preferredHolder       *str
"""

SCHEDULING: Final = """
kind PriorityClass:
  value             int32  !
  globalDefault     bool
  description       str
  preemptionPolicy  *core.PreemptionPolicy
"""

NODE: Final = """
kind RuntimeClass:
  handler     str  !
  overhead    *Overhead
  scheduling  *Scheduling

Overhead:
  podFixed  core.ResourceList

Scheduling:
  nodeSelector  {}str  atomic
  tolerations   []core.Toleration
"""

DISCOVERY: Final = """
= str: AddressType

kind EndpointSlice:
  addressType  AddressType  !
  endpoints    []Endpoint  !
  ports        []EndpointPort  +

Endpoint:
  addresses           []str  ! set
  conditions          EndpointConditions
  hostname            *str
  targetRef           *core.ObjectReference
  deprecatedTopology  {}str
  nodeName            *str
  zone                *str
  hints               *EndpointHints

EndpointConditions:
  ready        *bool
  serving      *bool
  terminating  *bool

EndpointHints:
  forZones  []ForZone
  forNodes  []ForNode

ForZone:
  name  str  !

ForNode:
  name  str  !

EndpointPort: atomic
  name         *str
  protocol     *core.Protocol
  port         *int32
  appProtocol  *str
"""

EVENTS: Final = """
kind Event:
  metadata                  ObjectMeta  +
  eventTime                 microtime  !
  series                    *EventSeries
  reportingController       str
  reportingInstance         str
  action                    str
  reason                    str
  regarding                 core.ObjectReference
  related                   *core.ObjectReference
  note                      str
  type                      str
  deprecatedSource          core.EventSource
  deprecatedFirstTimestamp  time
  deprecatedLastTimestamp   time
  deprecatedCount           int32

EventSeries:
  count             int32  !
  lastObservedTime  microtime  !
"""
