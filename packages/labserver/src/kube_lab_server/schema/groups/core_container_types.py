"""Types of ``core/v1``: containers, and everything that a container has."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
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
