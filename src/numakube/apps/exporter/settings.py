"""The exporter's settings, under the names that users of both existing agents know.

Flags and keys are those of the Resource Topology Exporter (RTE) where it has them, and of NFD's
topology-updater where only that has them. What is new here
has names of its own: staleness, exact data, dry runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from numakube.apps.exporter.report_options import EXCLUSIVE_PODS, METHODS, Accounting
from numakube.apps.host.common_settings import ConnectionSettings, LogSettings
from numakube.apps.host.http_serving import VERSIONS
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.programs import PROGRAMS

DISABLED: Final = "disabled"
LOCAL: Final = "local"
HTTP: Final = "http"
HTTPS: Final = "httptls"
YAML, JSON = "yaml", "json"
DUMP_TO_LOG: Final = ".log"
DUMP_AND_EXIT: Final = ".andexit"
METRICS_MODES: Final = (DISABLED, LOCAL, HTTP, HTTPS)

DEFAULT_STATE_DIR: Final = "/var/lib/kubelet"
DEFAULT_SOCKET: Final = f"unix://{DEFAULT_STATE_DIR}/pod-resources/kubelet.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What is to be done now; not part of the configuration."""

    roots: tuple[str, ...] = setting("", multiple=True, default=(), metavar="[ROOT]")
    config: str = setting("--config", metavar="FILE", help="A configuration file.")
    dry_run: bool = setting(
        "--dry-run", default=False, help="Print what would be written, and exit."
    )
    no_kubelet: bool = setting(
        "--no-kubelet", default=False, help="With --dry-run: read sysfs, do not ask the kubelet."
    )
    output: str = setting(
        "-o --output",
        type=click.Choice((YAML, JSON)),
        default=YAML,
        help="Output format of a dry run.",
    )
    dump_config: str = setting(
        "--dump-config",
        metavar="FILE",
        help=f"Write all settings to FILE; - prints, {DUMP_TO_LOG} logs, {DUMP_AND_EXIT} prints"
        " and ends.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingSettings:
    """What is published, and how often it is compared."""

    node_name: str = setting(
        "--hostname",
        key="nrtUpdater.hostname",
        env="NODE_NAME",
        metavar="NODE",
        help="Name of the node and of its object; by default the name of the host.",
    )
    oneshot: bool = setting(
        "--oneshot/--no-oneshot",
        default=False,
        key="nrtUpdater.oneShot",
        help="Publish once and exit.",
    )
    no_publish: bool = setting(
        "--no-publish/--publish",
        default=False,
        key="nrtUpdater.noPublish",
        help="Scan, but write no object.",
    )
    owner: bool = setting(
        "--add-nrt-owner/--no-add-nrt-owner",
        default=True,
        key="topologyExporter.addNRTOwnerEnable",
        help="Delete the object together with its Node.",
    )
    resync: int = setting(
        "--patch-resync",
        type=click.INT,
        default=10,
        key="nrtUpdater.patchResync",
        help="Writes after which to compare with the object on the server; 0 or less: never.",
    )
    stale_after: float = setting(
        "--stale-after",
        type=DURATION,
        default=10.0,
        key="nrtUpdater.staleAfter",
        help="Mark the object stale when the kubelet has not answered for this time.",
    )
    max_silence: float = setting(
        "--max-silence",
        type=DURATION,
        default=0.0,
        key="nrtUpdater.maxSilence",
        help="How long not to write what the scheduler foresaw; 0: write every change.",
    )
    expose_timing: bool = setting(
        "--expose-timing/--no-expose-timing",
        default=False,
        key="resourceMonitor.exposeTiming",
        help="Annotate the object with the pauses between updates.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """Where the machine and the kubelet are read."""

    sysfs: str = setting(
        "--sysfs",
        default="/sys",
        key="resourceMonitor.sysfsRoot",
        metavar="DIR",
        help="Where the machine is described.",
    )
    socket: str = setting(
        "--podresources-socket",
        default=DEFAULT_SOCKET,
        key="topologyExporter.podResourcesSocketPath",
        metavar="SOCKET",
        help="The kubelet's PodResources: a path, unix:///path, or fake:///dir with answers.",
    )
    state_dir: str = setting(
        "--kubelet-state-dir",
        default=DEFAULT_STATE_DIR,
        key="topologyExporter.kubeletStateDir",
        metavar="DIR",
        help="The kubelet's state files, which are read and watched; empty: not used.",
    )
    kubelet_config_file: str = setting(
        "--kubelet-config-file",
        default=f"{DEFAULT_STATE_DIR}/config.yaml",
        key="topologyExporter.kubeletConfigFile",
        metavar="FILE",
        help="The kubelet's configuration; if it is missing, /configz is used.",
    )
    procfs: str = setting(
        "--procfs",
        key="topologyExporter.procfsRoot",
        metavar="DIR",
        help="The host's processes, to find the running kubelet's command line; empty: not used.",
    )
    kubelet_config_uri: str = setting(
        "--kubelet-config-uri",
        key="topologyExporter.kubeletConfigURI",
        metavar="URI",
        help="Another place of the configuration: file:///path, or https://host:10250/configz.",
    )
    token_file: str = setting(
        "--api-auth-token-file",
        default="/var/run/secrets/kubernetes.io/serviceaccount/token",
        key="topologyExporter.apiAuthTokenFile",
        metavar="FILE",
        help="Bearer token for the kubelet's own address.",
    )
    policy: str = setting(
        "--topology-manager-policy",
        key="kubelet.topologyManagerPolicy",
        env="TOPOLOGY_MANAGER_POLICY",
        help="Say so instead of reading it.",
    )
    scope: str = setting(
        "--topology-manager-scope",
        key="kubelet.topologyManagerScope",
        env="TOPOLOGY_MANAGER_SCOPE",
        help="Say so instead of reading it.",
    )
    watch_pods: bool = setting(
        "--watch-pods/--no-watch-pods",
        default=True,
        key="resourceMonitor.watchPods",
        help="Watch the node's pods in the API, for their uids and for pods that have finished.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentSettings:
    """What a report contains."""

    watch_namespace: str = setting(
        "--watch-namespace",
        key="resourceMonitor.namespace",
        metavar="NAMESPACE",
        help="Count only pods of this namespace; `*` or nothing: all.",
    )
    reference_container: str = setting(
        "--reference-container",
        key="topologyExporter.referenceContainer",
        metavar="NAMESPACE/POD/CONTAINER",
        help="Container whose CPUs are the shared pool.",
    )
    reserved_cpus: str = setting(
        "--reserved-cpus",
        key="resourceMonitor.reservedCPUs",
        metavar="CPUS",
        help="Count these CPUs, such as 0-1,64, as not allocatable, like the kubelet's own.",
    )
    exclude_terminal_pods: bool = setting(
        "--exclude-terminal-pods/--no-exclude-terminal-pods",
        default=True,
        key="resourceMonitor.excludeTerminalPods",
        help="Leave out finished pods that kubelets before 1.34 still list.",
    )
    fingerprint: bool = setting(
        "--pods-fingerprint/--no-pods-fingerprint",
        default=True,
        key="resourceMonitor.podSetFingerprint",
        help="Publish the fingerprint of the pods.",
    )
    fingerprint_method: str = setting(
        "--pods-fingerprint-method",
        type=click.Choice(METHODS, case_sensitive=False),
        default=EXCLUSIVE_PODS,
        key="resourceMonitor.podSetFingerprintMethod",
        help="Which pods it covers.",
    )
    fingerprint_file: str = setting(
        "--pods-fingerprint-status-file",
        key="resourceMonitor.podSetFingerprintStatusFile",
        env="PFP_STATUS_FILE",
        metavar="FILE",
        help="Keep the pods behind the last fingerprint in this file.",
    )
    fingerprint_dir: str = setting(
        "--pods-fingerprint-status-dir",
        key="resourceMonitor.podSetFingerprintStatusDir",
        env="PFP_STATUS_DUMP",
        metavar="DIR",
        help="Keep the pods behind the last ten fingerprints in a file of this folder.",
    )
    numa_placement: bool = setting(
        "--numa-placement/--no-numa-placement",
        default=True,
        key="resourceMonitor.numaPlacement",
        help="Publish where each container is, as RTE does from v0.25 on.",
    )
    exact: bool = setting(
        "--exact/--no-exact",
        default=True,
        key="resourceMonitor.exact",
        help="Publish free CPUs, memory and devices by id, for numakube's scheduler.",
    )
    koordinator: bool = setting(
        "--koordinator/--no-koordinator",
        default=False,
        key="resourceMonitor.koordinator",
        help="Also publish CPU topology and shared pools in annotations, as koordlet does.",
    )
    measure: bool = setting(
        "--measure/--no-measure",
        default=False,
        key="resourceMonitor.measure",
        help="Also measure where memory and threads of pods really are, every 15 seconds.",
    )
    accounting: str = setting(
        "--accounting",
        type=click.Choice([str(accounting) for accounting in Accounting]),
        default=str(Accounting.KUBELET),
        key="resourceMonitor.accounting",
        help="Count as the kubelet does, or as RTE with its double counting.",
    )
    refresh: bool = setting(
        "--refresh-node-resources/--no-refresh-node-resources",
        default=True,
        key="resourceMonitor.refreshNodeResources",
        help="Ask for allocatable resources at every scan, not only when the kubelet starts.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WakingSettings:
    """When the node is scanned."""

    period: float = setting(
        "--sleep-interval",
        type=DURATION,
        default=60.0,
        key="topologyExporter.sleepInterval",
        help="Scan at least this often; 0: only on changes.",
    )
    notify_file: str = setting(
        "--notify-file",
        key="topologyExporter.notifyFilePath",
        metavar="FILE",
        help="Scan when this file is touched.",
    )
    max_events: int = setting(
        "--max-events-per-second",
        type=click.INT,
        default=5,
        key="topologyExporter.maxEventPerTimeUnit",
        help="Most scans per second, after a burst of ten; 0: no limit.",
    )
    time_unit: float = setting(
        "--time-unit-to-limit-events",
        type=DURATION,
        default=1.0,
        key="topologyExporter.timeUnitToLimitEvents",
        help="Time unit of --max-events-per-second.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPodSettings:
    """The exporter's own pod."""

    conditions: bool = setting(
        "--podreadiness/--no-podreadiness",
        default=True,
        key="topologyExporter.podReadinessEnable",
        help="Set conditions on the exporter's own pod, if its name is known.",
    )
    pod_namespace: str = setting(
        "--pod-namespace",
        env="REFERENCE_NAMESPACE",
        metavar="NAMESPACE",
        help="Namespace of the exporter's own pod.",
    )
    pod_name: str = setting(
        "--pod-name",
        env="REFERENCE_POD_NAME",
        metavar="POD",
        help="Name of the exporter's own pod.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where health and metrics are served."""

    metrics_mode: str = setting(
        "--metrics-mode",
        type=click.Choice(METRICS_MODES, case_sensitive=False),
        default=LOCAL,
        key="topologyExporter.metricsMode",
        help="How to serve health and metrics: not at all, on loopback, over HTTP, over HTTPS.",
    )
    metrics_address: str = setting(
        "--metrics-ip",
        default="127.0.0.1",
        key="topologyExporter.metricsAddress",
        env="METRICS_ADDRESS",
        metavar="ADDRESS",
        help="Address to serve on.",
    )
    metrics_port: int = setting(
        "--metrics-port --port",
        type=click.IntRange(0, 65535),
        default=PROGRAMS["exporter"].port,
        key="topologyExporter.metricsPort",
        env="METRICS_PORT",
        help="Port to serve on; 0 selects a free one.",
    )
    metrics_certs_dir: str = setting(
        "--metrics-certs-dir",
        default="/etc/secrets/rte",
        key="topologyExporter.metricsTLS.certsDir",
        metavar="DIR",
        help="Folder of certificate and key.",
    )
    metrics_cert_file: str = setting(
        "--metrics-cert-file",
        default="tls.crt",
        key="topologyExporter.metricsTLS.certFile",
        metavar="FILE",
        help="Certificate in that folder.",
    )
    metrics_key_file: str = setting(
        "--metrics-key-file",
        default="tls.key",
        key="topologyExporter.metricsTLS.keyFile",
        metavar="FILE",
        help="Key in that folder.",
    )
    metrics_client_auth: bool = setting(
        "--metrics-want-cli-auth/--no-metrics-want-cli-auth",
        default=False,
        key="topologyExporter.metricsTLS.wantCliAuth",
        help="Ask clients for a certificate of --metrics-client-ca-file.",
    )
    metrics_client_ca: str = setting(
        "--metrics-client-ca-file",
        default="ca.crt",
        key="topologyExporter.metricsTLS.clientCAFile",
        metavar="FILE",
        help="Authority of clients, in that folder.",
    )
    metrics_tls_version: str = setting(
        "--metrics-tls-min-version",
        type=click.Choice(tuple(VERSIONS)),
        default="VersionTLS12",
        key="topologyExporter.metricsTLS.minTLSVersion",
        help="Minimum version of TLS.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSettings:
    """The settings of an exporter."""

    run: RunSettings = group(RunSettings)
    publishing: PublishingSettings = group(PublishingSettings)
    reading: ReadingSettings = group(ReadingSettings)
    content: ContentSettings = group(ContentSettings)
    waking: WakingSettings = group(WakingSettings)
    own_pod: OwnPodSettings = group(OwnPodSettings)
    metrics: MetricsSettings = group(MetricsSettings)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(ExporterSettings)
