"""Small groups around workloads: policy, coordination, scheduling, node, discovery and events.

Types of ``networking.k8s.io/v1``: ingresses, network policies, addresses of services.
"""

from __future__ import annotations

from typing import Final

POLICY: Final = """
= str: UnhealthyPodEvictionPolicyType

kind PodDisruptionBudget:
    2  spec    PodDisruptionBudgetSpec
    3  status  PodDisruptionBudgetStatus

PodDisruptionBudgetSpec:
    1  minAvailable                *intstr
    2  selector                    *LabelSelector  replace
    3  maxUnavailable              *intstr
    4  unhealthyPodEvictionPolicy  *UnhealthyPodEvictionPolicyType

PodDisruptionBudgetStatus:
    1  observedGeneration  int64
    2  disruptedPods       {}time
    3  disruptionsAllowed  int32  !
    4  currentHealthy      int32  !
    5  desiredHealthy      int32  !
    6  expectedPods        int32  !
    7  conditions          []Condition  keys=type merge=type

kind Eviction:
    2  deleteOptions  *DeleteOptions
"""

COORDINATION: Final = """
= str: CoordinatedLeaseStrategy

kind Lease:
    2  spec  LeaseSpec

LeaseSpec:
    1  holderIdentity        *str
    2  leaseDurationSeconds  *int32
    3  acquireTime           *microtime
    4  renewTime             *microtime
    5  leaseTransitions      *int32
    6  strategy              *CoordinatedLeaseStrategy
    7  preferredHolder       *str
"""

SCHEDULING: Final = """
kind PriorityClass:
    2  value             int32  !
    3  globalDefault     bool
    4  description       str
    5  preemptionPolicy  *core.PreemptionPolicy
"""

NODE: Final = """
kind RuntimeClass:
    2  handler     str  !
    3  overhead    *Overhead
    4  scheduling  *Scheduling

Overhead:
    1  podFixed  core.ResourceList

Scheduling:
    1  nodeSelector  {}str  atomic
    2  tolerations   []core.Toleration
"""

DISCOVERY: Final = """
= str: AddressType

kind EndpointSlice:
    4  addressType  AddressType  !
    2  endpoints    []Endpoint  !
    3  ports        []EndpointPort  +

Endpoint:
    1  addresses           []str  ! set
    2  conditions          EndpointConditions
    3  hostname            *str
    4  targetRef           *core.ObjectReference
    5  deprecatedTopology  {}str
    6  nodeName            *str
    7  zone                *str
    8  hints               *EndpointHints

EndpointConditions:
    1  ready        *bool
    2  serving      *bool
    3  terminating  *bool

EndpointHints:
    1  forZones  []ForZone
    2  forNodes  []ForNode

ForZone:
    1  name  str  !

ForNode:
    1  name  str  !

EndpointPort: atomic
    1  name         *str
    2  protocol     *core.Protocol
    3  port         *int32
    4  appProtocol  *str
"""

EVENTS: Final = """
kind Event:
    1  metadata                  ObjectMeta  +
    2  eventTime                 microtime  !
    3  series                    *EventSeries
    4  reportingController       str
    5  reportingInstance         str
    6  action                    str
    7  reason                    str
    8  regarding                 core.ObjectReference
    9  related                   *core.ObjectReference
   10  note                      str
   11  type                      str
   12  deprecatedSource          core.EventSource
   13  deprecatedFirstTimestamp  time
   14  deprecatedLastTimestamp   time
   15  deprecatedCount           int32

EventSeries:
    1  count             int32  !
    2  lastObservedTime  microtime  !
"""


NETWORKING: Final = """
= str: PolicyType PathType

kind Ingress:
    2  spec    IngressSpec
    3  status  IngressStatus

IngressSpec:
    4  ingressClassName  *str
    1  defaultBackend    *IngressBackend
    2  tls               []IngressTLS
    3  rules             []IngressRule

IngressBackend:
    4  service   *IngressServiceBackend
    3  resource  *core.TypedLocalObjectReference

IngressServiceBackend:
    1  name  str  !
    2  port  ServiceBackendPort

ServiceBackendPort: atomic
    1  name    str
    2  number  int32

IngressTLS:
    1  hosts       []str
    2  secretName  str

IngressRule:
    1  host  str
  2.1  http  *HTTPIngressRuleValue  in=IngressRuleValue

HTTPIngressRuleValue:
    1  paths  []HTTPIngressPath  !

HTTPIngressPath:
    1  path      str
    3  pathType  *PathType  !
    2  backend   IngressBackend  !

IngressStatus:
    1  loadBalancer  IngressLoadBalancerStatus

IngressLoadBalancerStatus:
    1  ingress  []IngressLoadBalancerIngress

IngressLoadBalancerIngress:
    1  ip        str
    2  hostname  str
    4  ports     []IngressPortStatus

IngressPortStatus:
    1  port      int32  !
    2  protocol  core.Protocol  !
    3  error     *str

kind IngressClass:
    2  spec  IngressClassSpec

IngressClassSpec:
    1  controller  str
    2  parameters  *IngressClassParametersReference

IngressClassParametersReference:
    1  apiGroup   *str
    2  kind       str  !
    3  name       str  !
    4  scope      *str  +
    5  namespace  *str

kind NetworkPolicy:
    2  spec  NetworkPolicySpec

NetworkPolicySpec:
    1  podSelector  LabelSelector  +
    2  ingress      []NetworkPolicyIngressRule
    3  egress       []NetworkPolicyEgressRule
    4  policyTypes  []PolicyType

NetworkPolicyIngressRule:
    1  ports  []NetworkPolicyPort
    2  from   []NetworkPolicyPeer

NetworkPolicyEgressRule:
    1  ports  []NetworkPolicyPort
    2  to     []NetworkPolicyPeer

NetworkPolicyPort:
    1  protocol  *core.Protocol
    2  port      *intstr
    3  endPort   *int32

NetworkPolicyPeer:
    1  podSelector        *LabelSelector
    2  namespaceSelector  *LabelSelector
    3  ipBlock            *IPBlock

IPBlock:
    1  cidr    str  !
    2  except  []str

kind IPAddress:
    2  spec  IPAddressSpec

IPAddressSpec:
    1  parentRef  *ParentReference

ParentReference:
    1  group      str
    2  resource   str
    3  namespace  str
    4  name       str

kind ServiceCIDR:
    2  spec    ServiceCIDRSpec
    3  status  ServiceCIDRStatus

ServiceCIDRSpec:
    1  cidrs  []str

ServiceCIDRStatus:
    1  conditions  []Condition  keys=type merge=type
"""
