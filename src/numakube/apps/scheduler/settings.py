"""The options of the scheduler, and the configuration that they add up to.

A KubeSchedulerConfiguration (``--config``) says which profiles there are; without one there is a
single profile with all plugins. Flags win over the file, except for the cluster: two different ones
are a contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from numakube.api.scheduler_config import (
    SCHEDULER_NAME,
    ClientConnectionConfig,
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
from numakube.apps.host.program import KLOG, OtherFlags
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.errors import ConfigError
from numakube.kube.leader_election import LeaseTiming
from numakube.kube.resource_types import ObjectKey
from numakube.programs import PROGRAMS
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.values.names import dns_label
from numakube.values.times import SECOND, parse_duration

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
    secure_port: int | None = setting(
        "--secure-port",
        type=click.IntRange(0, 65535),
        default=None,
        metavar="PORT",
        help="Port to serve on, beside a --bind-address without one, as kube-scheduler has it.",
    )
    recorder: RecorderSettings = group(RecorderSettings)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)
    serving: ServingSettings = serving_on(PROGRAMS["scheduler"].port)


SETTINGS: Final = SettingsTable(SchedulerSettings)
_DURATIONS: Final = ("lease-duration", "renew-deadline", "retry-period")
OF_KUBE_SCHEDULER: Final = KLOG + OtherFlags(
    values=(
        *("authentication-kubeconfig", "authorization-kubeconfig", "cert-dir", "client-ca-file"),
        *("authentication-token-webhook-cache-ttl", "authorization-always-allow-paths"),
        *("authorization-webhook-cache-authorized-ttl", "requestheader-allowed-names"),
        *("authorization-webhook-cache-unauthorized-ttl", "requestheader-client-ca-file"),
        *("requestheader-extra-headers-prefix", "requestheader-group-headers"),
        *("requestheader-uid-headers", "requestheader-username-headers"),
        *("http2-max-streams-per-connection", "tls-cipher-suites", "tls-curve-preferences"),
        *("tls-sni-cert-key", "kube-api-burst", "kube-api-content-type", "kube-api-qps"),
        *("pod-max-in-unschedulable-pods-duration", "leader-elect-resource-lock"),
        *(f"leader-elect-{duration}" for duration in _DURATIONS),
        *("emulated-version", "min-compatibility-version"),
        *("allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics"),
        *("show-hidden-metrics-for-version", "log-json-info-buffer-size", "logging-format"),
        *("log-text-info-buffer-size", "master"),
    ),
    switches=(
        *("authentication-skip-lookup", "authentication-tolerate-lookup-failure", "profiling"),
        *("contention-profiling", "disable-http2-serving", "permit-address-sharing"),
        *("permit-port-sharing", "log-json-split-stream", "log-text-split-stream"),
    ),
)
"""Flags of kube-scheduler 1.37 that say nothing to ours."""


def serving_of(settings: SchedulerSettings) -> ServingSettings:
    """Return where to serve, by an address with its port or, as for kube-scheduler, without."""
    serving, port = settings.serving, settings.secure_port
    host, colon, given = serving.bind_address.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, given = serving.bind_address, str(PROGRAMS["scheduler"].port)
        host = f"[{host}]" if ":" in host else host
    return replace(serving, bind_address=f"{host}:{given if port is None else port}")


KUBE_QPS: Final = 50.0
KUBE_BURST: Final = 100
"""kube-scheduler's defaults."""


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
        config = _from_file(flags["config"], locate, [] if notes is None else notes)
        served = [profile.scheduler_name for profile in config.profiles]
        if name and name not in served and notes is not None:
            notes.append(
                f"--scheduler-name {name} has no effect: the names are those of the profiles in"
                f" --config ({', '.join(served)})"
            )
    else:
        config = default_configuration(name or SCHEDULER_NAME)
    election = _election(config.leader_election, flags)
    _check_shard(flags.get("shard", ""), election)
    return msgspec.structs.replace(config, leader_election=election)


def connection_of(
    settings: ConnectionSettings, told: ClientConnectionConfig, locate: Locate
) -> ConnectionSettings:
    """Return how to reach the cluster by flags and by the ``clientConnection`` of the file.

    As in kube-scheduler, the cluster of the file comes before ``KUBECONFIG`` and the pod's account.
    There ``--kubeconfig`` is ignored beside a file; to pods on the wrong cluster we prefer a word.

    Raises:
        ConfigError: they name different kubeconfigs.
    """
    flag, path = settings.kubeconfig, told.kubeconfig
    if flag and path and locate(flag) != locate(path):
        raise ConfigError(
            f"--kubeconfig {flag}: clientConnection.kubeconfig of --config is {path}: give only one"
        )
    chosen = flag or path
    return replace(settings, kubeconfig=str(locate(chosen)) if chosen else "")


def request_rate(told: ClientConnectionConfig) -> tuple[float, int]:
    """Return how many requests a second are allowed, and at once; 0 a second means any number.

    Unless the file limits them they are not limited: the API server's own flow control does that
    better. Of a limit half of which was left open the other half is kube-scheduler's.
    """
    if not told.qps and not told.burst:
        return 0.0, 0
    return max(told.qps or KUBE_QPS, 0.0), told.burst or KUBE_BURST


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
