"""Types of ``batch/v1``: Job and CronJob."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
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
