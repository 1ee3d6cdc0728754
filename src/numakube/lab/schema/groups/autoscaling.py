"""Types of ``autoscaling/v1`` (Scale) and ``autoscaling/v2`` (HorizontalPodAutoscaler)."""

from __future__ import annotations

from typing import Final

V1: Final = """
kind Scale:
  spec    ScaleSpec
  status  ScaleStatus

ScaleSpec:
  replicas  int32  default=0

ScaleStatus:
  replicas  int32  !
  selector  str

kind HorizontalPodAutoscaler:
  spec    HorizontalPodAutoscalerSpec
  status  HorizontalPodAutoscalerStatus

CrossVersionObjectReference: atomic
  kind        str  !
  name        str  !
  apiVersion  str

HorizontalPodAutoscalerSpec:
  scaleTargetRef                  CrossVersionObjectReference  !
  minReplicas                     *int32
  maxReplicas                     int32  !
  targetCPUUtilizationPercentage  *int32

HorizontalPodAutoscalerStatus:
  observedGeneration               *int64
  lastScaleTime                    *time
  currentReplicas                  int32  !
  desiredReplicas                  int32  !
  currentCPUUtilizationPercentage  *int32
"""

V2: Final = """
= str: MetricSourceType MetricTargetType ScalingPolicySelect HPAScalingPolicyType
= str: HorizontalPodAutoscalerConditionType

kind HorizontalPodAutoscaler:
  spec    HorizontalPodAutoscalerSpec
  status  HorizontalPodAutoscalerStatus

CrossVersionObjectReference:
  kind        str  !
  name        str  !
  apiVersion  str

HorizontalPodAutoscalerSpec:
  scaleTargetRef  CrossVersionObjectReference  !
  minReplicas     *int32
  maxReplicas     int32  !
  metrics         []MetricSpec
  behavior        *HorizontalPodAutoscalerBehavior

MetricSpec:
  type               MetricSourceType  !
  object             *ObjectMetricSource
  pods               *PodsMetricSource
  resource           *ResourceMetricSource
  containerResource  *ContainerResourceMetricSource
  external           *ExternalMetricSource

ObjectMetricSource:
  describedObject  CrossVersionObjectReference  !
  target           MetricTarget  !
  metric           MetricIdentifier  !

PodsMetricSource:
  metric  MetricIdentifier  !
  target  MetricTarget  !

ResourceMetricSource:
  name    core.ResourceName  !
  target  MetricTarget  !

ContainerResourceMetricSource:
  name       core.ResourceName  !
  target     MetricTarget  !
  container  str  !

ExternalMetricSource:
  metric  MetricIdentifier  !
  target  MetricTarget  !

MetricIdentifier:
  name      str  !
  selector  *LabelSelector

MetricTarget:
  type                MetricTargetType  !
  value               *quantity
  averageValue        *quantity
  averageUtilization  *int32

HorizontalPodAutoscalerBehavior:
  scaleUp    *HPAScalingRules
  scaleDown  *HPAScalingRules

HPAScalingRules:
  stabilizationWindowSeconds  *int32
  selectPolicy                *ScalingPolicySelect
  policies                    []HPAScalingPolicy
  tolerance                   *quantity

HPAScalingPolicy:
  type           HPAScalingPolicyType  !
  value          int32  !
  periodSeconds  int32  !

HorizontalPodAutoscalerStatus:
  observedGeneration  *int64
  lastScaleTime       *time
  currentReplicas     int32
  desiredReplicas     int32  !
  currentMetrics      []MetricStatus  +
  conditions          []HorizontalPodAutoscalerCondition  keys=type merge=type

HorizontalPodAutoscalerCondition:
  type                HorizontalPodAutoscalerConditionType  !
  status              core.ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str

MetricStatus:
  type               MetricSourceType  !
  object             *ObjectMetricStatus
  pods               *PodsMetricStatus
  resource           *ResourceMetricStatus
  containerResource  *ContainerResourceMetricStatus
  external           *ExternalMetricStatus

ObjectMetricStatus:
  metric           MetricIdentifier  !
  current          MetricValueStatus  !
  describedObject  CrossVersionObjectReference  !

PodsMetricStatus:
  metric   MetricIdentifier  !
  current  MetricValueStatus  !

ResourceMetricStatus:
  name     core.ResourceName  !
  current  MetricValueStatus  !

ContainerResourceMetricStatus:
  name       core.ResourceName  !
  current    MetricValueStatus  !
  container  str  !

ExternalMetricStatus:
  metric   MetricIdentifier  !
  current  MetricValueStatus  !

MetricValueStatus:
  value               *quantity
  averageValue        *quantity
  averageUtilization  *int32
"""
