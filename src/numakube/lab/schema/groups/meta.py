"""Types of ``meta/v1`` that every kind shares, and the reviews' common parts."""

from __future__ import annotations

from typing import Final

NAME: Final = "meta.v1"

TABLE: Final = """
= str: types.UID ManagedFieldsOperationType LabelSelectorOperator ConditionStatus
= str: FieldSelectorOperator DeletionPropagation

ObjectMeta:
  name                        str
  generateName                str
  namespace                   str
  selfLink                    str
  uid                         UID
  resourceVersion             str
  generation                  int64
  creationTimestamp           time    omitzero
  deletionTimestamp           *time
  deletionGracePeriodSeconds  *int64
  labels                      {}str
  annotations                 {}str
  ownerReferences             []OwnerReference  keys=uid merge=uid
  finalizers                  []str  set merge
  managedFields               []ManagedFieldsEntry

OwnerReference: atomic
  apiVersion          str  !
  kind                str  !
  name                str  !
  uid                 UID  !
  controller          *bool
  blockOwnerDeletion  *bool

ManagedFieldsEntry:
  manager      str
  operation    ManagedFieldsOperationType
  apiVersion   str
  time         *time
  fieldsType   str
  fieldsV1     *raw
  subresource  str

ListMeta:
  selfLink            str
  resourceVersion     str
  continue            str
  remainingItemCount  *int64

LabelSelector: atomic
  matchLabels       {}str
  matchExpressions  []LabelSelectorRequirement

LabelSelectorRequirement:
  key       str  !
  operator  LabelSelectorOperator  !
  values    []str

FieldSelectorRequirement:
  key       str  !
  operator  FieldSelectorOperator  !
  values    []str

Condition:
  type                str  !
  status              ConditionStatus  !
  observedGeneration  int64
  lastTransitionTime  time  !
  reason              str  !
  message             str  !

Preconditions:
  uid              *UID
  resourceVersion  *str

DeleteOptions:
  kind                str
  apiVersion          str
  gracePeriodSeconds  *int64
  preconditions       *Preconditions
  orphanDependents    *bool
  propagationPolicy   *DeletionPropagation
  dryRun              []str
  ignoreStoreReadErrorWithClusterBreakingPotential  *bool
"""
