"""Types of ``meta/v1`` that every kind shares, and the reviews' common parts."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: types.UID ManagedFieldsOperationType LabelSelectorOperator ConditionStatus
= str: FieldSelectorOperator DeletionPropagation StatusReason

ObjectMeta:
    1  name                        str
    2  generateName                str
    3  namespace                   str
    4  selfLink                    str
    5  uid                         UID
    6  resourceVersion             str
    7  generation                  int64
    8  creationTimestamp           time    omitzero
    9  deletionTimestamp           *time
   10  deletionGracePeriodSeconds  *int64
   11  labels                      {}str
   12  annotations                 {}str
   13  ownerReferences             []OwnerReference  keys=uid merge=uid
   14  finalizers                  []str  set merge
   17  managedFields               []ManagedFieldsEntry

OwnerReference: atomic
    5  apiVersion          str  !
    1  kind                str  !
    3  name                str  !
    4  uid                 UID  !
    6  controller          *bool
    7  blockOwnerDeletion  *bool

ManagedFieldsEntry:
    1  manager      str
    2  operation    ManagedFieldsOperationType
    3  apiVersion   str
    4  time         *time
    6  fieldsType   str
    7  fieldsV1     *raw
    8  subresource  str

ListMeta:
    1  selfLink            str
    2  resourceVersion     str
    3  continue            str
    4  remainingItemCount  *int64

LabelSelector: atomic
    1  matchLabels       {}str
    2  matchExpressions  []LabelSelectorRequirement

LabelSelectorRequirement:
    1  key       str  !
    2  operator  LabelSelectorOperator  !
    3  values    []str

FieldSelectorRequirement:
    1  key       str  !
    2  operator  FieldSelectorOperator  !
    3  values    []str

Condition:
    1  type                str  !
    2  status              ConditionStatus  !
    3  observedGeneration  int64
    4  lastTransitionTime  time  !
    5  reason              str  !
    6  message             str  !

Preconditions:
    1  uid              *UID
    2  resourceVersion  *str

DeleteOptions:
       kind                str
       apiVersion          str
    1  gracePeriodSeconds  *int64
    2  preconditions       *Preconditions
    3  orphanDependents    *bool
    4  propagationPolicy   *DeletionPropagation
    5  dryRun              []str
    6  ignoreStoreReadErrorWithClusterBreakingPotential  *bool
"""
