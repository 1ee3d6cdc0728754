"""How a cluster is extended: custom resources and admission webhooks."""

from __future__ import annotations

from typing import Final

APIEXTENSIONS: Final = """
= str: ResourceScope ConversionStrategyType CustomResourceDefinitionConditionType ConditionStatus
= str: FieldValueErrorReason JSONSchemaURL
= {}JSONSchemaProps: JSONSchemaDefinitions
= []ValidationRule: ValidationRules
= {}JSONSchemaPropsOrStringArray: JSONSchemaDependencies

kind CustomResourceDefinition:
  spec    CustomResourceDefinitionSpec  !
  status  CustomResourceDefinitionStatus

CustomResourceDefinitionSpec:
  group                  str  !
  names                  CustomResourceDefinitionNames  !
  scope                  ResourceScope  !
  versions               []CustomResourceDefinitionVersion  !
  conversion             *CustomResourceConversion
  preserveUnknownFields  bool

CustomResourceDefinitionNames:
  plural      str  !
  singular    str
  shortNames  []str
  kind        str  !
  listKind    str
  categories  []str

CustomResourceDefinitionVersion:
  name                      str  !
  served                    bool  !
  storage                   bool  !
  deprecated                bool
  deprecationWarning        *str
  schema                    *CustomResourceValidation
  subresources              *CustomResourceSubresources
  additionalPrinterColumns  []CustomResourceColumnDefinition
  selectableFields          []SelectableField

SelectableField:
  jsonPath  str  !

CustomResourceColumnDefinition:
  name         str  !
  type         str  !
  format       str
  description  str
  priority     int32
  jsonPath     str  !

CustomResourceSubresources:
  status  *CustomResourceSubresourceStatus
  scale   *CustomResourceSubresourceScale

CustomResourceSubresourceStatus:

CustomResourceSubresourceScale:
  specReplicasPath    str  !
  statusReplicasPath  str  !
  labelSelectorPath   *str

CustomResourceConversion:
  strategy  ConversionStrategyType  !
  webhook   *WebhookConversion

WebhookConversion:
  clientConfig              *WebhookClientConfig
  conversionReviewVersions  []str  !

WebhookClientConfig:
  url       *str
  service   *ServiceReference
  caBundle  bytes

ServiceReference:
  namespace  str  !
  name       str  !
  path       *str
  port       *int32

CustomResourceDefinitionStatus:
  conditions          []CustomResourceDefinitionCondition  + keys=type
  acceptedNames       CustomResourceDefinitionNames  +
  storedVersions      []str  +
  observedGeneration  int64

CustomResourceDefinitionCondition:
  type                CustomResourceDefinitionConditionType  !
  status              ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str
  observedGeneration  int64

CustomResourceValidation:
  openAPIV3Schema  *JSONSchemaProps

ExternalDocumentation:
  description  str
  url          str

ValidationRule:
  rule               str  !
  message            str
  messageExpression  str
  reason             *FieldValueErrorReason
  fieldPath          str
  optionalOldSelf    *bool

JSONSchemaProps:
  id                    str
  $schema               JSONSchemaURL
  $ref                  *str
  description           str
  type                  str
  format                str
  title                 str
  default               *json
  maximum               *float64
  exclusiveMaximum      bool
  minimum               *float64
  exclusiveMinimum      bool
  maxLength             *int64
  minLength             *int64
  pattern               str
  maxItems              *int64
  minItems              *int64
  uniqueItems           bool
  multipleOf            *float64
  enum                  []json
  maxProperties         *int64
  minProperties         *int64
  required              []str
  items                 *JSONSchemaPropsOrArray
  allOf                 []JSONSchemaProps
  oneOf                 []JSONSchemaProps
  anyOf                 []JSONSchemaProps
  not                   *JSONSchemaProps
  properties            {}JSONSchemaProps
  additionalProperties  *JSONSchemaPropsOrBool
  patternProperties     {}JSONSchemaProps
  dependencies          JSONSchemaDependencies
  additionalItems       *JSONSchemaPropsOrBool
  definitions           JSONSchemaDefinitions
  externalDocs          *ExternalDocumentation
  example               *json
  nullable              bool
  x-kubernetes-preserve-unknown-fields  *bool
  x-kubernetes-embedded-resource        bool
  x-kubernetes-int-or-string            bool
  x-kubernetes-list-map-keys            []str
  x-kubernetes-list-type                *str
  x-kubernetes-map-type                 *str
  x-kubernetes-validations              ValidationRules  keys=rule merge=rule
"""

ADMISSION: Final = """
= str: FailurePolicyType MatchPolicyType SideEffectClass ScopeType OperationType
= str: ReinvocationPolicyType ValidationAction ParameterNotFoundActionType

kind ValidatingWebhookConfiguration:
  webhooks  []ValidatingWebhook  keys=name merge=name

kind MutatingWebhookConfiguration:
  webhooks  []MutatingWebhook  keys=name merge=name

ValidatingWebhook:
  name                     str  !
  clientConfig             WebhookClientConfig  !
  rules                    []RuleWithOperations
  failurePolicy            *FailurePolicyType
  matchPolicy              *MatchPolicyType
  namespaceSelector        *LabelSelector
  objectSelector           *LabelSelector
  sideEffects              *SideEffectClass  !
  timeoutSeconds           *int32
  admissionReviewVersions  []str  !
  matchConditions          []MatchCondition  keys=name merge=name

MutatingWebhook:
  name                     str  !
  clientConfig             WebhookClientConfig  !
  rules                    []RuleWithOperations
  failurePolicy            *FailurePolicyType
  matchPolicy              *MatchPolicyType
  namespaceSelector        *LabelSelector
  objectSelector           *LabelSelector
  sideEffects              *SideEffectClass  !
  timeoutSeconds           *int32
  admissionReviewVersions  []str  !
  reinvocationPolicy       *ReinvocationPolicyType
  matchConditions          []MatchCondition  keys=name merge=name

WebhookClientConfig:
  url       *str
  service   *ServiceReference
  caBundle  bytes

ServiceReference:
  namespace  str  !
  name       str  !
  path       *str
  port       *int32

RuleWithOperations:
  operations  []OperationType
  ...Rule

Rule:
  apiGroups    []str
  apiVersions  []str
  resources    []str
  scope        *ScopeType

MatchCondition:
  name        str  !
  expression  str  !
"""
