"""Types of ``core/v1``: nodes, namespaces, services, configuration, quota and events."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: NodePhase NodeConditionType NodeAddressType UniqueVolumeName FinalizerName NamespacePhase
= str: NamespaceConditionType SecretType ServiceType ServiceAffinity ServiceExternalTrafficPolicy
= str: ServiceInternalTrafficPolicy IPFamily IPFamilyPolicy LoadBalancerIPMode ResourceQuotaScope
= str: ScopeSelectorOperator LimitType ComponentConditionType

ObjectReference: atomic
    1  kind             str
    2  namespace        str
    3  name             str
    4  uid              UID
    5  apiVersion       str
    6  resourceVersion  str
    7  fieldPath        str

LocalObjectReference: atomic
    1  name  str  default=

TypedLocalObjectReference: atomic
    1  apiGroup  *str  +
    2  kind      str  !
    3  name      str  !

SecretReference: atomic
    1  name       str
    2  namespace  str

kind Node:
    2  spec    NodeSpec
    3  status  NodeStatus

NodeSpec:
    1  podCIDR        str
    7  podCIDRs       []str  set merge
    3  providerID     str
    4  unschedulable  bool
    5  taints         []Taint
    6  configSource   *NodeConfigSource
    2  externalID     str

Taint:
    1  key        str  !
    2  value      str
    3  effect     TaintEffect  !
    4  timeAdded  *time

NodeConfigSource:
    2  configMap  *ConfigMapNodeConfigSource

ConfigMapNodeConfigSource:
    1  namespace         str  !
    2  name              str  !
    3  uid               UID
    4  resourceVersion   str
    5  kubeletConfigKey  str  !

NodeStatus:
    1  capacity          ResourceList
    2  allocatable       ResourceList
    3  phase             NodePhase
    4  conditions        []NodeCondition  keys=type merge=type
    5  addresses         []NodeAddress  keys=type merge=type
    6  daemonEndpoints   NodeDaemonEndpoints
    7  nodeInfo          NodeSystemInfo
    8  images            []ContainerImage
    9  volumesInUse      []UniqueVolumeName
   10  volumesAttached   []AttachedVolume
   11  config            *NodeConfigStatus
   12  runtimeHandlers   []NodeRuntimeHandler
   13  features          *NodeFeatures
   14  declaredFeatures  []str

NodeCondition:
    1  type                NodeConditionType  !
    2  status              ConditionStatus  !
    3  lastHeartbeatTime   time
    4  lastTransitionTime  time
    5  reason              str
    6  message             str

NodeAddress:
    1  type     NodeAddressType  !
    2  address  str  !

NodeDaemonEndpoints:
    1  kubeletEndpoint  DaemonEndpoint

DaemonEndpoint:
    1  Port  int32  !

NodeSystemInfo:
    1  machineID                str  !
    2  systemUUID               str  !
    3  bootID                   str  !
    4  kernelVersion            str  !
    5  osImage                  str  !
    6  containerRuntimeVersion  str  !
    7  kubeletVersion           str  !
    8  kubeProxyVersion         str  !
    9  operatingSystem          str  !
   10  architecture             str  !
   11  swap                     *NodeSwapStatus

NodeSwapStatus:
    1  capacity  *int64

ContainerImage:
    1  names      []str  +
    2  sizeBytes  int64

AttachedVolume:
    1  name        UniqueVolumeName  !
    2  devicePath  str  !

NodeConfigStatus:
    1  assigned       *NodeConfigSource
    2  active         *NodeConfigSource
    3  lastKnownGood  *NodeConfigSource
    4  error          str

NodeRuntimeHandler:
    1  name      str  +
    2  features  *NodeRuntimeHandlerFeatures

NodeRuntimeHandlerFeatures:
    1  recursiveReadOnlyMounts  *bool
    2  userNamespaces           *bool

NodeFeatures:
    1  supplementalGroupsPolicy  *bool

kind Namespace:
    2  spec    NamespaceSpec
    3  status  NamespaceStatus

NamespaceSpec:
    1  finalizers  []FinalizerName

NamespaceStatus:
    1  phase       NamespacePhase
    2  conditions  []NamespaceCondition  keys=type merge=type

NamespaceCondition:
    1  type                NamespaceConditionType  !
    2  status              ConditionStatus  !
    4  lastTransitionTime  time
    5  reason              str
    6  message             str

kind ConfigMap:
    4  immutable   *bool
    2  data        {}str
    3  binaryData  {}bytes

kind Secret:
    5  immutable   *bool
    2  data        {}bytes
    4  stringData  {}str
    3  type        SecretType

kind ServiceAccount:
    2  secrets                       []ObjectReference  keys=name merge=name
    3  imagePullSecrets              []LocalObjectReference
    4  automountServiceAccountToken  *bool

kind Service:
    2  spec    ServiceSpec
    3  status  ServiceStatus

ServiceSpec:
    1  ports                          []ServicePort  keys=port,protocol merge=port
    2  selector                       {}str  atomic
    3  clusterIP                      str
   18  clusterIPs                     []str
    4  type                           ServiceType
    5  externalIPs                    []str
    7  sessionAffinity                ServiceAffinity
    8  loadBalancerIP                 str
    9  loadBalancerSourceRanges       []str
   10  externalName                   str
   11  externalTrafficPolicy          ServiceExternalTrafficPolicy
   12  healthCheckNodePort            int32
   13  publishNotReadyAddresses       bool
   14  sessionAffinityConfig          *SessionAffinityConfig
   19  ipFamilies                     []IPFamily
   17  ipFamilyPolicy                 *IPFamilyPolicy
   20  allocateLoadBalancerNodePorts  *bool
   21  loadBalancerClass              *str
   22  internalTrafficPolicy          *ServiceInternalTrafficPolicy
   23  trafficDistribution            *str

ServicePort:
    1  name         str
    2  protocol     Protocol  default=TCP
    6  appProtocol  *str
    3  port         int32  !
    4  targetPort   intstr
    5  nodePort     int32

SessionAffinityConfig:
    1  clientIP  *ClientIPConfig

ClientIPConfig:
    1  timeoutSeconds  *int32

ServiceStatus:
    1  loadBalancer  LoadBalancerStatus
    2  conditions    []Condition  keys=type merge=type

LoadBalancerStatus:
    1  ingress  []LoadBalancerIngress

LoadBalancerIngress:
    1  ip        str
    2  hostname  str
    3  ipMode    *LoadBalancerIPMode
    4  ports     []PortStatus

PortStatus:
    1  port      int32  !
    2  protocol  Protocol  !
    3  error     *str

kind Endpoints:
    2  subsets  []EndpointSubset

EndpointSubset:
    1  addresses          []EndpointAddress
    2  notReadyAddresses  []EndpointAddress
    3  ports              []EndpointPort

EndpointAddress: atomic
    1  ip         str  !
    3  hostname   str
    4  nodeName   *str
    2  targetRef  *ObjectReference

EndpointPort: atomic
    1  name         str
    2  port         int32  !
    3  protocol     Protocol
    4  appProtocol  *str

kind ResourceQuota:
    2  spec    ResourceQuotaSpec
    3  status  ResourceQuotaStatus

ResourceQuotaSpec:
    1  hard           ResourceList
    2  scopes         []ResourceQuotaScope
    3  scopeSelector  *ScopeSelector

ScopeSelector: atomic
    1  matchExpressions  []ScopedResourceSelectorRequirement

ScopedResourceSelectorRequirement:
    1  scopeName  ResourceQuotaScope  !
    2  operator   ScopeSelectorOperator  !
    3  values     []str

ResourceQuotaStatus:
    1  hard  ResourceList
    2  used  ResourceList

kind LimitRange:
    2  spec  LimitRangeSpec

LimitRangeSpec:
    1  limits  []LimitRangeItem  !

LimitRangeItem:
    1  type                  LimitType  !
    2  max                   ResourceList
    3  min                   ResourceList
    4  default               ResourceList
    5  defaultRequest        ResourceList
    6  maxLimitRequestRatio  ResourceList

kind Event:
    1  metadata            ObjectMeta  !
    2  involvedObject      ObjectReference  !
    3  reason              str
    4  message             str
    5  source              EventSource
    6  firstTimestamp      time
    7  lastTimestamp       time
    8  count               int32
    9  type                str
   10  eventTime           microtime
   11  series              *EventSeries
   12  action              str
   13  related             *ObjectReference
   14  reportingComponent  str  +
   15  reportingInstance   str  +

EventSource:
    1  component  str
    2  host       str

EventSeries:
    1  count             int32
    2  lastObservedTime  microtime

kind ComponentStatus:
    2  conditions  []ComponentCondition  keys=type merge=type

ComponentCondition:
    1  type     ComponentConditionType  !
    2  status   ConditionStatus  !
    3  message  str
    4  error    str

TopologySelectorTerm: atomic
    1  matchLabelExpressions  []TopologySelectorLabelRequirement

TopologySelectorLabelRequirement:
    1  key     str  !
    2  values  []str  !
"""
