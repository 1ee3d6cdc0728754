"""Fields of a KubeletConfiguration that are misspelled, and files that are no such configuration.

A kubelet goes on without a field that it does not know, and then aligns nothing. Who asks what it
would do with pods wants to know.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import MalformedObject

_MODELLED: Final = KubeletConfiguration.__struct_encode_fields__
_OTHER_NAMES: Final = """
address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS
clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint
contentType cpuCFSQuota cpuCFSQuotaPeriod crashLoopBackOff enableContentionProfiling
enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
enforceNodeAllocatable eventBurst eventRecordQPS evictionMaxPodGracePeriod
evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod
failCgroupV1 failSwapOn fileCheckFrequency hairpinMode healthzBindAddress healthzPort
httpCheckFrequency imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge
imageMinimumGCAge imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeletCgroups
localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls
memorySwap memoryThrottlingFactor nodeLeaseDurationSeconds nodeStatusMaxImages
nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit
port preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved
readOnlyPort registerNode registerWithTaints registryBurst registryPullQPS resolvConf
rotateCertificates runOnce runtimeRequestTimeout seccompDefault serializeImagePulls
serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod
shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill
staticPodPath staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency
systemCgroups tlsCertFile tlsCipherSuites tlsMinVersion tlsPrivateKeyFile tracing userNamespaces
volumePluginDir volumeStatsAggPeriod
"""
_OTHERS: Final = frozenset(_OTHER_NAMES.split())
"""Fields of Kubernetes 1.35 that no resource manager reads."""

_NEAR: Final = 0.8


def check_fields(tree: Any, subject: str) -> tuple[str, ...]:  # noqa: ANN401 - any document
    """Return the fields that are not known, and look like none that matters.

    Raises:
        MalformedObject: it is another kind of object, or a field that matters is misspelled.
    """
    config = tree.get("kubeletconfig", tree) if isinstance(tree, dict) else tree
    if not isinstance(config, dict):
        raise MalformedObject(subject, "not a KubeletConfiguration")
    kind = config.get("kind", KubeletConfiguration().kind)
    if kind != KubeletConfiguration().kind:
        raise MalformedObject(subject, f"a {kind}, not a KubeletConfiguration", path="kind")
    unknown = [str(name) for name in config if name not in _OTHERS and name not in _MODELLED]
    for name in unknown:
        near = difflib.get_close_matches(name, _MODELLED, n=1, cutoff=_NEAR)
        if near:
            raise MalformedObject(subject, f"unknown field; did you mean {near[0]}?", path=name)
    return tuple(unknown)
