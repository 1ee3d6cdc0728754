"""Types of ``autoscaling/v1`` (Scale) and ``autoscaling/v2`` (HorizontalPodAutoscaler)."""

from __future__ import annotations

from typing import Final

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
