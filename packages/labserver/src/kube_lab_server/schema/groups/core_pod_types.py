"""Types of ``core/v1``: pods, their templates and the controllers of the legacy group.

Types of ``core/v1``: containers, and everything that a container has.
"""

from __future__ import annotations

from typing import Final

PODS: Final = """
= str: RestartPolicy DNSPolicy PreemptionPolicy PodPhase PodQOSClass PodConditionType
= str: ConditionStatus
= str: PullPolicy TerminationMessagePolicy Protocol URIScheme Capability ProcMountType Signal
= str: MountPropagationMode RecursiveReadOnlyMode ResourceName ResourceResizeRestartPolicy OSName
= str: ContainerRestartPolicy ContainerRestartRuleAction ContainerRestartRuleOnExitCodesOperator
= str: SeccompProfileType AppArmorProfileType PodFSGroupChangePolicy SupplementalGroupsPolicy
= str: PodSELinuxChangePolicy UnsatisfiableConstraintAction NodeInclusionPolicy ResourceHealthStatus
= str: TolerationOperator TaintEffect NodeSelectorOperator PodResizeStatus ResourceID
= str: ReplicationControllerConditionType PersistentVolumeMode
= {}quantity: ResourceList

kind Pod:
    2  spec    PodSpec
    3  status  PodStatus

PodSpec:
    1  volumes                        []Volume  keys=name merge=name retainKeys
   20  initContainers                 []Container  keys=name merge=name
    2  containers                     []Container  ! keys=name merge=name
   34  ephemeralContainers            []EphemeralContainer  keys=name merge=name
    3  restartPolicy                  RestartPolicy
    4  terminationGracePeriodSeconds  *int64
    5  activeDeadlineSeconds          *int64
    6  dnsPolicy                      DNSPolicy
    7  nodeSelector                   {}str  atomic
    8  serviceAccountName             str
    9  serviceAccount                 str
   21  automountServiceAccountToken   *bool
   10  nodeName                       str
   11  hostNetwork                    bool
   12  hostPID                        bool
   13  hostIPC                        bool
   27  shareProcessNamespace          *bool
   14  securityContext                *PodSecurityContext
   15  imagePullSecrets               []LocalObjectReference  keys=name merge=name
   16  hostname                       str
   17  subdomain                      str
   18  affinity                       *Affinity
   19  schedulerName                  str
   22  tolerations                    []Toleration
   23  hostAliases                    []HostAlias  keys=ip merge=ip
   24  priorityClassName              str
   25  priority                       *int32
   26  dnsConfig                      *PodDNSConfig
   28  readinessGates                 []PodReadinessGate
   29  runtimeClassName               *str
   30  enableServiceLinks             *bool
   31  preemptionPolicy               *PreemptionPolicy
   32  overhead                       ResourceList
   33  topologySpreadConstraints      []TopologySpreadConstraint  \
    keys=topologyKey,whenUnsatisfiable merge=topologyKey
   35  setHostnameAsFQDN              *bool
   36  os                             *PodOS
   37  hostUsers                      *bool
   38  schedulingGates                []PodSchedulingGate  keys=name merge=name
   39  resourceClaims                 []PodResourceClaim  keys=name merge=name retainKeys
   40  resources                      *ResourceRequirements
   41  hostnameOverride               *str
   42  workloadRef                    *WorkloadReference

WorkloadReference:
    1  name                str  !
    2  podGroup            str  !
    3  podGroupReplicaKey  str

PodOS:
    1  name  OSName  !

PodSchedulingGate:
    1  name  str  !

PodReadinessGate:
    1  conditionType  PodConditionType  !

PodResourceClaim:
    1  name                       str  !
    3  resourceClaimName          *str
    4  resourceClaimTemplateName  *str

HostAlias:
    1  ip         str  !
    2  hostnames  []str

PodDNSConfig:
    1  nameservers  []str
    2  searches     []str
    3  options      []PodDNSConfigOption

PodDNSConfigOption:
    1  name   str
    2  value  *str

PodSecurityContext:
    1  seLinuxOptions            *SELinuxOptions
    8  windowsOptions            *WindowsSecurityContextOptions
    2  runAsUser                 *int64
    6  runAsGroup                *int64
    3  runAsNonRoot              *bool
    4  supplementalGroups        []int64
   12  supplementalGroupsPolicy  *SupplementalGroupsPolicy
    5  fsGroup                   *int64
    7  sysctls                   []Sysctl
    9  fsGroupChangePolicy       *PodFSGroupChangePolicy
   10  seccompProfile            *SeccompProfile
   11  appArmorProfile           *AppArmorProfile
   13  seLinuxChangePolicy       *PodSELinuxChangePolicy

Sysctl:
    1  name   str  !
    2  value  str  !

Toleration:
    1  key                str
    2  operator           TolerationOperator
    3  value              str
    4  effect             TaintEffect
    5  tolerationSeconds  *int64

TopologySpreadConstraint:
    1  maxSkew             int32  !
    2  topologyKey         str  !
    3  whenUnsatisfiable   UnsatisfiableConstraintAction  !
    4  labelSelector       *LabelSelector
    5  minDomains          *int32
    6  nodeAffinityPolicy  *NodeInclusionPolicy
    7  nodeTaintsPolicy    *NodeInclusionPolicy
    8  matchLabelKeys      []str

Affinity:
    1  nodeAffinity     *NodeAffinity
    2  podAffinity      *PodAffinity
    3  podAntiAffinity  *PodAntiAffinity

NodeAffinity:
    1  requiredDuringSchedulingIgnoredDuringExecution   *NodeSelector
    2  preferredDuringSchedulingIgnoredDuringExecution  []PreferredSchedulingTerm

PreferredSchedulingTerm:
    1  weight      int32  !
    2  preference  NodeSelectorTerm  !

NodeSelector: atomic
    1  nodeSelectorTerms  []NodeSelectorTerm  !

NodeSelectorTerm: atomic
    1  matchExpressions  []NodeSelectorRequirement
    2  matchFields       []NodeSelectorRequirement

NodeSelectorRequirement:
    1  key       str  !
    2  operator  NodeSelectorOperator  !
    3  values    []str

PodAffinity:
    1  requiredDuringSchedulingIgnoredDuringExecution   []PodAffinityTerm
    2  preferredDuringSchedulingIgnoredDuringExecution  []WeightedPodAffinityTerm

PodAntiAffinity:
    1  requiredDuringSchedulingIgnoredDuringExecution   []PodAffinityTerm
    2  preferredDuringSchedulingIgnoredDuringExecution  []WeightedPodAffinityTerm

WeightedPodAffinityTerm:
    1  weight           int32  !
    2  podAffinityTerm  PodAffinityTerm  !

PodAffinityTerm:
    1  labelSelector      *LabelSelector
    2  namespaces         []str
    3  topologyKey        str  !
    4  namespaceSelector  *LabelSelector
    5  matchLabelKeys     []str
    6  mismatchLabelKeys  []str

PodStatus:
   17  observedGeneration           int64
    1  phase                        PodPhase
    2  conditions                   []PodCondition  keys=type merge=type
    3  message                      str
    4  reason                       str
   11  nominatedNodeName            str
    5  hostIP                       str
   16  hostIPs                      []HostIP  atomic merge=ip
    6  podIP                        str
   12  podIPs                       []PodIP  keys=ip merge=ip
    7  startTime                    *time
   10  initContainerStatuses        []ContainerStatus
    8  containerStatuses            []ContainerStatus
    9  qosClass                     PodQOSClass
   13  ephemeralContainerStatuses   []ContainerStatus
   14  resize                       PodResizeStatus
   15  resourceClaimStatuses        []PodResourceClaimStatus  keys=name merge=name retainKeys
   18  extendedResourceClaimStatus  *PodExtendedResourceClaimStatus
   19  allocatedResources           ResourceList
   20  resources                    *ResourceRequirements
   21  nodeAllocatableResourceClaimStatuses  []NodeAllocatableResourceClaimStatus  \
           keys=resourceClaimName merge=resourceClaimName

NodeAllocatableResourceClaimStatus:
    1  resourceClaimName  str  !
    2  containers         []str  set
    4  mapping            []NodeAllocatableMappedResources  keys=name merge=name
    5  overhead           []NodeAllocatableOverheadResources  keys=name merge=name

NodeAllocatableMappedResources:
    1  name      ResourceName  !
    2  quantity  *quantity  +

NodeAllocatableOverheadResources:
    1  name          ResourceName  !
    2  perPod        *quantity
    3  perContainer  *quantity

PodCondition:
    1  type                PodConditionType  !
    7  observedGeneration  int64
    2  status              ConditionStatus  !
    3  lastProbeTime       time
    4  lastTransitionTime  time
    5  reason              str
    6  message             str

HostIP:
    1  ip  str  !

PodIP:
    1  ip  str  !

PodResourceClaimStatus:
    1  name               str  !
    2  resourceClaimName  *str

PodExtendedResourceClaimStatus:
    1  requestMappings    []ContainerExtendedResourceRequest  !
    2  resourceClaimName  str  !

ContainerExtendedResourceRequest:
    1  containerName  str  !
    2  resourceName   str  !
    3  requestName    str  !

ContainerStatus:
    1  name                      str  !
    2  state                     ContainerState
    3  lastState                 ContainerState
    4  ready                     bool  !
    5  restartCount              int32  !
    6  image                     str  !
    7  imageID                   str  !
    8  containerID               str
    9  started                   *bool
   10  allocatedResources        ResourceList
   11  resources                 *ResourceRequirements
   12  volumeMounts              []VolumeMountStatus  keys=mountPath merge=mountPath
   13  user                      *ContainerUser
   14  allocatedResourcesStatus  []ResourceStatus  keys=name merge=name
   15  stopSignal                *Signal

ContainerState:
    1  waiting     *ContainerStateWaiting
    2  running     *ContainerStateRunning
    3  terminated  *ContainerStateTerminated

ContainerStateWaiting:
    1  reason   str
    2  message  str

ContainerStateRunning:
    1  startedAt  time

ContainerStateTerminated:
    1  exitCode     int32  !
    2  signal       int32
    3  reason       str
    4  message      str
    5  startedAt    time
    6  finishedAt   time
    7  containerID  str

VolumeMountStatus:
    1  name               str  !
    2  mountPath          str  !
    3  readOnly           bool
    4  recursiveReadOnly  *RecursiveReadOnlyMode

ContainerUser:
    1  linux  *LinuxContainerUser

LinuxContainerUser:
    1  uid                 int64  !
    2  gid                 int64  !
    3  supplementalGroups  []int64

ResourceStatus:
    1  name       ResourceName  !
    2  resources  []ResourceHealth  keys=resourceID

ResourceHealth:
    1  resourceID  ResourceID  !
    2  health      ResourceHealthStatus

PodTemplateSpec:
    1  metadata  ObjectMeta
    2  spec      PodSpec

kind PodTemplate:
    2  template  PodTemplateSpec

kind ReplicationController:
    2  spec    ReplicationControllerSpec
    3  status  ReplicationControllerStatus

ReplicationControllerSpec:
    1  replicas         *int32  default=1
    4  minReadySeconds  int32  default=0
    2  selector         {}str  atomic
    3  template         *PodTemplateSpec

ReplicationControllerStatus:
    1  replicas              int32  !
    2  fullyLabeledReplicas  int32
    4  readyReplicas         int32
    5  availableReplicas     int32
    3  observedGeneration    int64
    6  conditions            []ReplicationControllerCondition  keys=type merge=type

ReplicationControllerCondition:
    1  type                ReplicationControllerConditionType  !
    2  status              ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

kind Binding:
    2  target  ObjectReference  !
"""


