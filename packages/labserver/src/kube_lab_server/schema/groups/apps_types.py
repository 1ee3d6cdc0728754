"""Types of ``apps/v1``: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
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
