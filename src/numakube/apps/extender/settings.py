"""The options of the extender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from numakube.api.yaml_text import load_yaml
from numakube.apps.extender.pending_binds import HOLD_SECONDS
from numakube.apps.extender.verb_endpoints import MAX_BODY_BYTES
from numakube.apps.flight_recording import RecorderSettings
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.errors import ConfigError
from numakube.programs import PROGRAMS
from numakube.scheduling.numa.topology_match_args import read_args

if TYPE_CHECKING:
    from numakube.apps.host.common_settings import Locate
    from numakube.scheduling.numa.topology_match_args import Settings as NumaSettings

NAMESPACE: Final = "numakube"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """The settings of an extender."""

    args_file: str = setting(
        "--args-file",
        metavar="FILE",
        help="NodeResourceTopologyMatchArgs: how nodes are filtered and pods are counted.",
    )
    placement_args_file: str = setting(
        "--placement-args-file",
        metavar="FILE",
        help="NodeNUMAResourceArgs: how pods are placed where no kubelet aligns them.",
    )
    claims: bool = setting(
        "--claims/--no-claims",
        default=True,
        help="Whether binds go through a lease of each node; needed with several replicas.",
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
        help="Also serve health and metrics here, in plain HTTP: probes have no certificate.",
    )
    token_file: str = setting(
        "--token-file",
        metavar="FILE",
        help="Callers must send this token: as bearer, or as the password in urlPrefix.",
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
    return read_args(_tree_in("--args-file", args_file, locate))


def placement_args_of(args_file: str, locate: Locate) -> dict[str, object]:
    """Return how pods are placed where no kubelet aligns them; the plugin that does it judges it.

    Raises:
        ConfigError: the file cannot be read.
    """
    return _tree_in("--placement-args-file", args_file, locate)


def _tree_in(option: str, path: str, locate: Locate) -> dict[str, object]:
    if not path:
        return {}
    try:
        text = locate(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {path}: {error.strerror}") from None
    tree = load_yaml(text, path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{option} {path}: not a mapping")
    return tree
