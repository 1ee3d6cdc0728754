"""Types of volumes and of storage.

Types of ``storage.k8s.io/v1``.

Types of ``core/v1``: volumes of pods, persistent volumes and their claims.
"""

from __future__ import annotations

from typing import Final

STORAGE: Final = """
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


CORE_VOLUMES: Final = """
= str: HostPathType StorageMedium AzureDataDiskCachingMode AzureDataDiskKind
= str: PersistentVolumeAccessMode
= str: PersistentVolumeReclaimPolicy PersistentVolumePhase PersistentVolumeClaimPhase
= str: PersistentVolumeClaimConditionType ClaimResourceStatus
= str: PersistentVolumeClaimModifyVolumeStatus

Volume:
    1  name  str  !
    2  ...VolumeSource

VolumeSource:
    1  hostPath               *HostPathVolumeSource
    2  emptyDir               *EmptyDirVolumeSource
    3  gcePersistentDisk      *GCEPersistentDiskVolumeSource
    4  awsElasticBlockStore   *AWSElasticBlockStoreVolumeSource
    5  gitRepo                *GitRepoVolumeSource
    6  secret                 *SecretVolumeSource
    7  nfs                    *NFSVolumeSource
    8  iscsi                  *ISCSIVolumeSource
    9  glusterfs              *GlusterfsVolumeSource
   10  persistentVolumeClaim  *PersistentVolumeClaimVolumeSource
   11  rbd                    *RBDVolumeSource
   12  flexVolume             *FlexVolumeSource
   13  cinder                 *CinderVolumeSource
   14  cephfs                 *CephFSVolumeSource
   15  flocker                *FlockerVolumeSource
   16  downwardAPI            *DownwardAPIVolumeSource
   17  fc                     *FCVolumeSource
   18  azureFile              *AzureFileVolumeSource
   19  configMap              *ConfigMapVolumeSource
   20  vsphereVolume          *VsphereVirtualDiskVolumeSource
   21  quobyte                *QuobyteVolumeSource
   22  azureDisk              *AzureDiskVolumeSource
   23  photonPersistentDisk   *PhotonPersistentDiskVolumeSource
   26  projected              *ProjectedVolumeSource
   24  portworxVolume         *PortworxVolumeSource
   25  scaleIO                *ScaleIOVolumeSource
   27  storageos              *StorageOSVolumeSource
   28  csi                    *CSIVolumeSource
   29  ephemeral              *EphemeralVolumeSource
   30  image                  *ImageVolumeSource

HostPathVolumeSource:
    1  path  str  !
    2  type  *HostPathType

EmptyDirVolumeSource:
    1  medium     StorageMedium
    2  sizeLimit  *quantity

GCEPersistentDiskVolumeSource:
    1  pdName     str  !
    2  fsType     str
    3  partition  int32
    4  readOnly   bool

AWSElasticBlockStoreVolumeSource:
    1  volumeID   str  !
    2  fsType     str
    3  partition  int32
    4  readOnly   bool

GitRepoVolumeSource:
    1  repository  str  !
    2  revision    str
    3  directory   str

SecretVolumeSource:
    1  secretName   str
    2  items        []KeyToPath
    3  defaultMode  *int32
    4  optional     *bool

KeyToPath:
    1  key   str  !
    2  path  str  !
    3  mode  *int32

NFSVolumeSource:
    1  server    str  !
    2  path      str  !
    3  readOnly  bool

ISCSIVolumeSource:
    1  targetPortal       str  !
    2  iqn                str  !
    3  lun                int32  !
    4  iscsiInterface     str  default=default
    5  fsType             str
    6  readOnly           bool
    7  portals            []str
    8  chapAuthDiscovery  bool
   11  chapAuthSession    bool
   10  secretRef          *LocalObjectReference
   12  initiatorName      *str

GlusterfsVolumeSource:
    1  endpoints  str  !
    2  path       str  !
    3  readOnly   bool

