"""The enforcer's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import click

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.node.nri import DEFAULT_SOCKET
from numakube_placement import ENFORCER_PORT

DEFAULT_STATE_DIR: Final = "/var/lib/numakube-enforcer"

NRI_MODES: Final = ("auto", "on", "off")


class Matching(click.ParamType[Any]):
    """A text of a certain form, which *meaning* describes."""

    def __init__(self, name: str, form: str, meaning: str) -> None:
        self.name = name
        self._form = re.compile(form)
        self._meaning = meaning

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text."""
        if self._form.fullmatch(str(value)) is None:
            self.fail(f"{value!r} is not made of {self._meaning}", param, ctx)
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcerSettings:
    """The settings of an enforcer."""

    once: bool = setting("--once", default=False, help="Make one pass, print it, and exit.")
    dry_run: bool = setting(
        "--dry-run", default=False, help="Print what would be written, and exit."
    )
    restore_only: bool = setting(
        "--restore",
        default=False,
        help="Undo what an earlier process changed, and exit; needs no cluster.",
    )
    node_name: str = setting(
        "--hostname",
        env="NODE_NAME",
        metavar="NODE",
        help="Name of the node; by default the name of the host.",
    )
    period: float = setting(
        "--period",
        type=DURATION,
        default=10.0,
        env="ENFORCER_PERIOD",
        help="How often to check all control groups, in addition to checks after changes.",
    )
    memory: bool = setting(
        "--memory/--no-memory",
        default=True,
        env="ENFORCER_MEMORY",
        help="Bind memory to the NUMA nodes on which it was allotted.",
    )
    unset_quota: bool = setting(
        "--unset-cpu-quota/--no-unset-cpu-quota",
        default=True,
        env="ENFORCER_UNSET_CPU_QUOTA",
        help="Do not throttle containers with exclusive CPUs.",
    )
    restore: bool = setting(
        "--restore-on-exit/--no-restore-on-exit",
        default=True,
        env="ENFORCER_RESTORE_ON_EXIT",
        help="Undo all changes before exiting.",
    )
    nri: str = setting(
        "--nri",
        type=click.Choice(NRI_MODES),
        default="auto",
        env="ENFORCER_NRI",
        help="Set containers before they start, as an NRI plugin of the runtime: if there is NRI, "
        "always (not ready without it), or never.",
    )
    devices: bool = setting(
        "--device-variables/--no-device-variables",
        default=False,
        env="ENFORCER_DEVICE_VARIABLES",
        help="Give each container the GPUs allotted to it, by NVIDIA_VISIBLE_DEVICES. Needs "
        "NRI, and no other agent that does so.",
    )
    nri_socket: str = setting(
        "--nri-socket",
        default=DEFAULT_SOCKET,
        env="ENFORCER_NRI_SOCKET",
        metavar="PATH",
        help="Where the container runtime offers NRI.",
    )
    nri_name: str = setting(
        "--nri-plugin-name",
        type=Matching("name", r"[A-Za-z0-9_.+-]+", "letters, digits and _.+-"),
        default="numakube",
        env="NRI_PLUGIN_NAME",
        help="Name of the plugin in the runtime.",
    )
    nri_index: str = setting(
        "--nri-plugin-index",
        type=Matching("index", r"[0-9]{2}", "two digits"),
        default="90",
        env="NRI_PLUGIN_IDX",
        help="Order of plugins: those with lower numbers come first.",
    )
    cgroup_root: str = setting(
        "--cgroup-root",
        default="/sys/fs/cgroup",
        metavar="DIR",
        help="Where the host's control groups are mounted.",
    )
    cgroup_parent: str = setting(
        "--cgroup-parent",
        metavar="GROUP",
        help="The group of all pods, such as kubepods.slice; by default, the usual places.",
    )
    sysfs: str = setting(
        "--sysfs",
        default="/sys",
        metavar="DIR",
        help="Where the host's CPUs are described.",
    )
    kubelet_dir: str = setting(
        "--kubelet-state-dir",
        default="/var/lib/kubelet",
        metavar="DIR",
        help="The kubelet's folder, for its CPU Manager's state.",
    )
    state_dir: str = setting(
        "--state-dir",
        default=DEFAULT_STATE_DIR,
        metavar="DIR",
        help="Where to keep the earlier state of groups; must survive a restart of the process.",
    )
    connection: ConnectionSettings = group(ConnectionSettings)
    serving: ServingSettings = serving_on(ENFORCER_PORT)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(EnforcerSettings)
