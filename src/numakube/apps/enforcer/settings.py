"""The enforcer's settings."""

from __future__ import annotations

from typing import Final

from numakube.apps.process import CONNECTION, LOGS, serving_settings
from numakube.apps.settings import DURATION, Setting, Settings

PORT: Final = 2114
DEFAULT_STATE_DIR: Final = "/var/lib/numakube-enforcer"

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

SETTINGS: Final = Settings((*_ENFORCING, *_PLACES, *CONNECTION, *serving_settings(PORT), *LOGS))