PersistentVolumeClaimVolumeSource:
    1  claimName  str  !
    2  readOnly   bool

RBDVolumeSource:
    1  monitors   []str  !
    2  image      str  !
    3  fsType     str
    4  pool       str  default=rbd
    5  user       str  default=admin
    6  keyring    str  default=/etc/ceph/keyring
    7  secretRef  *LocalObjectReference
    8  readOnly   bool

FlexVolumeSource:
    1  driver     str  !
    2  fsType     str
    3  secretRef  *LocalObjectReference
    4  readOnly   bool
    5  options    {}str

CinderVolumeSource:
    1  volumeID   str  !
    2  fsType     str
    3  readOnly   bool
    4  secretRef  *LocalObjectReference

CephFSVolumeSource:
    1  monitors    []str  !
    2  path        str
    3  user        str
    4  secretFile  str
    5  secretRef   *LocalObjectReference
    6  readOnly    bool

FlockerVolumeSource:
    1  datasetName  str
    2  datasetUUID  str

DownwardAPIVolumeSource:
    1  items        []DownwardAPIVolumeFile
    2  defaultMode  *int32

DownwardAPIVolumeFile:
    1  path              str  !
    2  fieldRef          *ObjectFieldSelector
    3  resourceFieldRef  *ResourceFieldSelector
    4  mode              *int32

FCVolumeSource:
    1  targetWWNs  []str
    2  lun         *int32
    3  fsType      str
    4  readOnly    bool
    5  wwids       []str

AzureFileVolumeSource:
    1  secretName  str  !
    2  shareName   str  !
    3  readOnly    bool

ConfigMapVolumeSource:
  1.1  name         str  default= in=LocalObjectReference
    2  items        []KeyToPath
    3  defaultMode  *int32
    4  optional     *bool

VsphereVirtualDiskVolumeSource:
    1  volumePath         str  !
    2  fsType             str
    3  storagePolicyName  str
    4  storagePolicyID    str

QuobyteVolumeSource:
    1  registry  str  !
    2  volume    str  !
    3  readOnly  bool
    4  user      str
    5  group     str
    6  tenant    str

AzureDiskVolumeSource:
    1  diskName     str  !
    2  diskURI      str  !
    3  cachingMode  *AzureDataDiskCachingMode  default=ReadWrite
    4  fsType       *str  default=ext4
    5  readOnly     *bool  default=false
    6  kind         *AzureDataDiskKind  default=Shared

PhotonPersistentDiskVolumeSource:
    1  pdID    str  !
    2  fsType  str

ProjectedVolumeSource:
    1  sources      []VolumeProjection  +
    2  defaultMode  *int32

VolumeProjection:
    1  secret               *SecretProjection
    2  downwardAPI          *DownwardAPIProjection
    3  configMap            *ConfigMapProjection
    4  serviceAccountToken  *ServiceAccountTokenProjection
    5  clusterTrustBundle   *ClusterTrustBundleProjection
    6  podCertificate       *PodCertificateProjection

SecretProjection:
  1.1  name      str  default= in=LocalObjectReference
    2  items     []KeyToPath
    4  optional  *bool

DownwardAPIProjection:
    1  items  []DownwardAPIVolumeFile

ConfigMapProjection:
  1.1  name      str  default= in=LocalObjectReference
    2  items     []KeyToPath
    4  optional  *bool

ServiceAccountTokenProjection:
    1  audience           str
    2  expirationSeconds  *int64
    3  path               str  !

ClusterTrustBundleProjection:
    1  name           *str
    2  signerName     *str
    3  labelSelector  *LabelSelector
    5  optional       *bool
    4  path           str  !

PodCertificateProjection:
    1  signerName            str
    2  keyType               str
    3  maxExpirationSeconds  *int32
    4  credentialBundlePath  str
    5  keyPath               str
    6  certificateChainPath  str
    7  userAnnotations       {}str

