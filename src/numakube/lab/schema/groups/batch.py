"""Types of ``batch/v1``: Job and CronJob."""

from __future__ import annotations

from typing import Final

NAME: Final = "batch.v1"

TABLE: Final = """
= str: CompletionMode PodFailurePolicyAction PodFailurePolicyOnExitCodesOperator ConcurrencyPolicy
= str: PodReplacementPolicy JobConditionType

kind Job:
  spec    JobSpec
  status  JobStatus

JobSpec:
  parallelism              *int32
  completions              *int32
  activeDeadlineSeconds    *int64
  podFailurePolicy         *PodFailurePolicy
  successPolicy            *SuccessPolicy
  backoffLimit             *int32
  backoffLimitPerIndex     *int32
  maxFailedIndexes         *int32
  selector                 *LabelSelector
  manualSelector           *bool
  template                 PodTemplateSpec  !
  ttlSecondsAfterFinished  *int32
  completionMode           *CompletionMode
  suspend                  *bool
  podReplacementPolicy     *PodReplacementPolicy
  managedBy                *str

PodFailurePolicy:
  rules  []PodFailurePolicyRule  !

PodFailurePolicyRule:
  action           PodFailurePolicyAction  !
  onExitCodes      *PodFailurePolicyOnExitCodesRequirement
  onPodConditions  []PodFailurePolicyOnPodConditionsPattern

PodFailurePolicyOnExitCodesRequirement:
  containerName  *str
  operator       PodFailurePolicyOnExitCodesOperator  !
  values         []int32  ! set

PodFailurePolicyOnPodConditionsPattern:
  type    core.PodConditionType  !
  status  core.ConditionStatus  +

SuccessPolicy:
  rules  []SuccessPolicyRule  !

SuccessPolicyRule:
  succeededIndexes  *str
  succeededCount    *int32

JobStatus:
  conditions               []JobCondition  atomic merge=type
  startTime                *time
  completionTime           *time
  active                   int32
  succeeded                int32
  failed                   int32
  terminating              *int32
  completedIndexes         str
  failedIndexes            *str
  uncountedTerminatedPods  *UncountedTerminatedPods
  ready                    *int32

JobCondition:
  type                JobConditionType  !
  status              core.ConditionStatus  !
  lastProbeTime       time
  lastTransitionTime  time
  reason              str
  message             str

UncountedTerminatedPods:
  succeeded  []UID  set
  failed     []UID  set

kind CronJob:
  spec    CronJobSpec
  status  CronJobStatus

CronJobSpec:
  schedule                    str  !
  timeZone                    *str
  startingDeadlineSeconds     *int64
  concurrencyPolicy           ConcurrencyPolicy
  suspend                     *bool
  jobTemplate                 JobTemplateSpec  !
  successfulJobsHistoryLimit  *int32
  failedJobsHistoryLimit      *int32

JobTemplateSpec:
  metadata  ObjectMeta
  spec      JobSpec

CronJobStatus:
  active              []core.ObjectReference
  lastScheduleTime    *time
  lastSuccessfulTime  *time
"""
