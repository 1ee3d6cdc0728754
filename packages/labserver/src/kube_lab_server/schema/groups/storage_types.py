"""Types of ``storage.k8s.io/v1``."""

from __future__ import annotations

from typing import Final

TABLE: Final = """
= str: VolumeBindingMode VolumeLifecycleMode FSGroupPolicy

kind StorageClass:
    2  provisioner           str  !
    3  parameters            {}str
    4  reclaimPolicy         *core.PersistentVolumeReclaimPolicy
    5  mountOptions          []str
    6  allowVolumeExpansion  *bool
    7  volumeBindingMode     *VolumeBindingMode
    8  allowedTopologies     []core.TopologySelectorTerm

kind VolumeAttachment:
    2  spec    VolumeAttachmentSpec  !
    3  status  VolumeAttachmentStatus

VolumeAttachmentSpec:
    1  attacher  str  !
    2  source    VolumeAttachmentSource  !
    3  nodeName  str  !

VolumeAttachmentSource:
    1  persistentVolumeName  *str
    2  inlineVolumeSpec      *core.PersistentVolumeSpec

VolumeAttachmentStatus:
    1  attached            bool  !
    2  attachmentMetadata  {}str
    3  attachError         *VolumeError
    4  detachError         *VolumeError

VolumeError:
    1  time       time
    2  message    str
    3  errorCode  *int32

kind CSIDriver:
    2  spec  CSIDriverSpec  !

CSIDriverSpec:
    1  attachRequired                      *bool
    2  podInfoOnMount                      *bool
    3  volumeLifecycleModes                []VolumeLifecycleMode  set
    4  storageCapacity                     *bool
    5  fsGroupPolicy                       *FSGroupPolicy
    6  tokenRequests                       []TokenRequest
    7  requiresRepublish                   *bool
    8  seLinuxMount                        *bool
    9  nodeAllocatableUpdatePeriodSeconds  *int64
   10  serviceAccountTokenInSecrets        *bool

TokenRequest:
    1  audience           str  !
    2  expirationSeconds  *int64

kind CSINode:
    2  spec  CSINodeSpec  !

CSINodeSpec:
    1  drivers  []CSINodeDriver  ! keys=name merge=name

CSINodeDriver:
    1  name          str  !
    2  nodeID        str  !
    3  topologyKeys  []str  +
    4  allocatable   *VolumeNodeResources

VolumeNodeResources:
    1  count  *int32

kind CSIStorageCapacity:
    2  nodeTopology       *LabelSelector
    3  storageClassName   str  !
    4  capacity           *quantity
    5  maximumVolumeSize  *quantity

kind VolumeAttributesClass:
    2  driverName  str  !
    3  parameters  {}str
"""
