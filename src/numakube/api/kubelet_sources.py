"""The files in which administrators keep a kubelet's configuration, read into one configuration.

* a KubeletConfiguration: the kubelet's file, a drop-in (``--config-dir``), a kubeadm patch, or the
  answer of ``/configz``;
* a KubeletConfig of OpenShift, which has one in ``spec.kubeletConfig``;
* files of systemd: variables such as ``KUBELET_EXTRA_ARGS`` (``/etc/default/kubelet``,
  ``/etc/sysconfig/kubelet``, ``/var/lib/kubelet/kubeadm-flags.env``), and the kubelet's unit.

Later files win over earlier ones, and flags over all files, as in the kubelet. A kubelet ignores a
field that it does not know, and then aligns nothing; so a misspelled field is an error here.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.kubelet_flags import arguments_in, configuration, read_flags
from numakube.api.yaml_text import load_yaml
from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.kubelet_flags import KubeletFlags, Tree


OPENSHIFT_KIND: Final = "KubeletConfig"

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


@dataclass(frozen=True, slots=True)
class KubeletSource:
    """What one file says: fields of a configuration, or arguments of the command line.

    Attributes:
        unknown: fields that the kubelet does not know and passes over.
    """

    tree: Tree = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_source(text: str, subject: str) -> KubeletSource:
    """Return what a file says.

    Raises:
        MalformedObject: it is none of the kinds that we know, or a field is misspelled.
    """
    arguments = arguments_in(text, subject)
    if arguments is not None:
        return KubeletSource(arguments=arguments)
    tree: Any = load_yaml(text, subject) or {}
    if isinstance(tree, dict) and tree.get("kind") == OPENSHIFT_KIND:
        tree = (tree.get("spec") or {}).get("kubeletConfig") or {}
    unknown = check_fields(tree, subject)
    tree = tree.get("kubeletconfig", tree)
    convert(KubeletConfiguration, tree, subject)
    return KubeletSource(tree=tree, unknown=unknown)


def merged(sources: Iterable[KubeletSource]) -> KubeletConfiguration:
    """Return what *sources*, in the order in which the kubelet reads them, add up to."""
    known = tuple(sources)
    return configuration((one.tree for one in known), flags_in(known))


def flags_in(sources: Iterable[KubeletSource]) -> KubeletFlags:
    """Return the flags that *sources* have together."""
    return read_flags([argument for one in sources for argument in one.arguments])


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
