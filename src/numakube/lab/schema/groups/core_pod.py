"""Types of ``core/v1``: pods, their templates and the controllers of the legacy group."""

from __future__ import annotations

from typing import Final

NAME: Final = "core.v1"

TABLE: Final = """
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
  spec    PodSpec
  status  PodStatus

PodSpec:
  volumes                        []Volume  keys=name merge=name retainKeys
  initContainers                 []Container  keys=name merge=name
  containers                     []Container  ! keys=name merge=name
  ephemeralContainers            []EphemeralContainer  keys=name merge=name
  restartPolicy                  RestartPolicy
  terminationGracePeriodSeconds  *int64
  activeDeadlineSeconds          *int64
  dnsPolicy                      DNSPolicy
  nodeSelector                   {}str  atomic
  serviceAccountName             str
  serviceAccount                 str
  automountServiceAccountToken   *bool
  nodeName                       str
  hostNetwork                    bool
  hostPID                        bool
  hostIPC                        bool
  shareProcessNamespace          *bool
  securityContext                *PodSecurityContext
  imagePullSecrets               []LocalObjectReference  keys=name merge=name
  hostname                       str
  subdomain                      str
  affinity                       *Affinity
  schedulerName                  str
  tolerations                    []Toleration
  hostAliases                    []HostAlias  keys=ip merge=ip
  priorityClassName              str
  priority                       *int32
  dnsConfig                      *PodDNSConfig
  readinessGates                 []PodReadinessGate
  runtimeClassName               *str
  enableServiceLinks             *bool
  preemptionPolicy               *PreemptionPolicy
  overhead                       ResourceList
  topologySpreadConstraints      []TopologySpreadConstraint  \
    keys=topologyKey,whenUnsatisfiable merge=topologyKey
  setHostnameAsFQDN              *bool
  os                             *PodOS
  hostUsers                      *bool
  schedulingGates                []PodSchedulingGate  keys=name merge=name
  resourceClaims                 []PodResourceClaim  keys=name merge=name retainKeys
  resources                      *ResourceRequirements
  hostnameOverride               *str
  workloadRef                    *WorkloadReference

WorkloadReference:
  name                str  !
  podGroup            str  !
  podGroupReplicaKey  str

PodOS:
  name  OSName  !

PodSchedulingGate:
  name  str  !

PodReadinessGate:
  conditionType  PodConditionType  !

PodResourceClaim:
  name                       str  !
  resourceClaimName          *str
  resourceClaimTemplateName  *str

HostAlias:
  ip         str  !
  hostnames  []str

PodDNSConfig:
  nameservers  []str
  searches     []str
  options      []PodDNSConfigOption

PodDNSConfigOption:
  name   str
  value  *str

Container:
  name                      str  !
  image                     str
  command                   []str
  args                      []str
  workingDir                str
  ports                     []ContainerPort  keys=containerPort,protocol merge=containerPort
  envFrom                   []EnvFromSource
  env                       []EnvVar  keys=name merge=name
  resources                 ResourceRequirements
  resizePolicy              []ContainerResizePolicy
  restartPolicy             *ContainerRestartPolicy
  restartPolicyRules        []ContainerRestartRule
  volumeMounts              []VolumeMount  keys=mountPath merge=mountPath
  volumeDevices             []VolumeDevice  keys=devicePath merge=devicePath
  livenessProbe             *Probe
  readinessProbe            *Probe
  startupProbe              *Probe
  lifecycle                 *Lifecycle
  terminationMessagePath    str
  terminationMessagePolicy  TerminationMessagePolicy
  imagePullPolicy           PullPolicy
  securityContext           *SecurityContext
  stdin                     bool
  stdinOnce                 bool
  tty                       bool

EphemeralContainer:
  ...Container  in=EphemeralContainerCommon
  targetContainerName  str

ContainerPort:
  name           str
  hostPort       int32
  containerPort  int32  !
  protocol       Protocol  default=TCP
  hostIP         str

EnvVar:
  name       str  !
  value      str
  valueFrom  *EnvVarSource

EnvVarSource:
  fieldRef          *ObjectFieldSelector
  resourceFieldRef  *ResourceFieldSelector
  configMapKeyRef   *ConfigMapKeySelector
  secretKeyRef      *SecretKeySelector
  fileKeyRef        *FileKeySelector

FileKeySelector: atomic
  volumeName  str  !
  path        str  !
  key         str  !
  optional    *bool  default=false

ObjectFieldSelector: atomic
  apiVersion  str
  fieldPath   str  !

ResourceFieldSelector: atomic
  containerName  str
  resource       str  !
  divisor        quantity

ConfigMapKeySelector: atomic
  name      str  default= in=LocalObjectReference
  key       str  !
  optional  *bool

SecretKeySelector: atomic
  name      str  default= in=LocalObjectReference
  key       str  !
  optional  *bool

EnvFromSource:
  prefix        str
  configMapRef  *ConfigMapEnvSource
  secretRef     *SecretEnvSource

ConfigMapEnvSource:
  name      str  default= in=LocalObjectReference
  optional  *bool

SecretEnvSource:
  name      str  default= in=LocalObjectReference
  optional  *bool

ResourceRequirements:
  limits    ResourceList
  requests  ResourceList
  claims    []ResourceClaim  keys=name

VolumeResourceRequirements:
  limits    ResourceList
  requests  ResourceList

ResourceClaim:
  name     str  !
  request  str

ContainerResizePolicy:
  resourceName   ResourceName  !
  restartPolicy  ResourceResizeRestartPolicy  !

ContainerRestartRule:
  action     ContainerRestartRuleAction
  exitCodes  *ContainerRestartRuleOnExitCodes

ContainerRestartRuleOnExitCodes:
  operator  ContainerRestartRuleOnExitCodesOperator
  values    []int32  set

VolumeMount:
  name               str  !
  readOnly           bool
  recursiveReadOnly  *RecursiveReadOnlyMode
  mountPath          str  !
  subPath            str
  mountPropagation   *MountPropagationMode
  subPathExpr        str

VolumeDevice:
  name        str  !
  devicePath  str  !

Probe:
  ...ProbeHandler
  initialDelaySeconds            int32
  timeoutSeconds                 int32
  periodSeconds                  int32
  successThreshold               int32
  failureThreshold               int32
  terminationGracePeriodSeconds  *int64

ProbeHandler:
  exec       *ExecAction
  httpGet    *HTTPGetAction
  tcpSocket  *TCPSocketAction
  grpc       *GRPCAction

Lifecycle:
  postStart   *LifecycleHandler
  preStop     *LifecycleHandler
  stopSignal  *Signal

LifecycleHandler:
  exec       *ExecAction
  httpGet    *HTTPGetAction
  tcpSocket  *TCPSocketAction
  sleep      *SleepAction

SleepAction:
  seconds  int64  !

ExecAction:
  command  []str

HTTPGetAction:
  path         str
  port         intstr  !
  host         str
  scheme       URIScheme
  httpHeaders  []HTTPHeader

HTTPHeader:
  name   str  !
  value  str  !

TCPSocketAction:
  port  intstr  !
  host  str

GRPCAction:
  port     int32  !
  service  *str  + default=

SecurityContext:
  capabilities              *Capabilities
  privileged                *bool
  seLinuxOptions            *SELinuxOptions
  windowsOptions            *WindowsSecurityContextOptions
  runAsUser                 *int64
  runAsGroup                *int64
  runAsNonRoot              *bool
  readOnlyRootFilesystem    *bool
  allowPrivilegeEscalation  *bool
  procMount                 *ProcMountType
  seccompProfile            *SeccompProfile
  appArmorProfile           *AppArmorProfile

Capabilities:
  add   []Capability
  drop  []Capability

SELinuxOptions:
  user   str
  role   str
  type   str
  level  str

WindowsSecurityContextOptions:
  gmsaCredentialSpecName  *str
  gmsaCredentialSpec      *str
  runAsUserName           *str
  hostProcess             *bool

SeccompProfile:
  type              SeccompProfileType  !
  localhostProfile  *str

AppArmorProfile:
  type              AppArmorProfileType  !
  localhostProfile  *str

PodSecurityContext:
  seLinuxOptions            *SELinuxOptions
  windowsOptions            *WindowsSecurityContextOptions
  runAsUser                 *int64
  runAsGroup                *int64
  runAsNonRoot              *bool
  supplementalGroups        []int64
  supplementalGroupsPolicy  *SupplementalGroupsPolicy
  fsGroup                   *int64
  sysctls                   []Sysctl
  fsGroupChangePolicy       *PodFSGroupChangePolicy
  seccompProfile            *SeccompProfile
  appArmorProfile           *AppArmorProfile
  seLinuxChangePolicy       *PodSELinuxChangePolicy

Sysctl:
  name   str  !
  value  str  !

Toleration:
  key                str
  operator           TolerationOperator
  value              str
  effect             TaintEffect
  tolerationSeconds  *int64

TopologySpreadConstraint:
  maxSkew             int32  !
  topologyKey         str  !
  whenUnsatisfiable   UnsatisfiableConstraintAction  !
  labelSelector       *LabelSelector
  minDomains          *int32
  nodeAffinityPolicy  *NodeInclusionPolicy
  nodeTaintsPolicy    *NodeInclusionPolicy
  matchLabelKeys      []str

Affinity:
  nodeAffinity     *NodeAffinity
  podAffinity      *PodAffinity
  podAntiAffinity  *PodAntiAffinity

NodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution   *NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution  []PreferredSchedulingTerm

PreferredSchedulingTerm:
  weight      int32  !
  preference  NodeSelectorTerm  !

NodeSelector: atomic
  nodeSelectorTerms  []NodeSelectorTerm  !

NodeSelectorTerm: atomic
  matchExpressions  []NodeSelectorRequirement
  matchFields       []NodeSelectorRequirement

NodeSelectorRequirement:
  key       str  !
  operator  NodeSelectorOperator  !
  values    []str

PodAffinity:
  requiredDuringSchedulingIgnoredDuringExecution   []PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution  []WeightedPodAffinityTerm

PodAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution   []PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution  []WeightedPodAffinityTerm

WeightedPodAffinityTerm:
  weight           int32  !
  podAffinityTerm  PodAffinityTerm  !

PodAffinityTerm:
  labelSelector      *LabelSelector
  namespaces         []str
  topologyKey        str  !
  namespaceSelector  *LabelSelector
  matchLabelKeys     []str
  mismatchLabelKeys  []str

PodStatus:
  observedGeneration           int64
  phase                        PodPhase
  conditions                   []PodCondition  keys=type merge=type
  message                      str
  reason                       str
  nominatedNodeName            str
  hostIP                       str
  hostIPs                      []HostIP  atomic merge=ip
  podIP                        str
  podIPs                       []PodIP  keys=ip merge=ip
  startTime                    *time
  initContainerStatuses        []ContainerStatus
  containerStatuses            []ContainerStatus
  qosClass                     PodQOSClass
  ephemeralContainerStatuses   []ContainerStatus
  resize                       PodResizeStatus
  resourceClaimStatuses        []PodResourceClaimStatus  keys=name merge=name retainKeys
  extendedResourceClaimStatus  *PodExtendedResourceClaimStatus
  allocatedResources           ResourceList
  resources                    *ResourceRequirements

PodCondition:
  type                PodConditionType  !
  observedGeneration  int64
  status              ConditionStatus  !
  lastProbeTime       time
  lastTransitionTime  time
  reason              str
  message             str

HostIP:
  ip  str  !

PodIP:
  ip  str  !

PodResourceClaimStatus:
  name               str  !
  resourceClaimName  *str

PodExtendedResourceClaimStatus:
  requestMappings    []ContainerExtendedResourceRequest  !
  resourceClaimName  str  !

ContainerExtendedResourceRequest:
  containerName  str  !
  resourceName   str  !
  requestName    str  !

ContainerStatus:
  name                      str  !
  state                     ContainerState
  lastState                 ContainerState
  ready                     bool  !
  restartCount              int32  !
  image                     str  !
  imageID                   str  !
  containerID               str
  started                   *bool
  allocatedResources        ResourceList
  resources                 *ResourceRequirements
  volumeMounts              []VolumeMountStatus  keys=mountPath merge=mountPath
  user                      *ContainerUser
  allocatedResourcesStatus  []ResourceStatus  keys=name merge=name
  stopSignal                *Signal

ContainerState:
  waiting     *ContainerStateWaiting
  running     *ContainerStateRunning
  terminated  *ContainerStateTerminated

ContainerStateWaiting:
  reason   str
  message  str

ContainerStateRunning:
  startedAt  time

ContainerStateTerminated:
  exitCode     int32  !
  signal       int32
  reason       str
  message      str
  startedAt    time
  finishedAt   time
  containerID  str

VolumeMountStatus:
  name               str  !
  mountPath          str  !
  readOnly           bool
  recursiveReadOnly  *RecursiveReadOnlyMode

ContainerUser:
  linux  *LinuxContainerUser

LinuxContainerUser:
  uid                 int64  !
  gid                 int64  !
  supplementalGroups  []int64

ResourceStatus:
  name       ResourceName  !
  resources  []ResourceHealth  keys=resourceID

ResourceHealth:
  resourceID  ResourceID  !
  health      ResourceHealthStatus

PodTemplateSpec:
  metadata  ObjectMeta
  spec      PodSpec

kind PodTemplate:
  template  PodTemplateSpec

kind ReplicationController:
  spec    ReplicationControllerSpec
  status  ReplicationControllerStatus

ReplicationControllerSpec:
  replicas         *int32  default=1
  minReadySeconds  int32  default=0
  selector         {}str  atomic
  template         *PodTemplateSpec

ReplicationControllerStatus:
  replicas              int32  !
  fullyLabeledReplicas  int32
  readyReplicas         int32
  availableReplicas     int32
  observedGeneration    int64
  conditions            []ReplicationControllerCondition  keys=type merge=type

ReplicationControllerCondition:
  type                ReplicationControllerConditionType  !
  status              ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

kind Binding:
  target  ObjectReference  !
"""
