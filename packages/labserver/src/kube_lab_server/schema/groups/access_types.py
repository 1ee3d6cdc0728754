"""Who may do what: RBAC, and the reviews of the authentication and authorization groups."""

from __future__ import annotations

from typing import Final

RBAC: Final = """
kind Role:
    2  rules  []PolicyRule  +

kind ClusterRole:
    2  rules            []PolicyRule  +
    3  aggregationRule  *AggregationRule

PolicyRule:
    1  verbs            []str  !
    2  apiGroups        []str
    3  resources        []str
    4  resourceNames    []str
    5  nonResourceURLs  []str

AggregationRule:
    1  clusterRoleSelectors  []LabelSelector

kind RoleBinding:
    2  subjects  []Subject
    3  roleRef   RoleRef  !

kind ClusterRoleBinding:
    2  subjects  []Subject
    3  roleRef   RoleRef  !

Subject: atomic
    1  kind       str  !
    2  apiGroup   str
    3  name       str  !
    4  namespace  str

RoleRef: atomic
    1  apiGroup  str  !
    2  kind      str  !
    3  name      str  !
"""

AUTHENTICATION: Final = """
= []str: ExtraValue

kind TokenReview:
    2  spec    TokenReviewSpec  !
    3  status  TokenReviewStatus

TokenReviewSpec:
    1  token      str
    2  audiences  []str

TokenReviewStatus:
    1  authenticated  bool
    2  user           UserInfo
    4  audiences      []str
    3  error          str

UserInfo:
    1  username  str
    2  uid       str
    3  groups    []str
    4  extra     {}ExtraValue

kind TokenRequest:
    2  spec    TokenRequestSpec  !
    3  status  TokenRequestStatus

TokenRequestSpec:
    1  audiences          []str  !
    4  expirationSeconds  *int64  +
    3  boundObjectRef     *BoundObjectReference  +

BoundObjectReference:
    1  kind        str
    2  apiVersion  str
    3  name        str
    4  uid         UID

TokenRequestStatus:
    1  token                str  !
    2  expirationTimestamp  time  !

kind SelfSubjectReview:
    2  status  SelfSubjectReviewStatus

SelfSubjectReviewStatus:
    1  userInfo  UserInfo
"""

AUTHORIZATION: Final = """
= []str: ExtraValue

kind SubjectAccessReview:
    2  spec    SubjectAccessReviewSpec  !
    3  status  SubjectAccessReviewStatus

kind LocalSubjectAccessReview:
    2  spec    SubjectAccessReviewSpec  !
    3  status  SubjectAccessReviewStatus

kind SelfSubjectAccessReview:
    2  spec    SelfSubjectAccessReviewSpec  !
    3  status  SubjectAccessReviewStatus

kind SelfSubjectRulesReview:
    2  spec    SelfSubjectRulesReviewSpec  !
    3  status  SubjectRulesReviewStatus

SubjectAccessReviewSpec:
    1  resourceAttributes     *ResourceAttributes
    2  nonResourceAttributes  *NonResourceAttributes
    3  user                   str
    4  groups                 []str
    5  extra                  {}ExtraValue
    6  uid                    str

SelfSubjectAccessReviewSpec:
    1  resourceAttributes     *ResourceAttributes
    2  nonResourceAttributes  *NonResourceAttributes

ResourceAttributes:
    1  namespace      str
    2  verb           str
    3  group          str
    4  version        str
    5  resource       str
    6  subresource    str
    7  name           str
    8  fieldSelector  *FieldSelectorAttributes
    9  labelSelector  *LabelSelectorAttributes

FieldSelectorAttributes:
    1  rawSelector   str
    2  requirements  []FieldSelectorRequirement

LabelSelectorAttributes:
    1  rawSelector   str
    2  requirements  []LabelSelectorRequirement

NonResourceAttributes:
    1  path  str
    2  verb  str

SubjectAccessReviewStatus:
    1  allowed          bool  !
    4  denied           bool
    2  reason           str
    3  evaluationError  str

SelfSubjectRulesReviewSpec:
    1  namespace  str

SubjectRulesReviewStatus:
    1  resourceRules     []ResourceRule  !
    2  nonResourceRules  []NonResourceRule  !
    3  incomplete        bool  !
    4  evaluationError   str

ResourceRule:
    1  verbs          []str  !
    2  apiGroups      []str
    3  resources      []str
    4  resourceNames  []str

NonResourceRule:
    1  verbs            []str  !
    2  nonResourceURLs  []str
"""
