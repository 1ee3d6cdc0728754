"""Types of workloads: ``apps``, ``autoscaling`` and ``batch``.

Types of ``apps/v1``: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision.

Types of ``autoscaling/v1`` (Scale) and ``autoscaling/v2`` (HorizontalPodAutoscaler).

Types of ``batch/v1``: Job and CronJob.
"""

from __future__ import annotations

from typing import Final

APPS: Final = """
= str: DeploymentStrategyType DeploymentConditionType ReplicaSetConditionType
= str: StatefulSetUpdateStrategyType PodManagementPolicyType StatefulSetConditionType
= str: PersistentVolumeClaimRetentionPolicyType DaemonSetUpdateStrategyType DaemonSetConditionType

kind Deployment:
    2  spec    DeploymentSpec
    3  status  DeploymentStatus

DeploymentSpec:
    1  replicas                 *int32
    2  selector                 *LabelSelector  !
    3  template                 PodTemplateSpec  !
    4  strategy                 DeploymentStrategy  retainKeys
    5  minReadySeconds          int32
    6  revisionHistoryLimit     *int32
    7  paused                   bool
    9  progressDeadlineSeconds  *int32

DeploymentStrategy:
    1  type           DeploymentStrategyType
    2  rollingUpdate  *RollingUpdateDeployment

RollingUpdateDeployment:
    1  maxUnavailable  *intstr
    2  maxSurge        *intstr

DeploymentStatus:
    1  observedGeneration   int64
    2  replicas             int32
    3  updatedReplicas      int32
    7  readyReplicas        int32
    4  availableReplicas    int32
    5  unavailableReplicas  int32
    9  terminatingReplicas  *int32
    6  conditions           []DeploymentCondition  keys=type merge=type
    8  collisionCount       *int32

DeploymentCondition:
    1  type                DeploymentConditionType  !
    2  status              core.ConditionStatus  !
    6  lastUpdateTime      time
    7  lastTransitionTime  time
    4  reason              str
    5  message             str

kind ReplicaSet:
    2  spec    ReplicaSetSpec
    3  status  ReplicaSetStatus

ReplicaSetSpec:
    1  replicas         *int32
    4  minReadySeconds  int32
    2  selector         *LabelSelector  !
    3  template         PodTemplateSpec

ReplicaSetStatus:
    1  replicas              int32  !
    2  fullyLabeledReplicas  int32
    4  readyReplicas         int32
    5  availableReplicas     int32
    7  terminatingReplicas   *int32
    3  observedGeneration    int64
    6  conditions            []ReplicaSetCondition  keys=type merge=type

ReplicaSetCondition:
    1  type                ReplicaSetConditionType  !
    2  status              core.ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

kind StatefulSet:
    2  spec    StatefulSetSpec
    3  status  StatefulSetStatus

StatefulSetSpec:
    1  replicas                              *int32
    2  selector                              *LabelSelector  !
    3  template                              PodTemplateSpec  !
    4  volumeClaimTemplates                  []PersistentVolumeClaim
    5  serviceName                           str  +
    6  podManagementPolicy                   PodManagementPolicyType
    7  updateStrategy                        StatefulSetUpdateStrategy
    8  revisionHistoryLimit                  *int32
    9  minReadySeconds                       int32
   10  persistentVolumeClaimRetentionPolicy  *StatefulSetPersistentVolumeClaimRetentionPolicy
   11  ordinals                              *StatefulSetOrdinals

StatefulSetUpdateStrategy:
    1  type           StatefulSetUpdateStrategyType
    2  rollingUpdate  *RollingUpdateStatefulSetStrategy

RollingUpdateStatefulSetStrategy:
    1  partition       *int32
    2  maxUnavailable  *intstr

StatefulSetPersistentVolumeClaimRetentionPolicy:
    1  whenDeleted  PersistentVolumeClaimRetentionPolicyType
    2  whenScaled   PersistentVolumeClaimRetentionPolicyType

StatefulSetOrdinals:
    1  start  int32  +

StatefulSetStatus:
    1  observedGeneration  int64
    2  replicas            int32  !
    3  readyReplicas       int32
    4  currentReplicas     int32
    5  updatedReplicas     int32
    6  currentRevision     str
    7  updateRevision      str
    9  collisionCount      *int32
   10  conditions          []StatefulSetCondition  keys=type merge=type
   11  availableReplicas   int32  +

StatefulSetCondition:
    1  type                StatefulSetConditionType  !
    2  status              core.ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

kind DaemonSet:
    2  spec    DaemonSetSpec
    3  status  DaemonSetStatus

DaemonSetSpec:
    1  selector              *LabelSelector  !
    2  template              PodTemplateSpec  !
    3  updateStrategy        DaemonSetUpdateStrategy
    4  minReadySeconds       int32
    6  revisionHistoryLimit  *int32

DaemonSetUpdateStrategy:
    1  type           DaemonSetUpdateStrategyType
    2  rollingUpdate  *RollingUpdateDaemonSet

RollingUpdateDaemonSet:
    1  maxUnavailable  *intstr
    2  maxSurge        *intstr

DaemonSetStatus:
    1  currentNumberScheduled  int32  !
    2  numberMisscheduled      int32  !
    3  desiredNumberScheduled  int32  !
    4  numberReady             int32  !
    5  observedGeneration      int64
    6  updatedNumberScheduled  int32
    7  numberAvailable         int32
    8  numberUnavailable       int32
    9  collisionCount          *int32
   10  conditions              []DaemonSetCondition  keys=type merge=type

DaemonSetCondition:
    1  type                DaemonSetConditionType  !
    2  status              core.ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

kind ControllerRevision:
    2  data      raw
    3  revision  int64  !
"""


