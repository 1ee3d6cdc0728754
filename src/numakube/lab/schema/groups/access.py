"""Who may do what: RBAC, and the reviews of the authentication and authorization groups."""

from __future__ import annotations

from typing import Final

RBAC: Final = """
kind Role:
  rules  []PolicyRule  +

kind ClusterRole:
  rules            []PolicyRule  +
  aggregationRule  *AggregationRule

PolicyRule:
  verbs            []str  !
  apiGroups        []str
  resources        []str
  resourceNames    []str
  nonResourceURLs  []str

AggregationRule:
  clusterRoleSelectors  []LabelSelector

kind RoleBinding:
  subjects  []Subject
  roleRef   RoleRef  !

kind ClusterRoleBinding:
  subjects  []Subject
  roleRef   RoleRef  !

Subject: atomic
  kind       str  !
  apiGroup   str
  name       str  !
  namespace  str

RoleRef: atomic
  apiGroup  str  !
  kind      str  !
  name      str  !
"""

AUTHENTICATION: Final = """
= []str: ExtraValue

kind TokenReview:
  spec    TokenReviewSpec  !
  status  TokenReviewStatus

TokenReviewSpec:
  token      str
  audiences  []str

TokenReviewStatus:
  authenticated  bool
  user           UserInfo
  audiences      []str
  error          str

UserInfo:
  username  str
  uid       str
  groups    []str
  extra     {}ExtraValue

kind TokenRequest:
  spec    TokenRequestSpec  !
  status  TokenRequestStatus

TokenRequestSpec:
  audiences          []str  !
  expirationSeconds  *int64  +
  boundObjectRef     *BoundObjectReference  +

BoundObjectReference:
  kind        str
  apiVersion  str
  name        str
  uid         UID

TokenRequestStatus:
  token                str  !
  expirationTimestamp  time  !

kind SelfSubjectReview:
  status  SelfSubjectReviewStatus

SelfSubjectReviewStatus:
  userInfo  UserInfo
"""

AUTHORIZATION: Final = """
= []str: ExtraValue

kind SubjectAccessReview:
  spec    SubjectAccessReviewSpec  !
  status  SubjectAccessReviewStatus

kind LocalSubjectAccessReview:
  spec    SubjectAccessReviewSpec  !
  status  SubjectAccessReviewStatus

kind SelfSubjectAccessReview:
  spec    SelfSubjectAccessReviewSpec  !
  status  SubjectAccessReviewStatus

kind SelfSubjectRulesReview:
  spec    SelfSubjectRulesReviewSpec  !
  status  SubjectRulesReviewStatus

SubjectAccessReviewSpec:
  resourceAttributes     *ResourceAttributes
  nonResourceAttributes  *NonResourceAttributes
  user                   str
  groups                 []str
  extra                  {}ExtraValue
  uid                    str

SelfSubjectAccessReviewSpec:
  resourceAttributes     *ResourceAttributes
  nonResourceAttributes  *NonResourceAttributes

ResourceAttributes:
  namespace      str
  verb           str
  group          str
  version        str
  resource       str
  subresource    str
  name           str
  fieldSelector  *FieldSelectorAttributes
  labelSelector  *LabelSelectorAttributes

FieldSelectorAttributes:
  rawSelector   str
  requirements  []FieldSelectorRequirement

LabelSelectorAttributes:
  rawSelector   str
  requirements  []LabelSelectorRequirement

NonResourceAttributes:
  path  str
  verb  str

SubjectAccessReviewStatus:
  allowed          bool  !
  denied           bool
  reason           str
  evaluationError  str

SelfSubjectRulesReviewSpec:
  namespace  str

SubjectRulesReviewStatus:
  resourceRules     []ResourceRule  !
  nonResourceRules  []NonResourceRule  !
  incomplete        bool  !
  evaluationError   str

ResourceRule:
  verbs          []str  !
  apiGroups      []str
  resources      []str
  resourceNames  []str

NonResourceRule:
  verbs            []str  !
  nonResourceURLs  []str
"""
