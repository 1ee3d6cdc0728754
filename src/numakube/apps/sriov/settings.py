"""The plugin's settings; those of the SR-IOV network device plugin have its names.

Its log flags are taken and mean nothing, except for the level: our log goes to standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from numakube.apps.host.common_settings import LogSettings, ServingSettings, serving_on
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.apps.sriov import cdi_files, device_info
from numakube.apps.sriov.pool_registration import Way
from numakube.node.device_plugin import plugin_protocol, plugin_registration
from numakube.programs import PROGRAMS

DEFAULT_CONFIG: Final = "/etc/pcidp/config.json"
DEFAULT_PREFIX: Final = "intel.com"
TABLE, JSON, YAML = "table", "json", "yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SriovSettings:
    """The settings of a device plugin."""

    dry_run: bool = setting(
        "--dry-run", default=False, help="Print what would be offered, and exit."
    )
    explain: bool = setting(
        "--explain", default=False, help="With --dry-run: say why devices are not offered."
    )
    output: str = setting(
        "-o --output",
        type=click.Choice((TABLE, JSON, YAML)),
        default=TABLE,
        help="Output format of a dry run.",
    )
    config_file: str = setting(
        "--config-file",
        default=DEFAULT_CONFIG,
        env="SRIOV_CONFIG_FILE",
        metavar="FILE",
        help="Pools to offer, in JSON, or in YAML if the name says so; read again when it changes.",
    )
    prefix: str = setting(
        "--resource-prefix",
        default=DEFAULT_PREFIX,
        env="SRIOV_RESOURCE_PREFIX",
        metavar="PREFIX",
        help="Prefix of the names of resources whose pool does not set one.",
    )
    use_cdi: bool = setting(
        "--use-cdi/--no-use-cdi",
        default=False,
        env="SRIOV_USE_CDI",
        help="Pass device files through the Container Device Interface.",
    )
    check_link: bool = setting(
        "--check-link/--no-check-link",
        default=True,
        env="SRIOV_CHECK_LINK",
        help="Treat devices whose physical function has no link as unhealthy.",
    )
    rescan: float = setting(
        "--rescan-interval",
        type=DURATION,
        default=10.0,
        env="SRIOV_RESCAN_INTERVAL",
        help="How often to scan the host; SIGHUP starts a scan immediately.",
    )
    forget_after: float = setting(
        "--forget-after",
        type=DURATION,
        default=300.0,
        env="SRIOV_FORGET_AFTER",
        help="Drop a device that has been gone for this time; until then it is unhealthy.",
    )
    registration: str = setting(
        "--registration",
        type=click.Choice([str(way) for way in Way]),
        default=str(Way.AUTO),
        env="SRIOV_REGISTRATION",
        help="Register by call, or let the kubelet find sockets in its registry, if that exists.",
    )
    device_plugins_dir: str = setting(
        "--device-plugins-dir",
        default=plugin_protocol.DEFAULT_DIRECTORY,
        metavar="DIR",
        help="The kubelet's folder of device plugins.",
    )
    pod_resources_socket: str = setting(
        "--podresources-socket",
        default=f"{Path(plugin_protocol.DEFAULT_DIRECTORY).parent}/pod-resources/kubelet.sock",
        metavar="FILE",
        help="Ask the kubelet there which other devices a pod has, to give it near ones; empty: do"
        " not ask.",
    )
    registry_dir: str = setting(
        "--plugins-registry-dir",
        default=plugin_registration.DEFAULT_DIRECTORY,
        metavar="DIR",
        help="The kubelet's registry of plugins.",
    )
    device_info_dir: str = setting(
        "--device-info-dir",
        default=device_info.DEFAULT_FOLDER,
        metavar="DIR",
        help="Where CNI plugins look for device-info files.",
    )
    cdi_dir: str = setting(
        "--cdi-dir",
        default=cdi_files.DEFAULT_FOLDER,
        metavar="DIR",
        help="Where runtimes look for CDI specifications.",
    )
    sysfs: str = setting(
        "--sysfs",
        default="/sys",
        metavar="DIR",
        help="Where the host's devices are described.",
    )
    dev: str = setting(
        "--dev",
        default="/dev",
        metavar="DIR",
        help="The host's device files; only read.",
    )
    proc: str = setting(
        "--proc",
        default="/proc",
        metavar="DIR",
        help="Where the host's routes are; devices with its default route are not offered.",
    )
    serving: ServingSettings = serving_on(PROGRAMS["sriov"].port)
    logs: LogSettings = group(
        LogSettings,
        log_level={
            "flag": "-v --log-level",
            "help": "Minimum level of events to log; upstream's numbers are accepted too.",
        },
    )


SETTINGS: Final = SettingsTable(SriovSettings)
