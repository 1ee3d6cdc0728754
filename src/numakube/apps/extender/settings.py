"""The options of the extender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from numakube.api.yamls import load_yaml
from numakube.apps.extender.pending_binds import HOLD_SECONDS
from numakube.apps.extender.verb_endpoints import MAX_BODY_BYTES
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings import DURATION, SettingsTable, group, setting
from numakube.apps.recording import RecorderSettings
from numakube.errors import ConfigError
from numakube.programs import PROGRAMS
from numakube.scheduling.numa.topology_match_args import read_args

if TYPE_CHECKING:
    from numakube.apps.host.common_settings import Locate
    from numakube.scheduling.numa.topology_match_args import Settings as NumaSettings

NAMESPACE: Final = "numakube"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """What an extender can be told."""

    args_file: str = setting(
        "--args-file",
        metavar="FILE",
        help="NodeResourceTopologyMatchArgs: how nodes are judged and pods accounted for.",
    )
    claims: bool = setting(
        "--claims/--no-claims",
        default=True,
        help="Whether binds go through a lease of each node; only a single replica may do without.",
    )
    namespace: str = setting(
        "--namespace",
        default=NAMESPACE,
        env="POD_NAMESPACE",
        metavar="NAME",
        help="Where those leases are.",
    )
    hold_seconds: float = setting(
        "--hold",
        type=DURATION,
        default=HOLD_SECONDS,
        help="How long room is kept for a pod until kube-scheduler binds it.",
    )
    max_body_bytes: int = setting(
        "--max-request-bytes",
        type=click.IntRange(min=1 << 16),
        default=MAX_BODY_BYTES,
        help="Largest request.",
    )
    health_address: str = setting(
        "--health-address",
        metavar="HOST:PORT",
        help="Serve health and metrics here too, in plain HTTP: probes show no certificate.",
    )
    token_file: str = setting(
        "--token-file",
        metavar="FILE",
        help="Callers must show this token: as bearer, or as the password in urlPrefix.",
    )
    recorder: RecorderSettings = group(RecorderSettings)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)
    serving: ServingSettings = serving_on(PROGRAMS["extender"].port)


SETTINGS: Final = SettingsTable(ExtenderSettings)


def numa_settings_of(args_file: str, locate: Locate) -> NumaSettings:
    """Return how nodes are judged.

    Raises:
        ConfigError: the file cannot be read, or makes no sense.
    """
    if not args_file:
        return read_args({})
    try:
        text = locate(args_file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--args-file {args_file}: {error.strerror}") from None
    tree = load_yaml(text, args_file)
    if not isinstance(tree, dict):
        raise ConfigError(f"--args-file {args_file}: not a mapping")
    return read_args(tree)
