"""The options of the scheduler, and the configuration that they add up to.

A KubeSchedulerConfiguration (``--config``) says which profiles there are; without one there is a
single profile with all plugins. Flags win over the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.scheduler_config import (
    SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    ProfileConfig,
)
from numakube.api.yaml_text import load_yaml
from numakube.apps.flight_recording import RecorderSettings
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.errors import ConfigError
from numakube.kube.leader_election import LeaseTiming
from numakube.kube.object_keys import ObjectKey
from numakube.programs import PROGRAMS
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.values.durations import SECOND, parse_duration
from numakube.values.names import dns_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.host.common_settings import Locate


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The settings of a scheduler."""

    config: str = setting(
        "--config",
        metavar="FILE",
        help="A KubeSchedulerConfiguration: profiles, plugins and their arguments.",
    )
    scheduler_name: str = setting(
        "--scheduler-name",
        metavar="NAME",
        help=f"Without a file: the name pods ask for; {SCHEDULER_NAME} if not given.",
    )
    leader_elect: bool = setting(
        "--leader-elect/--no-leader-elect",
        default=True,
        help="Whether several schedulers elect a leader; also a field of the file.",
    )
    lease_name: str = setting(
        "--leader-elect-resource-name",
        metavar="NAME",
        help="Name of the lease.",
    )
    lease_namespace: str = setting(
        "--leader-elect-resource-namespace",
        metavar="NAME",
        help="Namespace of the lease.",
    )
    shard: str = setting(
        "--shard",
        metavar="NAME",
        help="Share the nodes with schedulers of other shards; NAME is this shard's, such as 0.",
    )
    recorder: RecorderSettings = group(RecorderSettings)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)
    serving: ServingSettings = serving_on(PROGRAMS["scheduler"].port)


SETTINGS: Final = SettingsTable(SchedulerSettings)


def configuration_of(
    flags: Mapping[str, Any], locate: Locate, notes: list[str] | None = None
) -> KubeSchedulerConfiguration:
    """Return the configuration that file and flags add up to.

    Args:
        flags: only what stood on the command line.
        locate: where a path of the process really is.
        notes: gets what is to be written otherwise today.

    Raises:
        ConfigError: they make no sense.
    """
    name = flags.get("scheduler_name")
    if flags.get("config"):
        if name:
            raise ConfigError("--scheduler-name: the names are those of the profiles in --config")
        config = _from_file(flags["config"], locate, [] if notes is None else notes)
    else:
        config = default_configuration(name or SCHEDULER_NAME)
    election = _election(config.leader_election, flags)
    _check_shard(flags.get("shard", ""), election)
    return msgspec.structs.replace(config, leader_election=election)


def _check_shard(name: str, election: LeaderElectionConfig) -> None:
    if name and dns_label(name):
        raise ConfigError(f"--shard {name}: not a name of lower-case letters, digits and dashes")
    if name and not election.leader_elect:
        raise ConfigError("--shard needs leader election: shards know each other by their leases")


def _from_file(path: str, locate: Locate, notes: list[str]) -> KubeSchedulerConfiguration:
    try:
        text = locate(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from None
    tree = load_yaml(text, path)
    if not isinstance(tree, dict):
        raise ConfigError(f"--config {path}: not a mapping")
    config = read_configuration(tree, source=path, note=notes.append)
    if not config.profiles:
        return msgspec.structs.replace(config, profiles=(ProfileConfig(),))
    return config


def _election(config: LeaderElectionConfig, flags: Mapping[str, Any]) -> LeaderElectionConfig:
    fields = {
        "leader_elect": "leader_elect",
        "lease_name": "resource_name",
        "lease_namespace": "resource_namespace",
    }
    given = {field: flags[name] for name, field in fields.items() if name in flags}
    return msgspec.structs.replace(config, **given)


def lease_of(config: LeaderElectionConfig) -> ObjectKey:
    """Return the lease that decides who leads."""
    return ObjectKey(config.resource_namespace, config.resource_name)


def timing_of(config: LeaderElectionConfig) -> LeaseTiming:
    """Return the times of that election."""
    return LeaseTiming(
        duration=parse_duration(config.lease_duration) // SECOND,
        renew_deadline=parse_duration(config.renew_deadline) / SECOND,
        retry=parse_duration(config.retry_period) / SECOND,
    )
