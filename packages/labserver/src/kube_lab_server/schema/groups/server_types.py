"""How the API server is set up: priorities of requests, further servers, policies, certificates.

How a cluster is extended: custom resources and admission webhooks.
"""

from __future__ import annotations

from typing import Final

FLOW_CONTROL: Final = """
= str: FlowDistinguisherMethodType SubjectKind FlowSchemaConditionType ConditionStatus
= str: PriorityLevelEnablement LimitResponseType PriorityLevelConfigurationConditionType

kind FlowSchema:
    2  spec    FlowSchemaSpec
    3  status  FlowSchemaStatus

FlowSchemaSpec:
    1  priorityLevelConfiguration  PriorityLevelConfigurationReference  !
    2  matchingPrecedence          int32  +
    3  distinguisherMethod         *FlowDistinguisherMethod
    4  rules                       []PolicyRulesWithSubjects

FlowDistinguisherMethod:
    1  type  FlowDistinguisherMethodType  !

PriorityLevelConfigurationReference:
    1  name  str  !

PolicyRulesWithSubjects:
    1  subjects          []Subject  !
    2  resourceRules     []ResourcePolicyRule
    3  nonResourceRules  []NonResourcePolicyRule

Subject:
    1  kind            SubjectKind  !
    2  user            *UserSubject
    3  group           *GroupSubject
    4  serviceAccount  *ServiceAccountSubject

UserSubject:
    1  name  str  !

GroupSubject:
    1  name  str  !

ServiceAccountSubject:
    1  namespace  str  !
    2  name       str  !

ResourcePolicyRule:
    1  verbs         []str  ! set
    2  apiGroups     []str  ! set
    3  resources     []str  ! set
    4  clusterScope  bool
    5  namespaces    []str  + set

NonResourcePolicyRule:
    1  verbs            []str  ! set
    6  nonResourceURLs  []str  ! set

FlowSchemaStatus:
    1  conditions  []FlowSchemaCondition  keys=type merge=type

FlowSchemaCondition:
    1  type                FlowSchemaConditionType
    2  status              ConditionStatus
    3  lastTransitionTime  time
    4  reason              str
    5  message             str

kind PriorityLevelConfiguration:
    2  spec    PriorityLevelConfigurationSpec
    3  status  PriorityLevelConfigurationStatus

PriorityLevelConfigurationSpec:
    1  type     PriorityLevelEnablement  !
    2  limited  *LimitedPriorityLevelConfiguration
    3  exempt   *ExemptPriorityLevelConfiguration

LimitedPriorityLevelConfiguration:
    1  nominalConcurrencyShares  *int32  +
    2  limitResponse             LimitResponse
    3  lendablePercent           *int32
    4  borrowingLimitPercent     *int32

ExemptPriorityLevelConfiguration:
    1  nominalConcurrencyShares  *int32
    2  lendablePercent           *int32

LimitResponse:
    1  type     LimitResponseType  !
    2  queuing  *QueuingConfiguration

QueuingConfiguration:
    1  queues            int32  +
    2  handSize          int32  +
    3  queueLengthLimit  int32  +

PriorityLevelConfigurationStatus:
    1  conditions  []PriorityLevelConfigurationCondition  keys=type merge=type

PriorityLevelConfigurationCondition:
    1  type                PriorityLevelConfigurationConditionType
    2  status              ConditionStatus
    3  lastTransitionTime  time
    4  reason              str
    5  message             str
"""

API_REGISTRATION: Final = """
= str: ConditionStatus APIServiceConditionType

kind APIService:
    2  spec    APIServiceSpec
    3  status  APIServiceStatus

APIServiceSpec:
    1  service                *ServiceReference
    2  group                  str
    3  version                str
    4  insecureSkipTLSVerify  bool
    5  caBundle               bytes
    7  groupPriorityMinimum   int32  !
    8  versionPriority        int32  !

ServiceReference:
    1  namespace  str
    2  name       str
    3  port       *int32

APIServiceStatus:
    1  conditions  []APIServiceCondition  keys=type merge=type

APIServiceCondition:
    1  type                APIServiceConditionType  !
    2  status              ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str
"""

CERTIFICATES: Final = """
= str: RequestConditionType KeyUsage
= []str: ExtraValue

kind CertificateSigningRequest:
    2  spec    CertificateSigningRequestSpec  !
    3  status  CertificateSigningRequestStatus

CertificateSigningRequestSpec:
    1  request            bytes  !
    7  signerName         str  !
    8  expirationSeconds  *int32
    5  usages             []KeyUsage
    2  username           str
    3  uid                str
    4  groups             []str
    6  extra              {}ExtraValue

CertificateSigningRequestStatus:
    1  conditions   []CertificateSigningRequestCondition  keys=type
    2  certificate  bytes

CertificateSigningRequestCondition:
    1  type                RequestConditionType  !
    6  status              core.ConditionStatus  !
    2  reason              str
    3  message             str
    4  lastUpdateTime      time
    5  lastTransitionTime  time
"""

