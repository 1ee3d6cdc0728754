"""The exporter's settings, under the names that users of both existing agents know.

Flags and keys are those of the Resource Topology Exporter (RTE) where it has them, and of NFD's
topology-updater where only that has them. What is new here
has names of its own: staleness, exact data, dry runs.
"""

from __future__ import annotations

from typing import Final

import click

from numakube.apps.exporter.inputs import EXCLUSIVE_PODS, METHODS, Accounting
from numakube.apps.host.certificates import VERSIONS
from numakube.apps.host.common_settings import CONNECTION, LOGS
from numakube.apps.host.settings import DURATION, Setting, Settings

DISABLED: Final = "disabled"
LOCAL: Final = "local"
HTTP: Final = "http"
HTTPS: Final = "httptls"
METRICS_MODES: Final = (DISABLED, LOCAL, HTTP, HTTPS)

DEFAULT_STATE_DIR: Final = "/var/lib/kubelet"
DEFAULT_SOCKET: Final = f"unix://{DEFAULT_STATE_DIR}/pod-resources/kubelet.sock"

_PUBLISHING: Final = (
    Setting(
        name="node_name",
        flag="--hostname",
        metavar="NODE",
        key="nrtUpdater.hostname",
        env="NODE_NAME",
        help="Name of the node and of its object; by default that of the host.",
    ),
    Setting(
        name="oneshot",
        flag="--oneshot/--no-oneshot",
        default=False,
        key="nrtUpdater.oneShot",
        help="Publish once and exit.",
    ),
    Setting(
        name="no_publish",
        flag="--no-publish/--publish",
        default=False,
        key="nrtUpdater.noPublish",
        help="Scan, but write no object.",
    ),
    Setting(
        name="owner",
        flag="--add-nrt-owner/--no-add-nrt-owner",
        default=True,
        key="topologyExporter.addNRTOwnerEnable",
        help="Let the object vanish with its Node.",
    ),
    Setting(
        name="resync",
        flag="--patch-resync",
        type=click.INT,
        default=10,
        key="nrtUpdater.patchResync",
        help="Compare with the object on the server every so many writes; 0 or less: never.",
    ),
    Setting(
        name="stale_after",
        flag="--stale-after",
        type=DURATION,
        default=10.0,
        key="nrtUpdater.staleAfter",
        help="Mark the object stale when the kubelet has not answered for so long.",
    ),
    Setting(
        name="expose_timing",
        flag="--expose-timing/--no-expose-timing",
        default=False,
        key="resourceMonitor.exposeTiming",
        help="Annotate the object with the pauses between updates.",
    ),
)

_READING: Final = (
    Setting(
        name="sysfs",
        flag="--sysfs",
        metavar="DIR",
        default="/sys",
        key="resourceMonitor.sysfsRoot",
        help="Where the machine is described.",
    ),
    Setting(
        name="socket",
        flag="--podresources-socket",
        metavar="SOCKET",
        default=DEFAULT_SOCKET,
        key="topologyExporter.podResourcesSocketPath",
        help="The kubelet's PodResources: a path, unix:///path, or fake:///dir with answers.",
    ),
    Setting(
        name="state_dir",
        flag="--kubelet-state-dir",
        metavar="DIR",
        default=DEFAULT_STATE_DIR,
        key="topologyExporter.kubeletStateDir",
        help="The kubelet's state files, read and watched; empty: neither.",
    ),
    Setting(
        name="kubelet_config_file",
        flag="--kubelet-config-file",
        metavar="FILE",
        default=f"{DEFAULT_STATE_DIR}/config.yaml",
        key="topologyExporter.kubeletConfigFile",
        help="The kubelet's configuration; without it, its /configz is asked.",
    ),
    Setting(
        name="procfs",
        flag="--procfs",
        metavar="DIR",
        key="topologyExporter.procfsRoot",
        help="The host's processes, to find the running kubelet's command line; empty: do not.",
    ),
    Setting(
        name="kubelet_config_uri",
        flag="--kubelet-config-uri",
        metavar="URI",
        key="topologyExporter.kubeletConfigURI",
        help="Where else it is: file:///path, or https://host:10250/configz.",
    ),
    Setting(
        name="token_file",
        flag="--api-auth-token-file",
        metavar="FILE",
        default="/var/run/secrets/kubernetes.io/serviceaccount/token",
        key="topologyExporter.apiAuthTokenFile",
        help="Bearer token for the kubelet's own address.",
    ),
    Setting(
        name="policy",
        flag="--topology-manager-policy",
        key="kubelet.topologyManagerPolicy",
        env="TOPOLOGY_MANAGER_POLICY",
        help="Say so instead of reading it.",
    ),
    Setting(
        name="scope",
        flag="--topology-manager-scope",
        key="kubelet.topologyManagerScope",
        env="TOPOLOGY_MANAGER_SCOPE",
        help="Say so instead of reading it.",
    ),
    Setting(
        name="watch_pods",
        flag="--watch-pods/--no-watch-pods",
        default=True,
        key="resourceMonitor.watchPods",
        help="Watch the node's pods in the API, for their uids and for those that are done.",
    ),
)

