"""The driver's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from numakube.api.yaml_text import load_yaml
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.errors import ConfigError
from numakube.node import read_regular_file
from numakube.node.host_files import INFO_FOLDER
from numakube.node.nri import DEFAULT_SOCKET
from numakube_dra_driver.annex import CORES, CPUS, PORT
from numakube_dra_driver.devices import Grouping
from numakube_placement.enforcer import NRI_MODES

if TYPE_CHECKING:
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values

GROUPED, INDIVIDUAL = "grouped", "individual"
MODES: Final = (GROUPED, INDIVIDUAL)
NUMA_NODE: Final = "numanode"
GROUPS: Final = MappingProxyType(
    {NUMA_NODE: Grouping.NUMA, "socket": Grouping.SOCKET, "machine": Grouping.MACHINE}
)
_KUBELET: Final = "/var/lib/kubelet"
_CONFIG_VERSION: Final = "v1alpha1"
_COMPATIBLE_ONLY: Final = ("cpu_device_mode", "group_by", "config")
_OWN_ONLY: Final = ("cpu_devices", "cpu_step")

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
        "--hostname --hostname-override",
        key="hostnameOverride",
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
        key="reservedCPUs",
        env="DRA_RESERVED_CPUS",
        metavar="CPUS",
        help="CPUs that are not offered, such as 0-1; by default those that the kubelet reserves.",
    )
    node_allocatable: bool = setting(
        "--node-allocatable",
        default=False,
        key="publishNodeAllocatableResourceMapping",
        help="Say in slices that CPUs and memory of claims are the node's (Kubernetes 1.37, with "
        "feature gate DRANodeAllocatableResources).",
    )
    pcie_roots: bool = setting(
        "--expose-pcie-roots",
        default=False,
        help="Say in slices which PCIe roots are near CPUs (feature gate DRAListTypeAttributes).",
    )
    compatible: bool = setting(
        "--compatible",
        default=False,
        env="DRA_COMPATIBLE",
        help="Offer CPUs as dra-driver-cpu does, under its name dra.cpu, and take over its claims.",
    )
    cpu_device_mode: str = setting(
        "--cpu-device-mode",
        type=click.Choice(MODES),
        default=GROUPED,
        key="cpuDeviceMode",
        help="Whether a device is a group of CPUs or a single one; with --compatible.",
    )
    group_by: str = setting(
        "--group-by",
        type=click.Choice([*GROUPS]),
        default=NUMA_NODE,
        key="groupBy",
        help="Which CPUs are a group; with --compatible.",
    )
    config: str = setting(
        "--config",
        metavar="FILE",
        help="A configuration file of dra-driver-cpu; with --compatible.",
    )
    kubelet_root: str = setting(
        "--kubelet-root-dir",
        metavar="DIR",
        help="The kubelet's folder, if it is not /var/lib/kubelet: the others are in it.",
    )
    pci_config: str = setting(
        "--pci-config-file",
        env="DRA_PCI_CONFIG_FILE",
        metavar="FILE",
        help="Pools of PCI functions to offer, as numakube sriov reads them; read again when it"
        " changes. By default no functions are offered.",
    )
    prefix: str = setting(
        "--resource-prefix",
        default="intel.com",
        env="DRA_RESOURCE_PREFIX",
        metavar="PREFIX",
        help="Prefix of the names of pools that do not set one.",
    )
    check_link: bool = setting(
        "--check-link/--no-check-link",
        default=True,
        env="DRA_CHECK_LINK",
        help="Treat functions whose physical function has no link as unhealthy.",
    )
    rescan: float = setting(
        "--rescan-interval",
        type=DURATION,
        default=10.0,
        env="DRA_RESCAN_INTERVAL",
        help="How often to look for PCI functions.",
    )
    dev: str = setting(
        "--dev", default="/dev", metavar="DIR", help="The host's device files; only looked at."
    )
    proc: str = setting(
        "--proc",
        default="/proc",
        metavar="DIR",
        help="Where the host's routes are; functions with its default route are not offered.",
    )
    device_info_dir: str = setting(
        "--device-info-dir",
        default=INFO_FOLDER,
        metavar="DIR",
        help="Where CNI plugins look for device-info files.",
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

    @property
    def grouping(self) -> Grouping:
        """Which CPUs are one device."""
        if not self.compatible:
            return Grouping(self.cpu_devices)
        return Grouping.CPU if self.cpu_device_mode == INDIVIDUAL else GROUPS[self.group_by]


SETTINGS: Final = SettingsTable(DraSettings)


def read_settings(flags: Values, around: Surroundings) -> DraSettings:
    """Return what a file of dra-driver-cpu, the environment and *flags* add up to.

    Raises:
        ConfigError: the file makes no sense.
        UsageError: flags do not go together.
    """
    files = [_from_file(flags["config"], around)] if flags.get("config") else []
    settings = SETTINGS.resolve(files=files, env=around.env, flags=flags)
    wrong = _OWN_ONLY if settings.compatible else _COMPATIBLE_ONLY
    for name in wrong:
        if flags.get(name):
            flag = f"--{name.replace('_', '-')}"
            with_it = "does not go" if settings.compatible else "goes"
            raise click.UsageError(f"{flag} {with_it} with --compatible{_ONLY[with_it]}.")
    if not settings.kubelet_root:
        return settings
    if not settings.kubelet_root.startswith("/"):
        raise click.UsageError("--kubelet-root-dir is an absolute path.")
    return _below(settings, flags)


_ONLY: Final = MappingProxyType({"goes": " only", "does not go": ""})


def _below(settings: DraSettings, flags: Values) -> DraSettings:
    """Return the settings with the kubelet's folders where its root is."""
    root = settings.kubelet_root.rstrip("/")
    moved = {
        name: root + getattr(settings, name).removeprefix(_KUBELET)
        for name in (
            "plugins_dir",
            "registry_dir",
            "pod_resources_socket",
            "kubelet_config",
            "kubelet_dir",
        )
        if name not in flags
    }
    return replace(settings, **moved)


def _from_file(path: str, around: Surroundings) -> Values:
    try:
        text = read_regular_file(around.locate(path)).decode()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8") from None
    tree = load_yaml(text, path)
    if not isinstance(tree, dict) or tree.get("apiVersion") != _CONFIG_VERSION:
        raise ConfigError(f"{path}: apiVersion is not {_CONFIG_VERSION}")
    if tree.get("sysfsOverlay"):
        raise ConfigError(f"{path}: sysfsOverlay: a node is offered as it is")
    return SETTINGS.from_tree(tree, path, beside=("apiVersion", "sysfsOverlay"))