ADMISSION_POLICIES: Final = """
kind ValidatingAdmissionPolicy:
    2  spec    ValidatingAdmissionPolicySpec
    3  status  ValidatingAdmissionPolicyStatus

ValidatingAdmissionPolicySpec:
    1  paramKind         *ParamKind
    2  matchConstraints  *MatchResources
    3  validations       []Validation
    4  failurePolicy     *FailurePolicyType
    5  auditAnnotations  []AuditAnnotation
    6  matchConditions   []MatchCondition  keys=name merge=name
    7  variables         []Variable  keys=name merge=name

ParamKind: atomic
    1  apiVersion  str
    2  kind        str

MatchResources: atomic
    1  namespaceSelector     *LabelSelector
    2  objectSelector        *LabelSelector
    3  resourceRules         []NamedRuleWithOperations
    4  excludeResourceRules  []NamedRuleWithOperations
    7  matchPolicy           *MatchPolicyType

NamedRuleWithOperations: atomic
    1  resourceNames  []str
    2  ...RuleWithOperations

Validation:
    1  expression         str  !
    2  message            str
    3  reason             *StatusReason
    4  messageExpression  str

AuditAnnotation:
    1  key              str  !
    2  valueExpression  str  !

Variable: atomic
    1  name        str  !
    2  expression  str  !

ValidatingAdmissionPolicyStatus:
    1  observedGeneration  int64
    2  typeChecking        *TypeChecking
    3  conditions          []Condition  keys=type

TypeChecking:
    1  expressionWarnings  []ExpressionWarning

ExpressionWarning:
    2  fieldRef  str  !
    3  warning   str  !

kind ValidatingAdmissionPolicyBinding:
    2  spec  ValidatingAdmissionPolicyBindingSpec

ValidatingAdmissionPolicyBindingSpec:
    1  policyName         str
    2  paramRef           *ParamRef
    3  matchResources     *MatchResources
    4  validationActions  []ValidationAction  set

ParamRef: atomic
    1  name                     str
    2  namespace                str
    3  selector                 *LabelSelector
    4  parameterNotFoundAction  *ParameterNotFoundActionType
"""