CONTAINERS: Final = """
Container:
    1  name                      str  !
    2  image                     str
    3  command                   []str
    4  args                      []str
    5  workingDir                str
    6  ports                     []ContainerPort  keys=containerPort,protocol merge=containerPort
   19  envFrom                   []EnvFromSource
    7  env                       []EnvVar  keys=name merge=name
    8  resources                 ResourceRequirements
   23  resizePolicy              []ContainerResizePolicy
   24  restartPolicy             *ContainerRestartPolicy
   25  restartPolicyRules        []ContainerRestartRule
    9  volumeMounts              []VolumeMount  keys=mountPath merge=mountPath
   21  volumeDevices             []VolumeDevice  keys=devicePath merge=devicePath
   10  livenessProbe             *Probe
   11  readinessProbe            *Probe
   22  startupProbe              *Probe
   12  lifecycle                 *Lifecycle
   13  terminationMessagePath    str
   20  terminationMessagePolicy  TerminationMessagePolicy
   14  imagePullPolicy           PullPolicy
   15  securityContext           *SecurityContext
   16  stdin                     bool
   17  stdinOnce                 bool
   18  tty                       bool

EphemeralContainer:
    1  ...Container  in=EphemeralContainerCommon
    2  targetContainerName  str

ContainerPort:
    1  name           str
    2  hostPort       int32
    3  containerPort  int32  !
    4  protocol       Protocol  default=TCP
    5  hostIP         str

EnvVar:
    1  name       str  !
    2  value      str
    3  valueFrom  *EnvVarSource

EnvVarSource:
    1  fieldRef          *ObjectFieldSelector
    2  resourceFieldRef  *ResourceFieldSelector
    3  configMapKeyRef   *ConfigMapKeySelector
    4  secretKeyRef      *SecretKeySelector
    5  fileKeyRef        *FileKeySelector

FileKeySelector: atomic
    1  volumeName  str  !
    2  path        str  !
    3  key         str  !
    4  optional    *bool  default=false

ObjectFieldSelector: atomic
    1  apiVersion  str
    2  fieldPath   str  !

ResourceFieldSelector: atomic
    1  containerName  str
    2  resource       str  !
    3  divisor        quantity

ConfigMapKeySelector: atomic
  1.1  name      str  default= in=LocalObjectReference
    2  key       str  !
    3  optional  *bool

SecretKeySelector: atomic
  1.1  name      str  default= in=LocalObjectReference
    2  key       str  !
    3  optional  *bool

EnvFromSource:
    1  prefix        str
    2  configMapRef  *ConfigMapEnvSource
    3  secretRef     *SecretEnvSource

ConfigMapEnvSource:
  1.1  name      str  default= in=LocalObjectReference
    2  optional  *bool

SecretEnvSource:
  1.1  name      str  default= in=LocalObjectReference
    2  optional  *bool

ResourceRequirements:
    1  limits    ResourceList
    2  requests  ResourceList
    3  claims    []ResourceClaim  keys=name

VolumeResourceRequirements:
    1  limits    ResourceList
    2  requests  ResourceList

ResourceClaim:
    1  name     str  !
    2  request  str

ContainerResizePolicy:
    1  resourceName   ResourceName  !
    2  restartPolicy  ResourceResizeRestartPolicy  !

ContainerRestartRule:
    1  action     ContainerRestartRuleAction
    2  exitCodes  *ContainerRestartRuleOnExitCodes

ContainerRestartRuleOnExitCodes:
    1  operator  ContainerRestartRuleOnExitCodesOperator
    2  values    []int32  set

VolumeMount:
    1  name               str  !
    2  readOnly           bool
    7  recursiveReadOnly  *RecursiveReadOnlyMode
    3  mountPath          str  !
    4  subPath            str
    5  mountPropagation   *MountPropagationMode
    6  subPathExpr        str

VolumeDevice:
    1  name        str  !
    2  devicePath  str  !

Probe:
    1  ...ProbeHandler
    2  initialDelaySeconds            int32
    3  timeoutSeconds                 int32
    4  periodSeconds                  int32
    5  successThreshold               int32
    6  failureThreshold               int32
    7  terminationGracePeriodSeconds  *int64

ProbeHandler:
    1  exec       *ExecAction
    2  httpGet    *HTTPGetAction
    3  tcpSocket  *TCPSocketAction
    4  grpc       *GRPCAction

Lifecycle:
    1  postStart   *LifecycleHandler
    2  preStop     *LifecycleHandler
    3  stopSignal  *Signal

LifecycleHandler:
    1  exec       *ExecAction
    2  httpGet    *HTTPGetAction
    3  tcpSocket  *TCPSocketAction
    4  sleep      *SleepAction

SleepAction:
    1  seconds  int64  !

ExecAction:
    1  command  []str

HTTPGetAction:
    1  path         str
    2  port         intstr  !
    3  host         str
    4  scheme       URIScheme
    5  httpHeaders  []HTTPHeader

HTTPHeader:
    1  name   str  !
    2  value  str  !

TCPSocketAction:
    1  port  intstr  !
    2  host  str

GRPCAction:
    1  port     int32  !
    2  service  *str  + default=

SecurityContext:
    1  capabilities              *Capabilities
    2  privileged                *bool
    3  seLinuxOptions            *SELinuxOptions
   10  windowsOptions            *WindowsSecurityContextOptions
    4  runAsUser                 *int64
    8  runAsGroup                *int64
    5  runAsNonRoot              *bool
    6  readOnlyRootFilesystem    *bool
    7  allowPrivilegeEscalation  *bool
    9  procMount                 *ProcMountType
   11  seccompProfile            *SeccompProfile
   12  appArmorProfile           *AppArmorProfile

Capabilities:
    1  add   []Capability
    2  drop  []Capability

SELinuxOptions:
    1  user   str
    2  role   str
    3  type   str
    4  level  str

WindowsSecurityContextOptions:
    1  gmsaCredentialSpecName  *str
    2  gmsaCredentialSpec      *str
    3  runAsUserName           *str
    4  hostProcess             *bool

SeccompProfile:
    1  type              SeccompProfileType  !
    2  localhostProfile  *str

AppArmorProfile:
    1  type              AppArmorProfileType  !
    2  localhostProfile  *str
"""