PortworxVolumeSource:
    1  volumeID  str  !
    2  fsType    str
    3  readOnly  bool

ScaleIOVolumeSource:
    1  gateway           str  !
    2  system            str  !
    3  secretRef         *LocalObjectReference  !
    4  sslEnabled        bool
    5  protectionDomain  str
    6  storagePool       str
    7  storageMode       str  default=ThinProvisioned
    8  volumeName        str
    9  fsType            str  default=xfs
   10  readOnly          bool

StorageOSVolumeSource:
    1  volumeName       str
    2  volumeNamespace  str
    3  fsType           str
    4  readOnly         bool
    5  secretRef        *LocalObjectReference

CSIVolumeSource:
    1  driver                str  !
    2  readOnly              *bool
    3  fsType                *str
    4  volumeAttributes      {}str
    5  nodePublishSecretRef  *LocalObjectReference

EphemeralVolumeSource:
    1  volumeClaimTemplate  *PersistentVolumeClaimTemplate

ImageVolumeSource:
    1  reference   str
    2  pullPolicy  PullPolicy

PersistentVolumeClaimTemplate:
    1  metadata  ObjectMeta
    2  spec      PersistentVolumeClaimSpec  !

kind PersistentVolume:
    2  spec    PersistentVolumeSpec
    3  status  PersistentVolumeStatus

PersistentVolumeSpec:
    1  capacity                       ResourceList
    2  ...PersistentVolumeSource
    3  accessModes                    []PersistentVolumeAccessMode
    4  claimRef                       *ObjectReference  granular
    5  persistentVolumeReclaimPolicy  PersistentVolumeReclaimPolicy
    6  storageClassName               str
    7  mountOptions                   []str
    8  volumeMode                     *PersistentVolumeMode
    9  nodeAffinity                   *VolumeNodeAffinity
   10  volumeAttributesClassName      *str

PersistentVolumeSource:
    1  gcePersistentDisk     *GCEPersistentDiskVolumeSource
    2  awsElasticBlockStore  *AWSElasticBlockStoreVolumeSource
    3  hostPath              *HostPathVolumeSource
    4  glusterfs             *GlusterfsPersistentVolumeSource
    5  nfs                   *NFSVolumeSource
    6  rbd                   *RBDPersistentVolumeSource
    7  iscsi                 *ISCSIPersistentVolumeSource
    8  cinder                *CinderPersistentVolumeSource
    9  cephfs                *CephFSPersistentVolumeSource
   10  fc                    *FCVolumeSource
   11  flocker               *FlockerVolumeSource
   12  flexVolume            *FlexPersistentVolumeSource
   13  azureFile             *AzureFilePersistentVolumeSource
   14  vsphereVolume         *VsphereVirtualDiskVolumeSource
   15  quobyte               *QuobyteVolumeSource
   16  azureDisk             *AzureDiskVolumeSource
   17  photonPersistentDisk  *PhotonPersistentDiskVolumeSource
   18  portworxVolume        *PortworxVolumeSource
   19  scaleIO               *ScaleIOPersistentVolumeSource
   20  local                 *LocalVolumeSource
   21  storageos             *StorageOSPersistentVolumeSource
   22  csi                   *CSIPersistentVolumeSource

GlusterfsPersistentVolumeSource:
    1  endpoints           str  !
    2  path                str  !
    3  readOnly            bool
    4  endpointsNamespace  *str

RBDPersistentVolumeSource:
    1  monitors   []str  !
    2  image      str  !
    3  fsType     str
    4  pool       str  default=rbd
    5  user       str  default=admin
    6  keyring    str  default=/etc/ceph/keyring
    7  secretRef  *SecretReference
    8  readOnly   bool

ISCSIPersistentVolumeSource:
    1  targetPortal       str  !
    2  iqn                str  !
    3  lun                int32  !
    4  iscsiInterface     str  default=default
    5  fsType             str
    6  readOnly           bool
    7  portals            []str
    8  chapAuthDiscovery  bool
   11  chapAuthSession    bool
   10  secretRef          *SecretReference
   12  initiatorName      *str

