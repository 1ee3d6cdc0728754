"""How the API server is set up: priorities of requests, further servers, policies, certificates."""

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
