"""Types of ``core/v1``: nodes, namespaces, services, configuration, quota and events."""

from __future__ import annotations

from typing import Final

NAME: Final = "core.v1"

TABLE: Final = """
= str: NodePhase NodeConditionType NodeAddressType UniqueVolumeName FinalizerName NamespacePhase
= str: NamespaceConditionType SecretType ServiceType ServiceAffinity ServiceExternalTrafficPolicy
= str: ServiceInternalTrafficPolicy IPFamily IPFamilyPolicy LoadBalancerIPMode ResourceQuotaScope
= str: ScopeSelectorOperator LimitType ComponentConditionType

ObjectReference: atomic
  kind             str
  namespace        str
  name             str
  uid              UID
  apiVersion       str
  resourceVersion  str
  fieldPath        str

LocalObjectReference: atomic
  name  str  default=

TypedLocalObjectReference: atomic
  apiGroup  *str  +
  kind      str  !
  name      str  !

SecretReference: atomic
  name       str
  namespace  str

kind Node:
  spec    NodeSpec
  status  NodeStatus

NodeSpec:
  podCIDR        str
  podCIDRs       []str  set merge
  providerID     str
  unschedulable  bool
  taints         []Taint
  configSource   *NodeConfigSource
  externalID     str

Taint:
  key        str  !
  value      str
  effect     TaintEffect  !
  timeAdded  *time

NodeConfigSource:
  configMap  *ConfigMapNodeConfigSource

ConfigMapNodeConfigSource:
  namespace         str  !
  name              str  !
  uid               UID
  resourceVersion   str
  kubeletConfigKey  str  !

NodeStatus:
  capacity          ResourceList
  allocatable       ResourceList
  phase             NodePhase
  conditions        []NodeCondition  keys=type merge=type
  addresses         []NodeAddress  keys=type merge=type
  daemonEndpoints   NodeDaemonEndpoints
  nodeInfo          NodeSystemInfo
  images            []ContainerImage
  volumesInUse      []UniqueVolumeName
  volumesAttached   []AttachedVolume
  config            *NodeConfigStatus
  runtimeHandlers   []NodeRuntimeHandler
  features          *NodeFeatures
  declaredFeatures  []str

NodeCondition:
  type                NodeConditionType  !
  status              ConditionStatus  !
  lastHeartbeatTime   time
  lastTransitionTime  time
  reason              str
  message             str

NodeAddress:
  type     NodeAddressType  !
  address  str  !

NodeDaemonEndpoints:
  kubeletEndpoint  DaemonEndpoint

DaemonEndpoint:
  Port  int32  !

NodeSystemInfo:
  machineID                str  !
  systemUUID               str  !
  bootID                   str  !
  kernelVersion            str  !
  osImage                  str  !
  containerRuntimeVersion  str  !
  kubeletVersion           str  !
  kubeProxyVersion         str  !
  operatingSystem          str  !
  architecture             str  !
  swap                     *NodeSwapStatus

NodeSwapStatus:
  capacity  *int64

ContainerImage:
  names      []str  +
  sizeBytes  int64

AttachedVolume:
  name        UniqueVolumeName  !
  devicePath  str  !

NodeConfigStatus:
  assigned       *NodeConfigSource
  active         *NodeConfigSource
  lastKnownGood  *NodeConfigSource
  error          str

NodeRuntimeHandler:
  name      str  +
  features  *NodeRuntimeHandlerFeatures

NodeRuntimeHandlerFeatures:
  recursiveReadOnlyMounts  *bool
  userNamespaces           *bool

NodeFeatures:
  supplementalGroupsPolicy  *bool

kind Namespace:
  spec    NamespaceSpec
  status  NamespaceStatus

NamespaceSpec:
  finalizers  []FinalizerName

NamespaceStatus:
  phase       NamespacePhase
  conditions  []NamespaceCondition  keys=type merge=type

NamespaceCondition:
  type                NamespaceConditionType  !
  status              ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

kind ConfigMap:
  immutable   *bool
  data        {}str
  binaryData  {}bytes

kind Secret:
  immutable   *bool
  data        {}bytes
  stringData  {}str
  type        SecretType

kind ServiceAccount:
  secrets                       []ObjectReference  keys=name merge=name
  imagePullSecrets              []LocalObjectReference
  automountServiceAccountToken  *bool

kind Service:
  spec    ServiceSpec
  status  ServiceStatus

ServiceSpec:
  ports                          []ServicePort  keys=port,protocol merge=port
  selector                       {}str  atomic
  clusterIP                      str
  clusterIPs                     []str
  type                           ServiceType
  externalIPs                    []str
  sessionAffinity                ServiceAffinity
  loadBalancerIP                 str
  loadBalancerSourceRanges       []str
  externalName                   str
  externalTrafficPolicy          ServiceExternalTrafficPolicy
  healthCheckNodePort            int32
  publishNotReadyAddresses       bool
  sessionAffinityConfig          *SessionAffinityConfig
  ipFamilies                     []IPFamily
  ipFamilyPolicy                 *IPFamilyPolicy
  allocateLoadBalancerNodePorts  *bool
  loadBalancerClass              *str
  internalTrafficPolicy          *ServiceInternalTrafficPolicy
  trafficDistribution            *str

ServicePort:
  name         str
  protocol     Protocol  default=TCP
  appProtocol  *str
  port         int32  !
  targetPort   intstr
  nodePort     int32

SessionAffinityConfig:
  clientIP  *ClientIPConfig

ClientIPConfig:
  timeoutSeconds  *int32

ServiceStatus:
  loadBalancer  LoadBalancerStatus
  conditions    []Condition  keys=type merge=type

LoadBalancerStatus:
  ingress  []LoadBalancerIngress

LoadBalancerIngress:
  ip        str
  hostname  str
  ipMode    *LoadBalancerIPMode
  ports     []PortStatus

PortStatus:
  port      int32  !
  protocol  Protocol  !
  error     *str

kind Endpoints:
  subsets  []EndpointSubset

EndpointSubset:
  addresses          []EndpointAddress
  notReadyAddresses  []EndpointAddress
  ports              []EndpointPort

EndpointAddress: atomic
  ip         str  !
  hostname   str
  nodeName   *str
  targetRef  *ObjectReference

EndpointPort: atomic
  name         str
  port         int32  !
  protocol     Protocol
  appProtocol  *str

kind ResourceQuota:
  spec    ResourceQuotaSpec
  status  ResourceQuotaStatus

ResourceQuotaSpec:
  hard           ResourceList
  scopes         []ResourceQuotaScope
  scopeSelector  *ScopeSelector

ScopeSelector: atomic
  matchExpressions  []ScopedResourceSelectorRequirement

ScopedResourceSelectorRequirement:
  scopeName  ResourceQuotaScope  !
  operator   ScopeSelectorOperator  !
  values     []str

ResourceQuotaStatus:
  hard  ResourceList
  used  ResourceList

kind LimitRange:
  spec  LimitRangeSpec

LimitRangeSpec:
  limits  []LimitRangeItem  !

LimitRangeItem:
  type                  LimitType  !
  max                   ResourceList
  min                   ResourceList
  default               ResourceList
  defaultRequest        ResourceList
  maxLimitRequestRatio  ResourceList

kind Event:
  metadata            ObjectMeta  !
  involvedObject      ObjectReference  ! granular
  reason              str
  message             str
  source              EventSource
  firstTimestamp      time
  lastTimestamp       time
  count               int32
  type                str
  eventTime           microtime
  series              *EventSeries
  action              str
  related             *ObjectReference
  reportingComponent  str  +
  reportingInstance   str  +

EventSource:
  component  str
  host       str

EventSeries:
  count             int32
  lastObservedTime  microtime

kind ComponentStatus:
  conditions  []ComponentCondition  keys=type merge=type

ComponentCondition:
  type     ComponentConditionType  !
  status   ConditionStatus  !
  message  str
  error    str

TopologySelectorTerm: atomic
  matchLabelExpressions  []TopologySelectorLabelRequirement

TopologySelectorLabelRequirement:
  key     str  !
  values  []str  !
"""