V1: Final = """
kind Scale:
    2  spec    ScaleSpec
    3  status  ScaleStatus

ScaleSpec:
    1  replicas  int32  default=0

ScaleStatus:
    1  replicas  int32  !
    2  selector  str

kind HorizontalPodAutoscaler:
    2  spec    HorizontalPodAutoscalerSpec
    3  status  HorizontalPodAutoscalerStatus

CrossVersionObjectReference: atomic
    1  kind        str  !
    2  name        str  !
    3  apiVersion  str

HorizontalPodAutoscalerSpec:
    1  scaleTargetRef                  CrossVersionObjectReference  !
    2  minReplicas                     *int32
    3  maxReplicas                     int32  !
    4  targetCPUUtilizationPercentage  *int32

HorizontalPodAutoscalerStatus:
    1  observedGeneration               *int64
    2  lastScaleTime                    *time
    3  currentReplicas                  int32  !
    4  desiredReplicas                  int32  !
    5  currentCPUUtilizationPercentage  *int32
"""

V2: Final = """
= str: MetricSourceType MetricTargetType ScalingPolicySelect HPAScalingPolicyType
= str: HorizontalPodAutoscalerConditionType

kind HorizontalPodAutoscaler:
    2  spec    HorizontalPodAutoscalerSpec
    3  status  HorizontalPodAutoscalerStatus

CrossVersionObjectReference:
    1  kind        str  !
    2  name        str  !
    3  apiVersion  str

HorizontalPodAutoscalerSpec:
    1  scaleTargetRef  CrossVersionObjectReference  !
    2  minReplicas     *int32
    3  maxReplicas     int32  !
    4  metrics         []MetricSpec
    5  behavior        *HorizontalPodAutoscalerBehavior

MetricSpec:
    1  type               MetricSourceType  !
    2  object             *ObjectMetricSource
    3  pods               *PodsMetricSource
    4  resource           *ResourceMetricSource
    7  containerResource  *ContainerResourceMetricSource
    5  external           *ExternalMetricSource

ObjectMetricSource:
    1  describedObject  CrossVersionObjectReference  !
    2  target           MetricTarget  !
    3  metric           MetricIdentifier  !

PodsMetricSource:
    1  metric  MetricIdentifier  !
    2  target  MetricTarget  !

ResourceMetricSource:
    1  name    core.ResourceName  !
    2  target  MetricTarget  !

ContainerResourceMetricSource:
    1  name       core.ResourceName  !
    2  target     MetricTarget  !
    3  container  str  !

ExternalMetricSource:
    1  metric  MetricIdentifier  !
    2  target  MetricTarget  !

MetricIdentifier:
    1  name      str  !
    2  selector  *LabelSelector

MetricTarget:
    1  type                MetricTargetType  !
    2  value               *quantity
    3  averageValue        *quantity
    4  averageUtilization  *int32

HorizontalPodAutoscalerBehavior:
    1  scaleUp    *HPAScalingRules
    2  scaleDown  *HPAScalingRules

HPAScalingRules:
    3  stabilizationWindowSeconds  *int32
    1  selectPolicy                *ScalingPolicySelect
    2  policies                    []HPAScalingPolicy
    4  tolerance                   *quantity

HPAScalingPolicy:
    1  type           HPAScalingPolicyType  !
    2  value          int32  !
    3  periodSeconds  int32  !

HorizontalPodAutoscalerStatus:
    1  observedGeneration  *int64
    2  lastScaleTime       *time
    3  currentReplicas     int32
    4  desiredReplicas     int32  !
    5  currentMetrics      []MetricStatus  +
    6  conditions          []HorizontalPodAutoscalerCondition  keys=type merge=type

HorizontalPodAutoscalerCondition:
    1  type                HorizontalPodAutoscalerConditionType  !
    2  status              core.ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

MetricStatus:
    1  type               MetricSourceType  !
    2  object             *ObjectMetricStatus
    3  pods               *PodsMetricStatus
    4  resource           *ResourceMetricStatus
    7  containerResource  *ContainerResourceMetricStatus
    5  external           *ExternalMetricStatus

ObjectMetricStatus:
    1  metric           MetricIdentifier  !
    2  current          MetricValueStatus  !
    3  describedObject  CrossVersionObjectReference  !

PodsMetricStatus:
    1  metric   MetricIdentifier  !
    2  current  MetricValueStatus  !

ResourceMetricStatus:
    1  name     core.ResourceName  !
    2  current  MetricValueStatus  !

ContainerResourceMetricStatus:
    1  name       core.ResourceName  !
    2  current    MetricValueStatus  !
    3  container  str  !

ExternalMetricStatus:
    1  metric   MetricIdentifier  !
    2  current  MetricValueStatus  !

MetricValueStatus:
    1  value               *quantity
    2  averageValue        *quantity
    3  averageUtilization  *int32
"""


