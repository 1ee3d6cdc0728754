"""Types of ``apps/v1``: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision."""

from __future__ import annotations

from typing import Final

NAME: Final = "apps.v1"

TABLE: Final = """
= str: DeploymentStrategyType DeploymentConditionType ReplicaSetConditionType
= str: StatefulSetUpdateStrategyType PodManagementPolicyType StatefulSetConditionType
= str: PersistentVolumeClaimRetentionPolicyType DaemonSetUpdateStrategyType DaemonSetConditionType

kind Deployment:
  spec    DeploymentSpec
  status  DeploymentStatus

DeploymentSpec:
  replicas                 *int32
  selector                 *LabelSelector  !
  template                 PodTemplateSpec  !
  strategy                 DeploymentStrategy  retainKeys
  minReadySeconds          int32
  revisionHistoryLimit     *int32
  paused                   bool
  progressDeadlineSeconds  *int32

DeploymentStrategy:
  type           DeploymentStrategyType
  rollingUpdate  *RollingUpdateDeployment

RollingUpdateDeployment:
  maxUnavailable  *intstr
  maxSurge        *intstr

DeploymentStatus:
  observedGeneration   int64
  replicas             int32
  updatedReplicas      int32
  readyReplicas        int32
  availableReplicas    int32
  unavailableReplicas  int32
  terminatingReplicas  *int32
  conditions           []DeploymentCondition  keys=type merge=type
  collisionCount       *int32

DeploymentCondition:
  type                DeploymentConditionType  !
  status              core.ConditionStatus  !
  lastUpdateTime      time
  lastTransitionTime  time
  reason              str
  message             str

kind ReplicaSet:
  spec    ReplicaSetSpec
  status  ReplicaSetStatus

ReplicaSetSpec:
  replicas         *int32
  minReadySeconds  int32
  selector         *LabelSelector  !
  template         PodTemplateSpec

ReplicaSetStatus:
  replicas              int32  !
  fullyLabeledReplicas  int32
  readyReplicas         int32
  availableReplicas     int32
  terminatingReplicas   *int32
  observedGeneration    int64
  conditions            []ReplicaSetCondition  keys=type merge=type

ReplicaSetCondition:
  type                ReplicaSetConditionType  !
  status              core.ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

kind StatefulSet:
  spec    StatefulSetSpec
  status  StatefulSetStatus

StatefulSetSpec:
  replicas                              *int32
  selector                              *LabelSelector  !
  template                              PodTemplateSpec  !
  volumeClaimTemplates                  []PersistentVolumeClaim
  serviceName                           str  +
  podManagementPolicy                   PodManagementPolicyType
  updateStrategy                        StatefulSetUpdateStrategy
  revisionHistoryLimit                  *int32
  minReadySeconds                       int32
  persistentVolumeClaimRetentionPolicy  *StatefulSetPersistentVolumeClaimRetentionPolicy
  ordinals                              *StatefulSetOrdinals

StatefulSetUpdateStrategy:
  type           StatefulSetUpdateStrategyType
  rollingUpdate  *RollingUpdateStatefulSetStrategy

RollingUpdateStatefulSetStrategy:
  partition       *int32
  maxUnavailable  *intstr

StatefulSetPersistentVolumeClaimRetentionPolicy:
  whenDeleted  PersistentVolumeClaimRetentionPolicyType
  whenScaled   PersistentVolumeClaimRetentionPolicyType

StatefulSetOrdinals:
  start  int32  +

StatefulSetStatus:
  observedGeneration  int64
  replicas            int32  !
  readyReplicas       int32
  currentReplicas     int32
  updatedReplicas     int32
  currentRevision     str
  updateRevision      str
  collisionCount      *int32
  conditions          []StatefulSetCondition  keys=type merge=type
  availableReplicas   int32  +

StatefulSetCondition:
  type                StatefulSetConditionType  !
  status              core.ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

kind DaemonSet:
  spec    DaemonSetSpec
  status  DaemonSetStatus

DaemonSetSpec:
  selector              *LabelSelector  !
  template              PodTemplateSpec  !
  updateStrategy        DaemonSetUpdateStrategy
  minReadySeconds       int32
  revisionHistoryLimit  *int32

DaemonSetUpdateStrategy:
  type           DaemonSetUpdateStrategyType
  rollingUpdate  *RollingUpdateDaemonSet

RollingUpdateDaemonSet:
  maxUnavailable  *intstr
  maxSurge        *intstr

DaemonSetStatus:
  currentNumberScheduled  int32  !
  numberMisscheduled      int32  !
  desiredNumberScheduled  int32  !
  numberReady             int32  !
  observedGeneration      int64
  updatedNumberScheduled  int32
  numberAvailable         int32
  numberUnavailable       int32
  collisionCount          *int32
  conditions              []DaemonSetCondition  keys=type merge=type

DaemonSetCondition:
  type                DaemonSetConditionType  !
  status              core.ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

kind ControllerRevision:
  data      raw
  revision  int64  !
"""
