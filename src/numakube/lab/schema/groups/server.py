"""How the API server is set up: priorities of requests, further servers, policies, certificates."""

from __future__ import annotations

from typing import Final

FLOW_CONTROL: Final = """
= str: FlowDistinguisherMethodType SubjectKind FlowSchemaConditionType ConditionStatus
= str: PriorityLevelEnablement LimitResponseType PriorityLevelConfigurationConditionType

kind FlowSchema:
  spec    FlowSchemaSpec
  status  FlowSchemaStatus

FlowSchemaSpec:
  priorityLevelConfiguration  PriorityLevelConfigurationReference  !
  matchingPrecedence          int32  +
  distinguisherMethod         *FlowDistinguisherMethod
  rules                       []PolicyRulesWithSubjects

FlowDistinguisherMethod:
  type  FlowDistinguisherMethodType  !

PriorityLevelConfigurationReference:
  name  str  !

PolicyRulesWithSubjects:
  subjects          []Subject  !
  resourceRules     []ResourcePolicyRule
  nonResourceRules  []NonResourcePolicyRule

Subject:
  kind            SubjectKind  !
  user            *UserSubject
  group           *GroupSubject
  serviceAccount  *ServiceAccountSubject

UserSubject:
  name  str  !

GroupSubject:
  name  str  !

ServiceAccountSubject:
  namespace  str  !
  name       str  !

ResourcePolicyRule:
  verbs         []str  ! set
  apiGroups     []str  ! set
  resources     []str  ! set
  clusterScope  bool
  namespaces    []str  + set

NonResourcePolicyRule:
  verbs            []str  ! set
  nonResourceURLs  []str  ! set

FlowSchemaStatus:
  conditions  []FlowSchemaCondition  keys=type merge=type

FlowSchemaCondition:
  type                FlowSchemaConditionType
  status              ConditionStatus
  lastTransitionTime  time
  reason              str
  message             str

kind PriorityLevelConfiguration:
  spec    PriorityLevelConfigurationSpec
  status  PriorityLevelConfigurationStatus

PriorityLevelConfigurationSpec:
  type     PriorityLevelEnablement  !
  limited  *LimitedPriorityLevelConfiguration
  exempt   *ExemptPriorityLevelConfiguration

LimitedPriorityLevelConfiguration:
  nominalConcurrencyShares  *int32  +
  limitResponse             LimitResponse
  lendablePercent           *int32
  borrowingLimitPercent     *int32

ExemptPriorityLevelConfiguration:
  nominalConcurrencyShares  *int32
  lendablePercent           *int32

LimitResponse:
  type     LimitResponseType  !
  queuing  *QueuingConfiguration

QueuingConfiguration:
  queues            int32  +
  handSize          int32  +
  queueLengthLimit  int32  +

PriorityLevelConfigurationStatus:
  conditions  []PriorityLevelConfigurationCondition  keys=type merge=type

PriorityLevelConfigurationCondition:
  type                PriorityLevelConfigurationConditionType
  status              ConditionStatus
  lastTransitionTime  time
  reason              str
  message             str
"""

API_REGISTRATION: Final = """
= str: ConditionStatus APIServiceConditionType

kind APIService:
  spec    APIServiceSpec
  status  APIServiceStatus

APIServiceSpec:
  service                *ServiceReference
  group                  str
  version                str
  insecureSkipTLSVerify  bool
  caBundle               bytes
  groupPriorityMinimum   int32  !
  versionPriority        int32  !

ServiceReference:
  namespace  str
  name       str
  port       *int32

APIServiceStatus:
  conditions  []APIServiceCondition  keys=type merge=type

APIServiceCondition:
  type                APIServiceConditionType  !
  status              ConditionStatus  !
  lastTransitionTime  time
  reason              str
  message             str
"""

CERTIFICATES: Final = """
= str: RequestConditionType KeyUsage
= []str: ExtraValue

kind CertificateSigningRequest:
  spec    CertificateSigningRequestSpec  !
  status  CertificateSigningRequestStatus

CertificateSigningRequestSpec:
  request            bytes  !
  signerName         str  !
  expirationSeconds  *int32
  usages             []KeyUsage
  username           str
  uid                str
  groups             []str
  extra              {}ExtraValue

CertificateSigningRequestStatus:
  conditions   []CertificateSigningRequestCondition  keys=type
  certificate  bytes

CertificateSigningRequestCondition:
  type                RequestConditionType  !
  status              core.ConditionStatus  !
  reason              str
  message             str
  lastUpdateTime      time
  lastTransitionTime  time
"""

ADMISSION_POLICIES: Final = """
kind ValidatingAdmissionPolicy:
  spec    ValidatingAdmissionPolicySpec
  status  ValidatingAdmissionPolicyStatus

ValidatingAdmissionPolicySpec:
  paramKind         *ParamKind
  matchConstraints  *MatchResources
  validations       []Validation
  failurePolicy     *FailurePolicyType
  auditAnnotations  []AuditAnnotation
  matchConditions   []MatchCondition  keys=name merge=name
  variables         []Variable  keys=name merge=name

ParamKind: atomic
  apiVersion  str
  kind        str

MatchResources: atomic
  namespaceSelector     *LabelSelector
  objectSelector        *LabelSelector
  resourceRules         []NamedRuleWithOperations
  excludeResourceRules  []NamedRuleWithOperations
  matchPolicy           *MatchPolicyType

NamedRuleWithOperations: atomic
  resourceNames  []str
  ...RuleWithOperations

Validation:
  expression         str  !
  message            str
  reason             *str
  messageExpression  str

AuditAnnotation:
  key              str  !
  valueExpression  str  !

Variable: atomic
  name        str  !
  expression  str  !

ValidatingAdmissionPolicyStatus:
  observedGeneration  int64
  typeChecking        *TypeChecking
  conditions          []Condition  keys=type

TypeChecking:
  expressionWarnings  []ExpressionWarning

ExpressionWarning:
  fieldRef  str  !
  warning   str  !

kind ValidatingAdmissionPolicyBinding:
  spec  ValidatingAdmissionPolicyBindingSpec

ValidatingAdmissionPolicyBindingSpec:
  policyName         str
  paramRef           *ParamRef
  matchResources     *MatchResources
  validationActions  []ValidationAction  set

ParamRef: atomic
  name                     str
  namespace                str
  selector                 *LabelSelector
  parameterNotFoundAction  *ParameterNotFoundActionType
"""