BATCH: Final = """
= str: CompletionMode PodFailurePolicyAction PodFailurePolicyOnExitCodesOperator ConcurrencyPolicy
= str: PodReplacementPolicy JobConditionType

kind Job:
    2  spec    JobSpec
    3  status  JobStatus

JobSpec:
    1  parallelism              *int32
    2  completions              *int32
    3  activeDeadlineSeconds    *int64
   11  podFailurePolicy         *PodFailurePolicy
   16  successPolicy            *SuccessPolicy
    7  backoffLimit             *int32
   12  backoffLimitPerIndex     *int32
   13  maxFailedIndexes         *int32
    4  selector                 *LabelSelector
    5  manualSelector           *bool
    6  template                 PodTemplateSpec  !
    8  ttlSecondsAfterFinished  *int32
    9  completionMode           *CompletionMode
   10  suspend                  *bool
   14  podReplacementPolicy     *PodReplacementPolicy
   15  managedBy                *str

PodFailurePolicy:
    1  rules  []PodFailurePolicyRule  !

PodFailurePolicyRule:
    1  action           PodFailurePolicyAction  !
    2  onExitCodes      *PodFailurePolicyOnExitCodesRequirement
    3  onPodConditions  []PodFailurePolicyOnPodConditionsPattern

PodFailurePolicyOnExitCodesRequirement:
    1  containerName  *str
    2  operator       PodFailurePolicyOnExitCodesOperator  !
    3  values         []int32  ! set

PodFailurePolicyOnPodConditionsPattern:
    1  type    core.PodConditionType  !
    2  status  core.ConditionStatus  +

SuccessPolicy:
    1  rules  []SuccessPolicyRule  !

SuccessPolicyRule:
    1  succeededIndexes  *str
    2  succeededCount    *int32

JobStatus:
    1  conditions               []JobCondition  atomic merge=type
    2  startTime                *time
    3  completionTime           *time
    4  active                   int32
    5  succeeded                int32
    6  failed                   int32
   11  terminating              *int32
    7  completedIndexes         str
   10  failedIndexes            *str
    8  uncountedTerminatedPods  *UncountedTerminatedPods
    9  ready                    *int32

JobCondition:
    1  type                JobConditionType  !
    2  status              core.ConditionStatus  !
    3  lastProbeTime       time
    4  lastTransitionTime  time
    5  reason              str
    6  message             str

UncountedTerminatedPods:
    1  succeeded  []UID  set
    2  failed     []UID  set

kind CronJob:
    2  spec    CronJobSpec
    3  status  CronJobStatus

CronJobSpec:
    1  schedule                    str  !
    8  timeZone                    *str
    2  startingDeadlineSeconds     *int64
    3  concurrencyPolicy           ConcurrencyPolicy
    4  suspend                     *bool
    5  jobTemplate                 JobTemplateSpec  !
    6  successfulJobsHistoryLimit  *int32
    7  failedJobsHistoryLimit      *int32

JobTemplateSpec:
    1  metadata  ObjectMeta
    2  spec      JobSpec

CronJobStatus:
    1  active              []core.ObjectReference
    4  lastScheduleTime    *time
    5  lastSuccessfulTime  *time
"""
