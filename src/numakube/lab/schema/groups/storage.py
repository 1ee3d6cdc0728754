"""Types of ``storage.k8s.io/v1``."""

from __future__ import annotations

from typing import Final

NAME: Final = "storage.v1"

TABLE: Final = """
= str: VolumeBindingMode VolumeLifecycleMode FSGroupPolicy

kind StorageClass:
  provisioner           str  !
  parameters            {}str
  reclaimPolicy         *core.PersistentVolumeReclaimPolicy
  mountOptions          []str
  allowVolumeExpansion  *bool
  volumeBindingMode     *VolumeBindingMode
  allowedTopologies     []core.TopologySelectorTerm

kind VolumeAttachment:
  spec    VolumeAttachmentSpec  !
  status  VolumeAttachmentStatus

VolumeAttachmentSpec:
  attacher  str  !
  source    VolumeAttachmentSource  !
  nodeName  str  !

VolumeAttachmentSource:
  persistentVolumeName  *str
  inlineVolumeSpec      *core.PersistentVolumeSpec

VolumeAttachmentStatus:
  attached            bool  !
  attachmentMetadata  {}str
  attachError         *VolumeError
  detachError         *VolumeError

VolumeError:
  time       time
  message    str
  errorCode  *int32

kind CSIDriver:
  spec  CSIDriverSpec  !

CSIDriverSpec:
  attachRequired                      *bool
  podInfoOnMount                      *bool
  volumeLifecycleModes                []VolumeLifecycleMode  set
  storageCapacity                     *bool
  fsGroupPolicy                       *FSGroupPolicy
  tokenRequests                       []TokenRequest
  requiresRepublish                   *bool
  seLinuxMount                        *bool
  nodeAllocatableUpdatePeriodSeconds  *int64
  serviceAccountTokenInSecrets        *bool

TokenRequest:
  audience           str  !
  expirationSeconds  *int64

kind CSINode:
  spec  CSINodeSpec  !

CSINodeSpec:
  drivers  []CSINodeDriver  ! keys=name merge=name

CSINodeDriver:
  name          str  !
  nodeID        str  !
  topologyKeys  []str  +
  allocatable   *VolumeNodeResources

VolumeNodeResources:
  count  *int32

kind CSIStorageCapacity:
  nodeTopology       *LabelSelector
  storageClassName   str  !
  capacity           *quantity
  maximumVolumeSize  *quantity

kind VolumeAttributesClass:
  driverName  str  !
  parameters  {}str
"""