_CONTENT: Final = (
    Setting(
        name="watch_namespace",
        flag="--watch-namespace",
        metavar="NAMESPACE",
        key="resourceMonitor.namespace",
        help="Count only pods of this namespace; `*` or nothing: all.",
    ),
    Setting(
        name="reference_container",
        flag="--reference-container",
        metavar="NAMESPACE/POD/CONTAINER",
        key="topologyExporter.referenceContainer",
        help="Its CPUs are the shared pool.",
    ),
    Setting(
        name="reserved_cpus",
        flag="--reserved-cpus",
        metavar="CPUS",
        key="resourceMonitor.reservedCPUs",
        help="Count these CPUs, such as 0-1,64, as not allocatable, besides the kubelet's own.",
    ),
    Setting(
        name="exclude_terminal_pods",
        flag="--exclude-terminal-pods/--no-exclude-terminal-pods",
        default=True,
        key="resourceMonitor.excludeTerminalPods",
        help="Leave out pods that are done but still listed by kubelets before 1.34.",
    ),
    Setting(
        name="fingerprint",
        flag="--pods-fingerprint/--no-pods-fingerprint",
        default=True,
        key="resourceMonitor.podSetFingerprint",
        help="Publish the fingerprint of the pods.",
    ),
    Setting(
        name="fingerprint_method",
        flag="--pods-fingerprint-method",
        type=click.Choice(METHODS, case_sensitive=False),
        default=EXCLUSIVE_PODS,
        key="resourceMonitor.podSetFingerprintMethod",
        help="Which pods it covers.",
    ),
    Setting(
        name="fingerprint_file",
        flag="--pods-fingerprint-status-file",
        metavar="FILE",
        key="resourceMonitor.podSetFingerprintStatusFile",
        env="PFP_STATUS_FILE",
        help="Keep the pods behind the last fingerprint in this file.",
    ),
    Setting(
        name="fingerprint_dir",
        flag="--pods-fingerprint-status-dir",
        metavar="DIR",
        key="resourceMonitor.podSetFingerprintStatusDir",
        env="PFP_STATUS_DUMP",
        help="Keep the pods behind the last ten fingerprints in a file of this folder.",
    ),
    Setting(
        name="numa_placement",
        flag="--numa-placement/--no-numa-placement",
        default=True,
        key="resourceMonitor.numaPlacement",
        help="Publish where each container is, as RTE does from v0.25 on.",
    ),
    Setting(
        name="exact",
        flag="--exact/--no-exact",
        default=True,
        key="resourceMonitor.exact",
        help="Publish free CPUs, memory and devices by id, for numakube's scheduler.",
    ),
    Setting(
        name="koordinator",
        flag="--koordinator/--no-koordinator",
        default=False,
        key="resourceMonitor.koordinator",
        help="Also publish CPU topology and shared pools in annotations, as koordlet does.",
    ),
    Setting(
        name="accounting",
        flag="--accounting",
        type=click.Choice([str(one) for one in Accounting]),
        default=str(Accounting.KUBELET),
        key="resourceMonitor.accounting",
        help="Count as the kubelet does, or as RTE with its double counting.",
    ),
    Setting(
        name="refresh",
        flag="--refresh-node-resources/--no-refresh-node-resources",
        default=True,
        key="resourceMonitor.refreshNodeResources",
        help="Ask for allocatable resources at every scan, not only when the kubelet starts.",
    ),
)

