"""Flags and feature gates that kubelets know, by release, and what keeps one from starting.

A kubelet ends at once if its command line has a flag that it does not know or cannot read, or if
its command line or configuration names a feature gate that it does not know, or turns one over that
is locked. The tables have the names in Kubernetes 1.28 to 1.37: the flags of the kubelet's own
options and of its libraries, and the gates of Kubernetes and of the libraries in the binary.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_Table: TypeAlias = tuple[tuple[int, int, str], ...]
OLDEST: Final = 28
NEWEST: Final = 37
_NUMBER: Final = re.compile(r"-[0-9.]+")
"""The value of the flag before it."""
_SHORT: Final = "vh"
"""Flags that may be written with one dash: verbosity and help."""

_FLAGS: Final[_Table] = (
    (28, 30, "iptables-drop-bit iptables-masquerade-bit keep-terminated-pod-volumes"),
    (28, 33, "cloud-config register-schedulable"),
    (28, 34, "pod-infra-container-image"),
    (
        28,
        36,
        "application-metrics-count-limit boot-id-file container-hints containerd "
        "containerd-namespace enable-load-reader event-storage-age-limit "
        "event-storage-event-limit global-housekeeping-interval log-cadvisor-usage "
        "machine-id-file storage-driver-buffer-duration storage-driver-db "
        "storage-driver-host storage-driver-password storage-driver-secure "
        "storage-driver-table storage-driver-user",
    ),
    (
        28,
        37,
        "address allowed-unsafe-sysctls anonymous-auth authentication-token-webhook "
        "authentication-token-webhook-cache-ttl authorization-mode "
        "authorization-webhook-cache-authorized-ttl "
        "authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig cert-dir "
        "cgroup-driver cgroup-root cgroups-per-qos client-ca-file cloud-provider "
        "cluster-dns cluster-domain config config-dir container-log-max-files "
        "container-log-max-size container-runtime-endpoint contention-profiling "
        "cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy cpu-manager-policy-options "
        "cpu-manager-reconcile-period enable-controller-attach-detach "
        "enable-debugging-handlers enable-server enforce-node-allocatable event-burst "
        "event-qps eviction-hard eviction-max-pod-grace-period eviction-minimum-reclaim "
        "eviction-pressure-transition-period eviction-soft eviction-soft-grace-period "
        "exit-on-lock-contention experimental-allocatable-ignore-eviction "
        "experimental-mounter-path fail-swap-on feature-gates file-check-frequency "
        "hairpin-mode healthz-bind-address healthz-port help hostname-override "
        "housekeeping-interval http-check-frequency image-credential-provider-bin-dir "
        "image-credential-provider-config image-gc-high-threshold image-gc-low-threshold "
        "image-service-endpoint kernel-memcg-notification kube-api-burst "
        "kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig "
        "kubelet-cgroups local-storage-capacity-isolation lock-file log-flush-frequency "
        "log-json-info-buffer-size log-json-split-stream logging-format "
        "make-iptables-util-chains manifest-url manifest-url-header max-open-files max-pods "
        "maximum-dead-containers maximum-dead-containers-per-container "
        "memory-manager-policy minimum-container-ttl-duration minimum-image-ttl-duration "
        "node-ip node-labels node-status-max-images node-status-update-frequency "
        "oom-score-adj pod-cidr pod-manifest-path pod-max-pids pods-per-core port "
        "protect-kernel-defaults provider-id qos-reserved read-only-port register-node "
        "register-with-taints registry-burst registry-qps reserved-cpus reserved-memory "
        "resolv-conf root-dir rotate-certificates rotate-server-certificates runonce "
        "runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls "
        "streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved "
        "system-reserved-cgroup tls-cert-file tls-cipher-suites tls-min-version "
        "tls-private-key-file topology-manager-policy topology-manager-policy-options "
        "topology-manager-scope v version vmodule volume-plugin-dir volume-stats-agg-period",
    ),
    (30, 37, "log-text-info-buffer-size log-text-split-stream"),
    (31, 37, "fail-cgroupv1"),
)
"""The first and the last minor release, and the flags that kubelets of those know."""

_GATES: Final[_Table] = (
    (
        28,
        28,
        "CSIMigrationvSphere CronJobTimeZone DownwardAPIHugePages GRPCContainerProbe "
        "JobMutableNodeSchedulingDirectives JobTrackingWithFinalizers "
        "LegacyServiceAccountTokenNoAutoGeneration MultiCIDRRangeAllocator OpenAPIV3 "
        "ProbeTerminationGracePeriod RetroactiveDefaultStorageClass SeccompDefault "
        "TopologyManager",
    ),
    (
        28,
        29,
        "APISelfSubjectReview CSIMigrationAzureFile ExpandedDNSConfig "
        "ExperimentalHostUserNamespaceDefaulting IPTablesOwnershipCleanup "
        "KubeletPodResources KubeletPodResourcesGetAllocatable "
        "LegacyServiceAccountTokenTracking MinimizeIPTablesRestore "
        "ProxyTerminatingEndpoints RemoveSelfLink SecurityContextDeny",
    ),
    (
        28,
        30,
        "APIPriorityAndFairness CSIMigrationRBD CSINodeExpandSecret "
        "ConsistentHTTPGetHandlers CustomResourceValidationExpressions "
        "DefaultHostNetworkHostPortsInPodTemplates InTreePluginAWSUnregister "
        "InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister "
        "InTreePluginGCEUnregister InTreePluginOpenStackUnregister "
        "InTreePluginRBDUnregister InTreePluginvSphereUnregister JobReadyPods "
        "ReadWriteOncePod ServiceNodePortStaticSubrange SkipReadOnlyValidationGCE",
    ),
    (
        28,
        31,
        "CloudDualStackNodeIPs HPAContainerMetrics KMSv2 KMSv2KDF "
        "LegacyServiceAccountTokenCleanUp MinDomainsInPodTopologySpread "
        "NewVolumeManagerReconstruction NodeOutOfServiceVolumeDetach PodHostIPs "
        "ServerSideApply ServerSideFieldValidation StableLoadBalancerNodeSet "
        "ValidatingAdmissionPolicy",
    ),
    (
        28,
        32,
        "APIListChunking AdmissionWebhookMatchConditions AggregatedDiscoveryEndpoint "
        "AppArmor CPUManager DisableCloudProviders DisableKubeletCloudCredentialProviders "
        "EfficientWatchResumption JobPodFailurePolicy KubeProxyDrainingTerminatingNodes "
        "PDBUnhealthyPodEvictionPolicy PersistentVolumeLastPhaseTransitionTime "
        "RemainingItemCount VolumeCapacityPriority WatchBookmark",
    ),
    (
        28,
        33,
        "DevicePluginCDIDevices ElasticIndexedJob PodDisruptionConditions StatefulSetStartOrdinal",
    ),
    (
        28,
        34,
        "ComponentSLIs CronJobsScheduledAnnotation PodIndexLabel SizeMemoryBackedVolumes "
        "StatefulSetAutoDeletePVC",
    ),
    (
        28,
        35,
        "CSIMigrationPortworx HonorPVReclaimPolicy InTreePluginPortworxUnregister "
        "MemoryManager TopologyAwareHints WatchFromStorageWithoutResourceVersion",
    ),
    (
        28,
        36,
        "APIServerTracing AnyVolumeDataSource ConsistentListFromCache "
        "JobBackoffLimitPerIndex JobPodReplacementPolicy LogarithmicScaleDown "
        "SchedulerQueueingHints SidecarContainers",
    ),
    (
        28,
        37,
        "APIResponseCompression APIServerIdentity AllAlpha AllBeta "
        "CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions "
        "CRDValidationRatcheting CSIVolumeHealth CloudControllerManagerWebhook "
        "ClusterTrustBundle ContainerCheckpoint ContextualLogging "
        "CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DynamicResourceAllocation "
        "EventedPLEG ExecProbeTimeout GracefulNodeShutdown "
        "GracefulNodeShutdownBasedOnPodPriority HPAScaleToZero InPlacePodVerticalScaling "
        "KMSv1 KubeletCgroupDriverFromCRI KubeletInUserNamespace "
        "KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing "
        "LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions "
        "LoggingBetaOptions MatchLabelKeysInPodTopologySpread MaxUnavailableStatefulSet "
        "MemoryQoS MultiCIDRServiceAllocator NodeInclusionPolicyInPodTopologySpread "
        "NodeLogQuery NodeSwap OpenAPIEnums PodAndContainerStatsFromCRI PodDeletionCost "
        "PodReadyToStartContainersCondition PodSchedulingReadiness ProcMountType "
        "QOSReserved RecoverVolumeExpansionFailure RotateKubeletServerCertificate "
        "SELinuxMountReadWriteOncePod SeparateCacheWatchRPC StorageVersionAPI "
        "StorageVersionHash TopologyManagerPolicyAlphaOptions "
        "TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions "
        "UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy "
        "UserNamespacesSupport WatchList WinDSR WinOverlay WindowsHostNetwork",
    ),
    (29, 31, "ZeroLimitedNominalConcurrencyShares"),
    (29, 34, "AllowServiceLBStatusOnNonLB LoadBalancerIPMode UserNamespacesPodSecurityStandards"),
    (29, 35, "StructuredAuthorizationConfiguration"),
    (29, 36, "PodLifecycleSleepAction StructuredAuthenticationConfiguration"),
    (
        29,
        37,
        "ClusterTrustBundleProjection DisableNodeKubeProxyVersion ImageMaximumGCAge "
        "KubeletSeparateDiskGC MatchLabelKeysInPodAffinity NFTablesProxyMode "
        "RuntimeClassInImageCriApi SeparateTaintEvictionController ServiceAccountTokenJTI "
        "ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation "
        "ServiceAccountTokenPodNodeInfo TranslateStreamCloseWebsocketRequests "
        "VolumeAttributesClass",
    ),
    (30, 30, "OrderedNamespaceDeletion"),
    (30, 32, "AppArmorFields"),
    (30, 34, "StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks"),
    (30, 35, "ServiceTrafficDistribution"),
    (30, 36, "JobSuccessPolicy RetryGenerateName"),
    (
        30,
        37,
        "APIServingWithRoutine CustomResourceFieldSelectors InformerResourceVersion "
        "JobManagedBy MutatingAdmissionPolicy PortForwardWebsockets RecursiveReadOnlyMounts "
        "RelaxedEnvironmentVariableValidation SELinuxMount StorageNamespaceIndex "
        "StorageVersionMigrator WatchListClient",
    ),
    (31, 31, "DRAControlPlaneController"),
    (
        31,
        36,
        "AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors "
        "AuthorizeWithSelectors ResilientWatchCacheInitialization",
    ),
    (
        31,
        37,
        "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests "
        "ConcurrentWatchObjectDecode CoordinatedLeaderElection DisableAllocatorDualWrite "
        "ImageVolume ReloadKubeletServerCertificateFile ResourceHealthStatus "
        "SupplementalGroupsPolicy WatchCacheInitializationPostStartHook",
    ),
    (32, 35, "InPlacePodVerticalScalingAllocatedStatus"),
    (32, 36, "BtreeWatchCache PodLifecycleSleepActionAllowZero RelaxedDNSSearchValidation"),
    (
        32,
        37,
        "AllowOverwriteTerminationGracePeriodSeconds AllowUnsafeMalformedObjectDeletion "
        "CBORServingAndStorage ClientsAllowCBOR ClientsPreferCBOR ComponentFlagz "
        "ComponentStatusz DRAAdminAccess DRAResourceClaimDeviceStatus "
        "ExternalServiceAccountTokenSigner InPlacePodVerticalScalingExclusiveCPUs "
        "KubeletCrashLoopBackOffMax KubeletFineGrainedAuthz "
        "KubeletRegistrationGetOnExistsOnly PodLevelResources PodLogsQuerySplitStreams "
        "RemoteRequestHeaderUID SELinuxChangePolicy SchedulerAsyncPreemption "
        "ServiceAccountNodeAudienceRestriction WindowsCPUAndMemoryAffinity "
        "WindowsGracefulNodeShutdown",
    ),
    (33, 33, "LegacySidecarContainers"),
    (
        33,
        36,
        "OrderedNamespaceDeletion StreamingCollectionEncodingToJSON "
        "StreamingCollectionEncodingToProtobuf",
    ),
    (
        33,
        37,
        "AggregatedDiscoveryRemoveBetaType AllowParsingUserUIDFromCertAuth "
        "ContainerStopSignals DRADeviceTaints DRAPartitionableDevices DRAPrioritizedList "
        "DeclarativeValidation DeclarativeValidationTakeover "
        "DeploymentReplicaSetTerminatingReplicas DisableCPUQuotaWithExclusiveCPUs "
        "GitRepoVolumeDriver HPAConfigurableTolerance InOrderInformers "
        "KubeletEnsureSecretPulledImages KubeletPSI "
        "KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot "
        "MutableCSINodeAllocatableCount PodObservedGenerationTracking "
        "PodTopologyLabelsAdmission PreferSameTrafficDistribution "
        "ReduceDefaultCrashLoopBackOffDecay SchedulerPopFromBackoffQ StorageCapacityScoring "
        "StrictIPCIDRValidation",
    ),
    (34, 34, "ProbeHostPodSecurityStandards"),
    (34, 36, "PreventStaticPodAPIReferences"),
    (
        34,
        37,
        "ClearingNominatedNodeNameAfterBinding ContainerRestartRules DRAConsumableCapacity "
        "DRADeviceBindingConditions DRAExtendedResource DRASchedulerFilterTimeout "
        "DetectCacheInconsistency EnvFiles HostnameOverride "
        "InPlacePodVerticalScalingExclusiveMemory KubeletPodResourcesListUseActivePods "
        "MatchLabelKeysInPodTopologySpreadSelectorMerge NominatedNodeNameForExpectation "
        "PodCertificateRequest RelaxedServiceNameValidation SchedulerAsyncAPICalls "
        "SizeBasedListCostEstimate StructuredAuthenticationConfigurationEgressSelector "
        "TokenRequestServiceAccountUIDValidation",
    ),
    (35, 36, "GangScheduling"),
    (
        35,
        37,
        "AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking "
        "CSIServiceAccountTokenSecrets CloudControllerManagerWatchBasedRoutesReconciliation "
        "ConstrainedImpersonation DRADeviceTaintRules GenericWorkload "
        "InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling "
        "MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs "
        "MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures "
        "OpportunisticBatching RestartAllContainersOnContainerExits "
        "StructuredAuthenticationConfigurationJWKSMetrics "
        "TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport "
        "VolumeLimitScaling",
    ),
    (36, 36, "WorkloadAwarePreemption"),
    (
        36,
        37,
        "AllowServiceExternalIPs AtomicFIFO CRIListStreaming "
        "ChangeContainerStatusOnKubeletRestart ClientsAllowCARotation "
        "ClientsAllowTLSCacheGC ControllerManagerReleaseLeaderElectionLockOnExit "
        "DRAListTypeAttributes DRANodeAllocatableResources "
        "DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus "
        "DRAWorkloadResourceClaims DeclarativeValidationBeta ExtendWebSocketsToKubelet "
        "ImageVolumeWithDigest InPlacePodVerticalScalingInitContainers "
        "ManifestBasedAdmissionControlConfig NativeHistograms PLEGOnDemandRelist "
        "PersistentVolumeClaimUnusedSinceTime PodLevelResourceManagers PodsAPI "
        "ResourceHealthStatusMessage ServiceCIDRStatusFieldWiping ShardedListAndWatch "
        "StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob "
        "StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet "
        "StatefulSetSemanticRevisionComparison TopologyAwareWorkloadScheduling "
        "UnlockWhileProcessingFIFO WorkloadWithJob",
    ),
    (
        37,
        37,
        "APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup "
        "ConsistentListFromCacheSkipTimeoutFallback DRADerivedAttributes "
        "DRADeviceCompatibilityGroups DRAFractionalCapacityRange DRAOptionalNodeOperations "
        "DRAPartitionableDevicesType DefaultPodSysctls EmptyDirVolumeMode EtcdRangeStream "
        "EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources GRPCContainerProbeTLS "
        "H2CContainerProbe HPAGeneration HPAOptimizedSelectorStore HugepageAwareEviction "
        "InPlacePodVerticalScalingMemoryBackedVolumes "
        "InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath "
        "KubeProxyIPVS KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint "
        "NFTablesNetlink NodeControllerLeaseCircuitBreaker NodeLifecycleConditions "
        "PodGroupPreemptionPolicy PodLevelResourcesFixDefaulting "
        "PodLevelResourcesFixKubeletQOSClass SchedulerPreQueueingHints "
        "StaleControllerConsistencyHPA StatefulSetRecreateStrategy VolumeBindMountOptions "
        "WatchListCompression WebhookRoundTripLoadBalancing",
    ),
)
"""The same of feature gates."""

_LOCKED_ON: Final[_Table] = (
    (
        28,
        28,
        "CSIMigrationvSphere CronJobTimeZone DownwardAPIHugePages GRPCContainerProbe "
        "JobMutableNodeSchedulingDirectives JobTrackingWithFinalizers "
        "LegacyServiceAccountTokenNoAutoGeneration OpenAPIV3 ProbeTerminationGracePeriod "
        "RetroactiveDefaultStorageClass SeccompDefault TopologyManager",
    ),
    (
        28,
        29,
        "APISelfSubjectReview CSIMigrationAzureFile ExpandedDNSConfig "
        "IPTablesOwnershipCleanup KubeletPodResources KubeletPodResourcesGetAllocatable "
        "LegacyServiceAccountTokenTracking MinimizeIPTablesRestore "
        "ProxyTerminatingEndpoints RemoveSelfLink",
    ),
    (28, 31, "NodeOutOfServiceVolumeDetach ServerSideApply ServerSideFieldValidation"),
    (28, 32, "CPUManager EfficientWatchResumption WatchBookmark"),
    (
        29,
        30,
        "APIPriorityAndFairness CSINodeExpandSecret CustomResourceValidationExpressions "
        "JobReadyPods ReadWriteOncePod ServiceNodePortStaticSubrange",
    ),
    (29, 31, "KMSv2 KMSv2KDF"),
    (29, 32, "APIListChunking RemainingItemCount"),
    (30, 30, "ConsistentHTTPGetHandlers"),
    (
        30,
        31,
        "CloudDualStackNodeIPs HPAContainerMetrics LegacyServiceAccountTokenCleanUp "
        "MinDomainsInPodTopologySpread NewVolumeManagerReconstruction PodHostIPs "
        "StableLoadBalancerNodeSet ValidatingAdmissionPolicy "
        "ZeroLimitedNominalConcurrencyShares",
    ),
    (30, 32, "AdmissionWebhookMatchConditions AggregatedDiscoveryEndpoint"),
    (30, 37, "PodSchedulingReadiness"),
    (
        31,
        32,
        "AppArmor AppArmorFields DisableCloudProviders "
        "DisableKubeletCloudCredentialProviders JobPodFailurePolicy "
        "KubeProxyDrainingTerminatingNodes PDBUnhealthyPodEvictionPolicy "
        "PersistentVolumeLastPhaseTransitionTime",
    ),
    (
        31,
        33,
        "DevicePluginCDIDevices ElasticIndexedJob PodDisruptionConditions StatefulSetStartOrdinal",
    ),
    (31, 36, "LogarithmicScaleDown"),
    (
        32,
        34,
        "ComponentSLIs CronJobsScheduledAnnotation LoadBalancerIPMode PodIndexLabel "
        "SizeMemoryBackedVolumes StatefulSetAutoDeletePVC StrictCostEnforcementForVAP "
        "StrictCostEnforcementForWebhooks",
    ),
    (32, 35, "MemoryManager StructuredAuthorizationConfiguration"),
    (32, 36, "RetryGenerateName"),
    (
        32,
        37,
        "CustomResourceFieldSelectors ServiceAccountTokenJTI "
        "ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo",
    ),
    (
        33,
        35,
        "CSIMigrationPortworx HonorPVReclaimPolicy ServiceTrafficDistribution TopologyAwareHints",
    ),
    (
        33,
        36,
        "AnyVolumeDataSource BtreeWatchCache JobBackoffLimitPerIndex JobSuccessPolicy "
        "SidecarContainers",
    ),
    (
        33,
        37,
        "CPUManagerPolicyOptions CRDValidationRatcheting MatchLabelKeysInPodAffinity "
        "NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread RecursiveReadOnlyMounts "
        "ServiceAccountTokenNodeBinding",
    ),
    (34, 34, "ProbeHostPodSecurityStandards"),
    (
        34,
        36,
        "APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors "
        "AuthorizeWithSelectors ConsistentListFromCache JobPodReplacementPolicy "
        "OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero "
        "RelaxedDNSSearchValidation ResilientWatchCacheInitialization "
        "SchedulerQueueingHints StreamingCollectionEncodingToJSON "
        "StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration",
    ),
    (
        34,
        37,
        "KubeletCgroupDriverFromCRI KubeletTracing MultiCIDRServiceAllocator NodeSwap "
        "RecoverVolumeExpansionFailure RelaxedEnvironmentVariableValidation "
        "SeparateTaintEvictionController WinDSR WinOverlay",
    ),
    (
        35,
        37,
        "AggregatedDiscoveryRemoveBetaType DisableAllocatorDualWrite "
        "DynamicResourceAllocation ExecProbeTimeout ImageMaximumGCAge "
        "InPlacePodVerticalScaling JobManagedBy PodObservedGenerationTracking "
        "PreferSameTrafficDistribution SupplementalGroupsPolicy",
    ),
    (
        36,
        37,
        "CSIServiceAccountTokenSecrets DRAAdminAccess DeclarativeValidation "
        "DisableNodeKubeProxyVersion ExternalServiceAccountTokenSigner ImageVolume "
        "InOrderInformers KubeletFineGrainedAuthz KubeletPSI "
        "KubeletPodResourcesDynamicResources KubeletPodResourcesGet "
        "MutableCSINodeAllocatableCount NodeLogQuery ProcMountType SELinuxChangePolicy "
        "SELinuxMountReadWriteOncePod TopologyManagerPolicyOptions UserNamespacesSupport "
        "VolumeAttributesClass",
    ),
    (
        37,
        37,
        "DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus "
        "DisableCPUQuotaWithExclusiveCPUs HPAConfigurableTolerance HostnameOverride "
        "InPlacePodVerticalScalingInitContainers NodeDeclaredFeatures PLEGOnDemandRelist "
        "PodReadyToStartContainersCondition RelaxedServiceNameValidation "
        "WatchCacheInitializationPostStartHook",
    ),
)
"""Gates that cannot be turned off any more."""

_LOCKED_OFF: Final[_Table] = (
    (28, 29, "ExperimentalHostUserNamespaceDefaulting"),
    (32, 34, "AllowServiceLBStatusOnNonLB"),
    (33, 35, "WatchFromStorageWithoutResourceVersion"),
    (35, 37, "AllowOverwriteTerminationGracePeriodSeconds"),
    (36, 37, "GitRepoVolumeDriver SeparateCacheWatchRPC"),
    (37, 37, "DeclarativeValidationTakeover"),
)
"""Gates that cannot be turned on any more."""


def bad_flags(arguments: Sequence[str], minor: int | None) -> Iterator[str]:
    """Yield what a kubelet of release 1.*minor* cannot read of its command line.

    Without a known release, only what none of them can read is certain, and the rest is said so.
    """
    for argument in (one for one in arguments if not _NUMBER.fullmatch(one)):
        name = argument.lstrip("-").partition("=")[0].replace("_", "-")
        dashes = len(argument) - len(argument.lstrip("-"))
        if argument == "--":
            return
        if dashes > 2 or (dashes and not name):
            yield f"{argument}: bad flag syntax"
        elif dashes == 1 and name[:1] not in _SHORT:
            yield f"{argument}: unknown shorthand flag; long flags have two dashes"
        elif dashes == 2:
            yield from _unknown(f"--{name}", "flag", _releases(_FLAGS, name), minor, _FLAGS)


def is_gate(name: str) -> bool:
    """Tell whether some release has the feature gate *name*; all components share their names."""
    return bool(_releases(_GATES, name))


def bad_gates(gates: Mapping[str, bool], minor: int | None) -> Iterator[str]:
    """Yield which feature *gates* a kubelet of release 1.*minor* refuses."""
    for name, on in gates.items():
        known = _releases(_GATES, name)
        trouble = list(_unknown(name, "feature gate", known, minor, _GATES))
        yield from trouble
        locked = _releases(_LOCKED_OFF if on else _LOCKED_ON, name)
        if not trouble and locked and (minor in locked or (minor is None and locked >= known)):
            yield f"feature gate {name} is locked to {str(not on).lower()}"


def _releases(table: _Table, name: str) -> set[int]:
    """Return the minor releases for which *table* has *name*."""
    return {
        minor
        for first, last, names in table
        if name in names.split()
        for minor in range(first, last + 1)
    }


def _unknown(
    name: str, what: str, known: set[int], minor: int | None, table: _Table
) -> Iterator[str]:
    if minor in known or (minor is None and len(known) == NEWEST - OLDEST + 1):
        return
    if not known:
        near = get_close_matches(name.lstrip("-"), _names(table), n=1, cutoff=0.8)
        hint = f"; did you mean {'--' * (what == 'flag')}{near[0]}?" if near else ""
        yield f"unknown {what} {name}{hint}"
        return
    since = f"from 1.{min(known)} " if min(known) > OLDEST else ""
    until = f"up to 1.{max(known)} " if max(known) < NEWEST else ""
    if minor is None:
        yield f"{what} {name} is known {since}{until}only, and the kubelet's version is not known"
    else:
        yield f"unknown {what} {name} in Kubernetes 1.{minor}: it is known {since}{until}only"


def _names(table: _Table) -> Iterable[str]:
    return (name for _, _, names in table for name in names.split())
