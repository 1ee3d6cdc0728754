"""The driver's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.node.nri.nri_plugin import DEFAULT_SOCKET
from numakube_dra_driver.annex import CORES, CPUS, PORT
from numakube_dra_driver.devices import Grouping
from numakube_placement.enforcer.settings import NRI_MODES

TABLE, JSON, YAML = "table", "json", "yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraSettings:
    """The settings of a DRA driver."""

    dry_run: bool = setting(
        "--dry-run", default=False, help="Print what would be offered, and exit."
    )
    output: str = setting(
        "-o --output",
        type=click.Choice((TABLE, JSON, YAML)),
        default=TABLE,
        help="Output format of a dry run.",
    )
    node_name: str = setting(
        "--hostname",
        env="NODE_NAME",
        metavar="NODE",
        help="Name of the node; by default the name of the host.",
    )
    pod_uid: str = setting(
        "--pod-uid",
        env="POD_UID",
        metavar="UID",
        help="UID of this process's pod: sockets are named after it, so that two pods can serve a "
        "node while a DaemonSet is updated.",
    )
    cpu_devices: str = setting(
        "--cpu-devices",
        type=click.Choice([str(grouping) for grouping in Grouping]),
        default=str(Grouping.AUTO),
        env="DRA_CPU_DEVICES",
        help="Which CPUs are one device: those of a NUMA node, a last-level cache, a socket, the "
        "machine, a core, or a single CPU. auto: NUMA nodes, or cores where the API server does "
        "not know devices that several claims share.",
    )
    cpu_step: str = setting(
        "--cpu-step",
        type=click.Choice((CORES, CPUS)),
        default=CORES,
        env="DRA_CPU_STEP",
        help="Whether claims get whole cores, or single CPUs.",
    )
    reserved_cpus: str = setting(
        "--reserved-cpus",
        env="DRA_RESERVED_CPUS",
        metavar="CPUS",
        help="CPUs that are not offered, such as 0-1; by default those that the kubelet reserves.",
    )
    policy_options: tuple[str, ...] = setting(
        "--cpu-policy-options",
        default=(),
        multiple=True,
        env="DRA_CPU_POLICY_OPTIONS",
        metavar="NAME=VALUE",
        help="Choose CPUs as the kubelet's static CPU Manager does with this option.",
    )
    kubelet_config: str = setting(
        "--kubelet-config-file",
        default="/var/lib/kubelet/config.yaml",
        metavar="FILE",
        help="The kubelet's configuration.",
    )
    plugins_dir: str = setting(
        "--plugins-dir",
        default="/var/lib/kubelet/plugins",
        metavar="DIR",
        help="The kubelet's folder for sockets of drivers.",
    )
    registry_dir: str = setting(
        "--plugins-registry-dir",
        default="/var/lib/kubelet/plugins_registry",
        metavar="DIR",
        help="The kubelet's registry of plugins.",
    )
    pod_resources_socket: str = setting(
        "--podresources-socket",
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
        metavar="FILE",
        help="Ask the kubelet there which claims it knows.",
    )
    cdi_dir: str = setting(
        "--cdi-dir",
        default="/var/run/cdi",
        metavar="DIR",
        help="Where runtimes look for CDI specifications.",
    )
    cgroup_root: str = setting(
        "--cgroup-root",
        default="/sys/fs/cgroup",
        metavar="DIR",
        help="Where the host's control groups are mounted.",
    )
    kubelet_dir: str = setting(
        "--kubelet-state-dir",
        default="/var/lib/kubelet",
        metavar="DIR",
        help="The kubelet's folder, for its CPU Manager's state.",
    )
    nri: str = setting(
        "--nri",
        type=click.Choice(NRI_MODES),
        default="auto",
        env="DRA_NRI",
        help="Set containers before they start, as an NRI plugin of the runtime: if there is NRI, "
        "always (not ready without it), or never.",
    )
    nri_socket: str = setting(
        "--nri-socket",
        default=DEFAULT_SOCKET,
        env="DRA_NRI_SOCKET",
        metavar="PATH",
        help="Where the container runtime offers NRI.",
    )
    nri_name: str = setting(
        "--nri-plugin-name",
        default="numakube-dra",
        env="NRI_PLUGIN_NAME",
        help="Name of the plugin in the runtime.",
    )
    nri_index: str = setting(
        "--nri-plugin-index",
        default="90",
        env="NRI_PLUGIN_IDX",
        help="Order of plugins: those with lower numbers come first.",
    )
    sysfs: str = setting(
        "--sysfs", default="/sys", metavar="DIR", help="Where the host's CPUs are described."
    )
    state_dir: str = setting(
        "--state-dir",
        default="/var/lib/numakube-dra",
        metavar="DIR",
        help="Where to keep what claims have; must survive a restart of the machine.",
    )
    forget_state: bool = setting(
        "--forget-state",
        default=False,
        help="Begin without claims, and put the state aside; only on a node without pods that have "
        "claims.",
    )
    connection: ConnectionSettings = group(ConnectionSettings)
    serving: ServingSettings = serving_on(PORT)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(DraSettings)