_WAKING: Final = (
    Setting(
        name="period",
        flag="--sleep-interval",
        type=DURATION,
        default=60.0,
        key="topologyExporter.sleepInterval",
        help="Scan at least so often; 0: only on changes.",
    ),
    Setting(
        name="notify_file",
        flag="--notify-file",
        metavar="FILE",
        key="topologyExporter.notifyFilePath",
        help="Scan when this file is touched.",
    ),
    Setting(
        name="max_events",
        flag="--max-events-per-second",
        type=click.INT,
        default=5,
        key="topologyExporter.maxEventPerTimeUnit",
        help="Scan so often at most, after a burst of ten; 0: no limit.",
    ),
    Setting(
        name="time_unit",
        flag="--time-unit-to-limit-events",
        type=DURATION,
        default=1.0,
        key="topologyExporter.timeUnitToLimitEvents",
        help="What --max-events-per-second counts in, if not seconds.",
    ),
)

_OWN_POD: Final = (
    Setting(
        name="conditions",
        flag="--podreadiness/--no-podreadiness",
        default=True,
        key="topologyExporter.podReadinessEnable",
        help="Set conditions on the exporter's own pod, if its name is known.",
    ),
    Setting(
        name="pod_namespace",
        flag="--pod-namespace",
        metavar="NAMESPACE",
        env="REFERENCE_NAMESPACE",
        help="Namespace of the exporter's own pod.",
    ),
    Setting(
        name="pod_name",
        flag="--pod-name",
        metavar="POD",
        env="REFERENCE_POD_NAME",
        help="Name of the exporter's own pod.",
    ),
)

_METRICS: Final = (
    Setting(
        name="metrics_mode",
        flag="--metrics-mode",
        type=click.Choice(METRICS_MODES, case_sensitive=False),
        default=LOCAL,
        key="topologyExporter.metricsMode",
        help="Serve health and metrics: not, on loopback, over HTTP, over HTTPS.",
    ),
    Setting(
        name="metrics_address",
        flag="--metrics-ip",
        metavar="ADDRESS",
        default="127.0.0.1",
        key="topologyExporter.metricsAddress",
        env="METRICS_ADDRESS",
        help="Address to serve on.",
    ),
    Setting(
        name="metrics_port",
        flag="--metrics-port --port",
        type=click.IntRange(0, 65535),
        default=2112,
        key="topologyExporter.metricsPort",
        env="METRICS_PORT",
        help="Port to serve on; 0 takes a free one.",
    ),
    Setting(
        name="metrics_certs_dir",
        flag="--metrics-certs-dir",
        metavar="DIR",
        default="/etc/secrets/rte",
        key="topologyExporter.metricsTLS.certsDir",
        help="Folder of certificate and key.",
    ),
    Setting(
        name="metrics_cert_file",
        flag="--metrics-cert-file",
        metavar="FILE",
        default="tls.crt",
        key="topologyExporter.metricsTLS.certFile",
        help="Certificate in that folder.",
    ),
    Setting(
        name="metrics_key_file",
        flag="--metrics-key-file",
        metavar="FILE",
        default="tls.key",
        key="topologyExporter.metricsTLS.keyFile",
        help="Key in that folder.",
    ),
    Setting(
        name="metrics_client_auth",
        flag="--metrics-want-cli-auth/--no-metrics-want-cli-auth",
        default=False,
        key="topologyExporter.metricsTLS.wantCliAuth",
        help="Ask clients for a certificate of --metrics-client-ca-file.",
    ),
    Setting(
        name="metrics_client_ca",
        flag="--metrics-client-ca-file",
        metavar="FILE",
        default="ca.crt",
        key="topologyExporter.metricsTLS.clientCAFile",
        help="Authority of clients, in that folder.",
    ),
    Setting(
        name="metrics_tls_version",
        flag="--metrics-tls-min-version",
        type=click.Choice(tuple(VERSIONS)),
        default="VersionTLS12",
        key="topologyExporter.metricsTLS.minTLSVersion",
        help="Least version of TLS.",
    ),
)

SETTINGS: Final = Settings(
    (
        *_PUBLISHING,
        *_READING,
        *_CONTENT,
        *_WAKING,
        *_OWN_POD,
        *_METRICS,
        *CONNECTION,
        *LOGS,
    )
)
