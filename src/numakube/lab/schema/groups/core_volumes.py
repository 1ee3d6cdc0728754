"""Types of ``core/v1``: volumes of pods, persistent volumes and their claims."""

from __future__ import annotations

from typing import Final

NAME: Final = "core.v1"

TABLE: Final = """
= str: HostPathType StorageMedium AzureDataDiskCachingMode AzureDataDiskKind
= str: PersistentVolumeAccessMode
= str: PersistentVolumeReclaimPolicy PersistentVolumePhase PersistentVolumeClaimPhase
= str: PersistentVolumeClaimConditionType ClaimResourceStatus
= str: PersistentVolumeClaimModifyVolumeStatus

Volume:
  name  str  !
  ...VolumeSource

VolumeSource:
  hostPath               *HostPathVolumeSource
  emptyDir               *EmptyDirVolumeSource
  gcePersistentDisk      *GCEPersistentDiskVolumeSource
  awsElasticBlockStore   *AWSElasticBlockStoreVolumeSource
  gitRepo                *GitRepoVolumeSource
  secret                 *SecretVolumeSource
  nfs                    *NFSVolumeSource
  iscsi                  *ISCSIVolumeSource
  glusterfs              *GlusterfsVolumeSource
  persistentVolumeClaim  *PersistentVolumeClaimVolumeSource
  rbd                    *RBDVolumeSource
  flexVolume             *FlexVolumeSource
  cinder                 *CinderVolumeSource
  cephfs                 *CephFSVolumeSource
  flocker                *FlockerVolumeSource
  downwardAPI            *DownwardAPIVolumeSource
  fc                     *FCVolumeSource
  azureFile              *AzureFileVolumeSource
  configMap              *ConfigMapVolumeSource
  vsphereVolume          *VsphereVirtualDiskVolumeSource
  quobyte                *QuobyteVolumeSource
  azureDisk              *AzureDiskVolumeSource
  photonPersistentDisk   *PhotonPersistentDiskVolumeSource
  projected              *ProjectedVolumeSource
  portworxVolume         *PortworxVolumeSource
  scaleIO                *ScaleIOVolumeSource
  storageos              *StorageOSVolumeSource
  csi                    *CSIVolumeSource
  ephemeral              *EphemeralVolumeSource
  image                  *ImageVolumeSource

HostPathVolumeSource:
  path  str  !
  type  *HostPathType

EmptyDirVolumeSource:
  medium     StorageMedium
  sizeLimit  *quantity

GCEPersistentDiskVolumeSource:
  pdName     str  !
  fsType     str
  partition  int32
  readOnly   bool

AWSElasticBlockStoreVolumeSource:
  volumeID   str  !
  fsType     str
  partition  int32
  readOnly   bool

GitRepoVolumeSource:
  repository  str  !
  revision    str
  directory   str

SecretVolumeSource:
  secretName   str
  items        []KeyToPath
  defaultMode  *int32
  optional     *bool

KeyToPath:
  key   str  !
  path  str  !
  mode  *int32

NFSVolumeSource:
  server    str  !
  path      str  !
  readOnly  bool

ISCSIVolumeSource:
  targetPortal       str  !
  iqn                str  !
  lun                int32  !
  iscsiInterface     str  default=default
  fsType             str
  readOnly           bool
  portals            []str
  chapAuthDiscovery  bool
  chapAuthSession    bool
  secretRef          *LocalObjectReference
  initiatorName      *str

GlusterfsVolumeSource:
  endpoints  str  !
  path       str  !
  readOnly   bool

PersistentVolumeClaimVolumeSource:
  claimName  str  !
  readOnly   bool

RBDVolumeSource:
  monitors   []str  !
  image      str  !
  fsType     str
  pool       str  default=rbd
  user       str  default=admin
  keyring    str  default=/etc/ceph/keyring
  secretRef  *LocalObjectReference
  readOnly   bool

FlexVolumeSource:
  driver     str  !
  fsType     str
  secretRef  *LocalObjectReference
  readOnly   bool
  options    {}str

CinderVolumeSource:
  volumeID   str  !
  fsType     str
  readOnly   bool
  secretRef  *LocalObjectReference

CephFSVolumeSource:
  monitors    []str  !
  path        str
  user        str
  secretFile  str
  secretRef   *LocalObjectReference
  readOnly    bool

FlockerVolumeSource:
  datasetName  str
  datasetUUID  str

DownwardAPIVolumeSource:
  items        []DownwardAPIVolumeFile
  defaultMode  *int32

DownwardAPIVolumeFile:
  path              str  !
  fieldRef          *ObjectFieldSelector
  resourceFieldRef  *ResourceFieldSelector
  mode              *int32

FCVolumeSource:
  targetWWNs  []str
  lun         *int32
  fsType      str
  readOnly    bool
  wwids       []str

AzureFileVolumeSource:
  secretName  str  !
  shareName   str  !
  readOnly    bool

ConfigMapVolumeSource:
  name         str  default= in=LocalObjectReference
  items        []KeyToPath
  defaultMode  *int32
  optional     *bool

VsphereVirtualDiskVolumeSource:
  volumePath         str  !
  fsType             str
  storagePolicyName  str
  storagePolicyID    str

QuobyteVolumeSource:
  registry  str  !
  volume    str  !
  readOnly  bool
  user      str
  group     str
  tenant    str

AzureDiskVolumeSource:
  diskName     str  !
  diskURI      str  !
  cachingMode  *AzureDataDiskCachingMode  default=ReadWrite
  fsType       *str  default=ext4
  readOnly     *bool  default=false
  kind         *AzureDataDiskKind  default=Shared

PhotonPersistentDiskVolumeSource:
  pdID    str  !
  fsType  str

ProjectedVolumeSource:
  sources      []VolumeProjection  +
  defaultMode  *int32

VolumeProjection:
  secret               *SecretProjection
  downwardAPI          *DownwardAPIProjection
  configMap            *ConfigMapProjection
  serviceAccountToken  *ServiceAccountTokenProjection
  clusterTrustBundle   *ClusterTrustBundleProjection
  podCertificate       *PodCertificateProjection

SecretProjection:
  name      str  default= in=LocalObjectReference
  items     []KeyToPath
  optional  *bool

DownwardAPIProjection:
  items  []DownwardAPIVolumeFile

ConfigMapProjection:
  name      str  default= in=LocalObjectReference
  items     []KeyToPath
  optional  *bool

ServiceAccountTokenProjection:
  audience           str
  expirationSeconds  *int64
  path               str  !

ClusterTrustBundleProjection:
  name           *str
  signerName     *str
  labelSelector  *LabelSelector
  optional       *bool
  path           str  !

PodCertificateProjection:
  signerName            str
  keyType               str
  maxExpirationSeconds  *int32
  credentialBundlePath  str
  keyPath               str
  certificateChainPath  str
  userAnnotations       {}str

PortworxVolumeSource:
  volumeID  str  !
  fsType    str
  readOnly  bool

ScaleIOVolumeSource:
  gateway           str  !
  system            str  !
  secretRef         *LocalObjectReference  !
  sslEnabled        bool
  protectionDomain  str
  storagePool       str
  storageMode       str  default=ThinProvisioned
  volumeName        str
  fsType            str  default=xfs
  readOnly          bool

StorageOSVolumeSource:
  volumeName       str
  volumeNamespace  str
  fsType           str
  readOnly         bool
  secretRef        *LocalObjectReference

CSIVolumeSource:
  driver                str  !
  readOnly              *bool
  fsType                *str
  volumeAttributes      {}str
  nodePublishSecretRef  *LocalObjectReference

EphemeralVolumeSource:
  volumeClaimTemplate  *PersistentVolumeClaimTemplate

ImageVolumeSource:
  reference   str
  pullPolicy  PullPolicy

PersistentVolumeClaimTemplate:
  metadata  ObjectMeta
  spec      PersistentVolumeClaimSpec  !

kind PersistentVolume:
  spec    PersistentVolumeSpec
  status  PersistentVolumeStatus

PersistentVolumeSpec:
  capacity                       ResourceList
  ...PersistentVolumeSource
  accessModes                    []PersistentVolumeAccessMode
  claimRef                       *ObjectReference  granular
  persistentVolumeReclaimPolicy  PersistentVolumeReclaimPolicy
  storageClassName               str
  mountOptions                   []str
  volumeMode                     *PersistentVolumeMode
  nodeAffinity                   *VolumeNodeAffinity
  volumeAttributesClassName      *str

PersistentVolumeSource:
  gcePersistentDisk     *GCEPersistentDiskVolumeSource
  awsElasticBlockStore  *AWSElasticBlockStoreVolumeSource
  hostPath              *HostPathVolumeSource
  glusterfs             *GlusterfsPersistentVolumeSource
  nfs                   *NFSVolumeSource
  rbd                   *RBDPersistentVolumeSource
  iscsi                 *ISCSIPersistentVolumeSource
  cinder                *CinderPersistentVolumeSource
  cephfs                *CephFSPersistentVolumeSource
  fc                    *FCVolumeSource
  flocker               *FlockerVolumeSource
  flexVolume            *FlexPersistentVolumeSource
  azureFile             *AzureFilePersistentVolumeSource
  vsphereVolume         *VsphereVirtualDiskVolumeSource
  quobyte               *QuobyteVolumeSource
  azureDisk             *AzureDiskVolumeSource
  photonPersistentDisk  *PhotonPersistentDiskVolumeSource
  portworxVolume        *PortworxVolumeSource
  scaleIO               *ScaleIOPersistentVolumeSource
  local                 *LocalVolumeSource
  storageos             *StorageOSPersistentVolumeSource
  csi                   *CSIPersistentVolumeSource

GlusterfsPersistentVolumeSource:
  endpoints           str  !
  path                str  !
  readOnly            bool
  endpointsNamespace  *str

RBDPersistentVolumeSource:
  monitors   []str  !
  image      str  !
  fsType     str
  pool       str  default=rbd
  user       str  default=admin
  keyring    str  default=/etc/ceph/keyring
  secretRef  *SecretReference
  readOnly   bool

ISCSIPersistentVolumeSource:
  targetPortal       str  !
  iqn                str  !
  lun                int32  !
  iscsiInterface     str  default=default
  fsType             str
  readOnly           bool
  portals            []str
  chapAuthDiscovery  bool
  chapAuthSession    bool
  secretRef          *SecretReference
  initiatorName      *str

CinderPersistentVolumeSource:
  volumeID   str  !
  fsType     str
  readOnly   bool
  secretRef  *SecretReference

CephFSPersistentVolumeSource:
  monitors    []str  !
  path        str
  user        str
  secretFile  str
  secretRef   *SecretReference
  readOnly    bool

FlexPersistentVolumeSource:
  driver     str  !
  fsType     str
  secretRef  *SecretReference
  readOnly   bool
  options    {}str

AzureFilePersistentVolumeSource:
  secretName       str  !
  shareName        str  !
  readOnly         bool
  secretNamespace  *str  +

ScaleIOPersistentVolumeSource:
  gateway           str  !
  system            str  !
  secretRef         *SecretReference  !
  sslEnabled        bool
  protectionDomain  str
  storagePool       str
  storageMode       str  default=ThinProvisioned
  volumeName        str
  fsType            str  default=xfs
  readOnly          bool

LocalVolumeSource:
  path    str  !
  fsType  *str

StorageOSPersistentVolumeSource:
  volumeName       str
  volumeNamespace  str
  fsType           str
  readOnly         bool
  secretRef        *ObjectReference

CSIPersistentVolumeSource:
  driver                      str  !
  volumeHandle                str  !
  readOnly                    bool
  fsType                      str
  volumeAttributes            {}str
  controllerPublishSecretRef  *SecretReference
  nodeStageSecretRef          *SecretReference
  nodePublishSecretRef        *SecretReference
  controllerExpandSecretRef   *SecretReference
  nodeExpandSecretRef         *SecretReference

VolumeNodeAffinity:
  required  *NodeSelector

PersistentVolumeStatus:
  phase                    PersistentVolumePhase
  message                  str
  reason                   str
  lastPhaseTransitionTime  *time

kind PersistentVolumeClaim:
  spec    PersistentVolumeClaimSpec
  status  PersistentVolumeClaimStatus

PersistentVolumeClaimSpec:
  accessModes                []PersistentVolumeAccessMode
  selector                   *LabelSelector
  resources                  VolumeResourceRequirements
  volumeName                 str
  storageClassName           *str
  volumeMode                 *PersistentVolumeMode
  dataSource                 *TypedLocalObjectReference
  dataSourceRef              *TypedObjectReference
  volumeAttributesClassName  *str

PersistentVolumeClaimStatus:
  phase                             PersistentVolumeClaimPhase
  accessModes                       []PersistentVolumeAccessMode
  capacity                          ResourceList
  conditions                        []PersistentVolumeClaimCondition  keys=type merge=type
  allocatedResources                ResourceList
  allocatedResourceStatuses         {}ClaimResourceStatus  \
    go=map[v1.ResourceName]v1.ClaimResourceStatus
  currentVolumeAttributesClassName  *str
  modifyVolumeStatus                *ModifyVolumeStatus

PersistentVolumeClaimCondition:
  type                PersistentVolumeClaimConditionType  !
  status              ConditionStatus  !
  lastProbeTime       time
  lastTransitionTime  time
  reason              str
  message             str

ModifyVolumeStatus:
  targetVolumeAttributesClassName  str
  status                           PersistentVolumeClaimModifyVolumeStatus  !

TypedObjectReference:
  apiGroup   *str  +
  kind       str  !
  name       str  !
  namespace  *str
"""