CinderPersistentVolumeSource:
    1  volumeID   str  !
    2  fsType     str
    3  readOnly   bool
    4  secretRef  *SecretReference

CephFSPersistentVolumeSource:
    1  monitors    []str  !
    2  path        str
    3  user        str
    4  secretFile  str
    5  secretRef   *SecretReference
    6  readOnly    bool

FlexPersistentVolumeSource:
    1  driver     str  !
    2  fsType     str
    3  secretRef  *SecretReference
    4  readOnly   bool
    5  options    {}str

AzureFilePersistentVolumeSource:
    1  secretName       str  !
    2  shareName        str  !
    3  readOnly         bool
    4  secretNamespace  *str  +

ScaleIOPersistentVolumeSource:
    1  gateway           str  !
    2  system            str  !
    3  secretRef         *SecretReference  !
    4  sslEnabled        bool
    5  protectionDomain  str
    6  storagePool       str
    7  storageMode       str  default=ThinProvisioned
    8  volumeName        str
    9  fsType            str  default=xfs
   10  readOnly          bool

LocalVolumeSource:
    1  path    str  !
    2  fsType  *str

StorageOSPersistentVolumeSource:
    1  volumeName       str
    2  volumeNamespace  str
    3  fsType           str
    4  readOnly         bool
    5  secretRef        *ObjectReference

CSIPersistentVolumeSource:
    1  driver                      str  !
    2  volumeHandle                str  !
    3  readOnly                    bool
    4  fsType                      str
    5  volumeAttributes            {}str
    6  controllerPublishSecretRef  *SecretReference
    7  nodeStageSecretRef          *SecretReference
    8  nodePublishSecretRef        *SecretReference
    9  controllerExpandSecretRef   *SecretReference
   10  nodeExpandSecretRef         *SecretReference

VolumeNodeAffinity:
    1  required  *NodeSelector

PersistentVolumeStatus:
    1  phase                    PersistentVolumePhase
    2  message                  str
    3  reason                   str
    4  lastPhaseTransitionTime  *time

kind PersistentVolumeClaim:
    2  spec    PersistentVolumeClaimSpec
    3  status  PersistentVolumeClaimStatus

PersistentVolumeClaimSpec:
    1  accessModes                []PersistentVolumeAccessMode
    4  selector                   *LabelSelector
    2  resources                  VolumeResourceRequirements
    3  volumeName                 str
    5  storageClassName           *str
    6  volumeMode                 *PersistentVolumeMode
    7  dataSource                 *TypedLocalObjectReference
    8  dataSourceRef              *TypedObjectReference
    9  volumeAttributesClassName  *str

PersistentVolumeClaimStatus:
    1  phase                             PersistentVolumeClaimPhase
    2  accessModes                       []PersistentVolumeAccessMode
    3  capacity                          ResourceList
    4  conditions                        []PersistentVolumeClaimCondition  keys=type merge=type
    5  allocatedResources                ResourceList
    7  allocatedResourceStatuses         {}ClaimResourceStatus  \
    go=map[v1.ResourceName]v1.ClaimResourceStatus
    8  currentVolumeAttributesClassName  *str
    9  modifyVolumeStatus                *ModifyVolumeStatus

PersistentVolumeClaimCondition:
    1  type                PersistentVolumeClaimConditionType  !
    2  status              ConditionStatus  !
    3  lastProbeTime       time
    4  lastTransitionTime  time
    5  reason              str
    6  message             str

ModifyVolumeStatus:
    1  targetVolumeAttributesClassName  str
    2  status                           PersistentVolumeClaimModifyVolumeStatus  !

TypedObjectReference:
    1  apiGroup   *str  +
    2  kind       str  !
    3  name       str  !
    4  namespace  *str
"""
