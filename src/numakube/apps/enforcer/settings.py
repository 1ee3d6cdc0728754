"""The enforcer's settings."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import DURATION, Setting, Settings
from numakube.node.nri.plugin import DEFAULT_SOCKET

PORT: Final = 2114
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


_ENFORCING: Final = (
    Setting(
        name="node_name",
        flag="--hostname",
        metavar="NODE",
        env="NODE_NAME",
        help="Name of the node; by default that of the host.",
    ),
    Setting(
        name="period",
        flag="--period",
        type=DURATION,
        default=10.0,
        env="ENFORCER_PERIOD",
        help="Look at all control groups so often, besides at once when something changes.",
    ),
    Setting(
        name="memory",
        flag="--memory/--no-memory",
        default=True,
        env="ENFORCER_MEMORY",
        help="Let memory come from the NUMA nodes that it was allotted on.",
    ),
    Setting(
        name="unset_quota",
        flag="--unset-cpu-quota/--no-unset-cpu-quota",
        default=True,
        env="ENFORCER_UNSET_CPU_QUOTA",
        help="Do not throttle containers with CPUs of their own.",
    ),
    Setting(
        name="restore",
        flag="--restore-on-exit/--no-restore-on-exit",
        default=True,
        env="ENFORCER_RESTORE_ON_EXIT",
        help="Put everything back as it was before ending.",
    ),
)

_NRI: Final = (
    Setting(
        name="nri",
        flag="--nri",
        type=click.Choice(NRI_MODES),
        default="auto",
        env="ENFORCER_NRI",
        help="Set containers before they start, as an NRI plugin of the runtime: if there is NRI, "
        "always (not ready without), or never.",
    ),
    Setting(
        name="nri_socket",
        flag="--nri-socket",
        metavar="PATH",
        default=DEFAULT_SOCKET,
        env="ENFORCER_NRI_SOCKET",
        help="Where the container runtime offers NRI.",
    ),
    Setting(
        name="nri_name",
        flag="--nri-plugin-name",
        type=Matching("name", r"[A-Za-z0-9_.+-]+", "letters, digits and _.+-"),
        default="numakube",
        env="NRI_PLUGIN_NAME",
        help="What the plugin is called in the runtime.",
    ),
    Setting(
        name="nri_index",
        flag="--nri-plugin-index",
        type=Matching("index", r"[0-9]{2}", "two digits"),
        default="90",
        env="NRI_PLUGIN_IDX",
        help="When the plugin is asked: those with lower numbers come first.",
    ),
)

_PLACES: Final = (
    Setting(
        name="cgroup_root",
        flag="--cgroup-root",
        metavar="DIR",
        default="/sys/fs/cgroup",
        help="Where the host's control groups are mounted.",
    ),
    Setting(
        name="cgroup_parent",
        flag="--cgroup-parent",
        metavar="GROUP",
        help="The group of all pods, such as kubepods.slice; found by itself in the usual places.",
    ),
    Setting(
        name="sysfs",
        flag="--sysfs",
        metavar="DIR",
        default="/sys",
        help="Where the host's CPUs are described.",
    ),
    Setting(
        name="kubelet_dir",
        flag="--kubelet-state-dir",
        metavar="DIR",
        default="/var/lib/kubelet",
        help="The kubelet's folder, for its CPU Manager's state.",
    ),
    Setting(
        name="state_dir",
        flag="--state-dir",
        metavar="DIR",
        default=DEFAULT_STATE_DIR,
        help="Where to keep what groups were before; must survive a restart of the process.",
    ),
)

SETTINGS: Final = Settings(
    (*_ENFORCING, *_NRI, *_PLACES, *CONNECTION, *serving_settings(PORT), *LOGS)
)