APIEXTENSIONS: Final = """
= str: ResourceScope ConversionStrategyType CustomResourceDefinitionConditionType ConditionStatus
= str: FieldValueErrorReason JSONSchemaURL
= {}JSONSchemaProps: JSONSchemaDefinitions
= []ValidationRule: ValidationRules
= {}JSONSchemaPropsOrStringArray: JSONSchemaDependencies

kind CustomResourceDefinition:
    2  spec    CustomResourceDefinitionSpec  !
    3  status  CustomResourceDefinitionStatus

CustomResourceDefinitionSpec:
    1  group                  str  !
    3  names                  CustomResourceDefinitionNames  !
    4  scope                  ResourceScope  !
    7  versions               []CustomResourceDefinitionVersion  !
    9  conversion             *CustomResourceConversion
   10  preserveUnknownFields  bool

CustomResourceDefinitionNames:
    1  plural      str  !
    2  singular    str
    3  shortNames  []str
    4  kind        str  !
    5  listKind    str
    6  categories  []str

CustomResourceDefinitionVersion:
    1  name                      str  !
    2  served                    bool  !
    3  storage                   bool  !
    7  deprecated                bool
    8  deprecationWarning        *str
    4  schema                    *CustomResourceValidation
    5  subresources              *CustomResourceSubresources
    6  additionalPrinterColumns  []CustomResourceColumnDefinition
    9  selectableFields          []SelectableField

SelectableField:
    1  jsonPath  str  !

CustomResourceColumnDefinition:
    1  name         str  !
    2  type         str  !
    3  format       str
    4  description  str
    5  priority     int32
    6  jsonPath     str  !

CustomResourceSubresources:
    1  status  *CustomResourceSubresourceStatus
    2  scale   *CustomResourceSubresourceScale

CustomResourceSubresourceStatus:

CustomResourceSubresourceScale:
    1  specReplicasPath    str  !
    2  statusReplicasPath  str  !
    3  labelSelectorPath   *str

CustomResourceConversion:
    1  strategy  ConversionStrategyType  !
    2  webhook   *WebhookConversion

WebhookConversion:
    2  clientConfig              *WebhookClientConfig
    3  conversionReviewVersions  []str  !

WebhookClientConfig:
    3  url       *str
    1  service   *ServiceReference
    2  caBundle  bytes

ServiceReference:
    1  namespace  str  !
    2  name       str  !
    3  path       *str
    4  port       *int32

CustomResourceDefinitionStatus:
    1  conditions          []CustomResourceDefinitionCondition  + keys=type
    2  acceptedNames       CustomResourceDefinitionNames  +
    3  storedVersions      []str  +
    4  observedGeneration  int64

CustomResourceDefinitionCondition:
    1  type                CustomResourceDefinitionConditionType  !
    2  status              ConditionStatus  !
    3  lastTransitionTime  time
    4  reason              str
    5  message             str
    6  observedGeneration  int64

CustomResourceValidation:
    1  openAPIV3Schema  *JSONSchemaProps

ExternalDocumentation:
    1  description  str
    2  url          str

ValidationRule:
    1  rule               str  !
    2  message            str
    3  messageExpression  str
    4  reason             *FieldValueErrorReason
    5  fieldPath          str
    6  optionalOldSelf    *bool

JSONSchemaProps:
    1  id                    str
    2  $schema               JSONSchemaURL
    3  $ref                  *str
    4  description           str
    5  type                  str
    6  format                str
    7  title                 str
    8  default               *json
    9  maximum               *float64
   10  exclusiveMaximum      bool
   11  minimum               *float64
   12  exclusiveMinimum      bool
   13  maxLength             *int64
   14  minLength             *int64
   15  pattern               str
   16  maxItems              *int64
   17  minItems              *int64
   18  uniqueItems           bool
   19  multipleOf            *float64
   20  enum                  []json
   21  maxProperties         *int64
   22  minProperties         *int64
   23  required              []str
   24  items                 *JSONSchemaPropsOrArray
   25  allOf                 []JSONSchemaProps
   26  oneOf                 []JSONSchemaProps
   27  anyOf                 []JSONSchemaProps
   28  not                   *JSONSchemaProps
   29  properties            {}JSONSchemaProps
   30  additionalProperties  *JSONSchemaPropsOrBool
   31  patternProperties     {}JSONSchemaProps
   32  dependencies          JSONSchemaDependencies
   33  additionalItems       *JSONSchemaPropsOrBool
   34  definitions           JSONSchemaDefinitions
   35  externalDocs          *ExternalDocumentation
   36  example               *json
   37  nullable              bool
   38  x-kubernetes-preserve-unknown-fields  *bool
   39  x-kubernetes-embedded-resource        bool
   40  x-kubernetes-int-or-string            bool
   41  x-kubernetes-list-map-keys            []str
   42  x-kubernetes-list-type                *str
   43  x-kubernetes-map-type                 *str
   44  x-kubernetes-validations              ValidationRules  keys=rule merge=rule
"""

ADMISSION: Final = """
= str: FailurePolicyType MatchPolicyType SideEffectClass ScopeType OperationType
= str: ReinvocationPolicyType ValidationAction ParameterNotFoundActionType

kind ValidatingWebhookConfiguration:
    2  webhooks  []ValidatingWebhook  keys=name merge=name

kind MutatingWebhookConfiguration:
    2  webhooks  []MutatingWebhook  keys=name merge=name

ValidatingWebhook:
    1  name                     str  !
    2  clientConfig             WebhookClientConfig  !
    3  rules                    []RuleWithOperations
    4  failurePolicy            *FailurePolicyType
    9  matchPolicy              *MatchPolicyType
    5  namespaceSelector        *LabelSelector
   10  objectSelector           *LabelSelector
    6  sideEffects              *SideEffectClass  !
    7  timeoutSeconds           *int32
    8  admissionReviewVersions  []str  !
   11  matchConditions          []MatchCondition  keys=name merge=name

MutatingWebhook:
    1  name                     str  !
    2  clientConfig             WebhookClientConfig  !
    3  rules                    []RuleWithOperations
    4  failurePolicy            *FailurePolicyType
    9  matchPolicy              *MatchPolicyType
    5  namespaceSelector        *LabelSelector
   11  objectSelector           *LabelSelector
    6  sideEffects              *SideEffectClass  !
    7  timeoutSeconds           *int32
    8  admissionReviewVersions  []str  !
   10  reinvocationPolicy       *ReinvocationPolicyType
   12  matchConditions          []MatchCondition  keys=name merge=name

WebhookClientConfig:
    3  url       *str
    1  service   *ServiceReference
    2  caBundle  bytes

ServiceReference:
    1  namespace  str  !
    2  name       str  !
    3  path       *str
    4  port       *int32

RuleWithOperations:
    1  operations  []OperationType
    2  ...Rule

Rule:
    1  apiGroups    []str
    2  apiVersions  []str
    3  resources    []str
    4  scope        *ScopeType

MatchCondition:
    1  name        str  !
    2  expression  str  !
"""
