"""The plugin's settings; those of the SR-IOV network device plugin have its names.

Its log flags are taken and mean nothing, except for the level: our log goes to standard error.
"""

from __future__ import annotations

from typing import Any, Final

import click

from numakube.apps.host.common_settings import FORMATS, LEVELS, serving_settings
from numakube.apps.host.loglevel import level_of_verbosity
from numakube.apps.host.settings import DURATION, Setting, Settings
from numakube.apps.sriov import cdi, device_info
from numakube.apps.sriov.endpoint import Way
from numakube.node import deviceplugin, deviceplugin_registry

DEFAULT_CONFIG: Final = "/etc/pcidp/config.json"
DEFAULT_PREFIX: Final = "intel.com"
DEFAULT_PORT: Final = 2113

IGNORED_VALUES: Final = (
    "log-dir",
    "log_dir",
    "log_backtrace_at",
    "stderrthreshold",
    "vmodule",
    "log_link",
    "logbuflevel",
)
IGNORED_SWITCHES: Final = ("logtostderr", "alsologtostderr")
"""Upstream's flags that mean nothing here."""


class LogLevel(click.Choice[str]):
    """A level by its name, or by the number that upstream has for it."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as its base class has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the name of the level."""
        if isinstance(value, str) and value.isdecimal():
            return level_of_verbosity(int(value))
        return super().convert(value, param, ctx)


_OFFERING: Final = (
    Setting(
        name="config_file",
        flag="--config-file",
        metavar="FILE",
        default=DEFAULT_CONFIG,
        env="SRIOV_CONFIG_FILE",
        help="Which pools to offer, in JSON, or YAML if named so; read again when it changes.",
    ),
    Setting(
        name="prefix",
        flag="--resource-prefix",
        metavar="PREFIX",
        default=DEFAULT_PREFIX,
        env="SRIOV_RESOURCE_PREFIX",
        help="First part of the names of resources whose pool has none of its own.",
    ),
    Setting(
        name="use_cdi",
        flag="--use-cdi/--no-use-cdi",
        default=False,
        env="SRIOV_USE_CDI",
        help="Tell device files by the Container Device Interface.",
    ),
    Setting(
        name="check_link",
        flag="--check-link/--no-check-link",
        default=True,
        env="SRIOV_CHECK_LINK",
        help="Take devices whose physical function has no link for unhealthy.",
    ),
    Setting(
        name="rescan",
        flag="--rescan-interval",
        type=DURATION,
        default=10.0,
        env="SRIOV_RESCAN_INTERVAL",
        help="Look at the host so often; SIGHUP makes it look at once.",
    ),
    Setting(
        name="forget_after",
        flag="--forget-after",
        type=DURATION,
        default=300.0,
        env="SRIOV_FORGET_AFTER",
        help="Drop a device that has been gone for so long; until then it is unhealthy.",
    ),
)

_PLACES: Final = (
    Setting(
        name="registration",
        flag="--registration",
        type=click.Choice([str(way) for way in Way]),
        default=str(Way.AUTO),
        env="SRIOV_REGISTRATION",
        help="Register by call, or let the kubelet find sockets in its registry, if that exists.",
    ),
    Setting(
        name="device_plugins_dir",
        flag="--device-plugins-dir",
        metavar="DIR",
        default=deviceplugin.DEFAULT_DIRECTORY,
        help="The kubelet's folder of device plugins.",
    ),
    Setting(
        name="registry_dir",
        flag="--plugins-registry-dir",
        metavar="DIR",
        default=deviceplugin_registry.DEFAULT_DIRECTORY,
        help="The kubelet's registry of plugins.",
    ),
    Setting(
        name="device_info_dir",
        flag="--device-info-dir",
        metavar="DIR",
        default=device_info.DEFAULT_FOLDER,
        help="Where CNI plugins look for device-info files.",
    ),
    Setting(
        name="cdi_dir",
        flag="--cdi-dir",
        metavar="DIR",
        default=cdi.DEFAULT_FOLDER,
        help="Where runtimes look for CDI specifications.",
    ),
    Setting(
        name="sysfs",
        flag="--sysfs",
        metavar="DIR",
        default="/sys",
        help="Where the host's devices are described.",
    ),
    Setting(
        name="dev",
        flag="--dev",
        metavar="DIR",
        default="/dev",
        help="The host's device files; only looked at.",
    ),
    Setting(
        name="proc",
        flag="--proc",
        metavar="DIR",
        default="/proc",
        help="Where the host's routes are; what carries its default route is not offered.",
    ),
)

_LOGS: Final = (
    Setting(
        name="log_level",
        flag="-v --log-level",
        type=LogLevel(LEVELS),
        default="info",
        help="Least important events to log; upstream's numbers are taken, too.",
    ),
    Setting(
        name="log_format",
        flag="--log-format",
        type=click.Choice(FORMATS),
        default="text",
        help="Form of the log.",
    ),
)

SETTINGS: Final = Settings((*_OFFERING, *_PLACES, *serving_settings(DEFAULT_PORT), *_LOGS))
