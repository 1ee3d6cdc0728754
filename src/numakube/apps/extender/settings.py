"""The options of the extender."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from numakube.api.yamls import load_yaml
from numakube.apps.extender.pending_binds import HOLD_SECONDS
from numakube.apps.extender.verb_endpoints import MAX_BODY_BYTES
from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import DURATION, Setting, Settings
from numakube.apps.recording import RECORDER
from numakube.errors import ConfigError
from numakube.scheduling.numa.topology_match_args import read_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.host.common_settings import Locate
    from numakube.scheduling.numa.topology_match_args import Settings as NumaSettings

PORT: Final = 10263
NAMESPACE: Final = "numakube"

SETTINGS: Final = Settings(
    (
        Setting(
            name="args_file",
            flag="--args-file",
            metavar="FILE",
            help="NodeResourceTopologyMatchArgs: how nodes are judged and pods accounted for.",
        ),
        Setting(
            name="claims",
            flag="--claims/--no-claims",
            default=True,
            help="Whether binds go through a lease of each node; only a single replica may do "
            "without.",
        ),
        Setting(
            name="namespace",
            flag="--namespace",
            metavar="NAME",
            default=NAMESPACE,
            env="POD_NAMESPACE",
            help="Where those leases are.",
        ),
        Setting(
            name="hold_seconds",
            flag="--hold",
            type=DURATION,
            default=HOLD_SECONDS,
            help="How long room is kept for a pod until kube-scheduler binds it.",
        ),
        Setting(
            name="max_body_bytes",
            flag="--max-request-bytes",
            type=click.IntRange(min=1 << 16),
            default=MAX_BODY_BYTES,
            help="Largest request.",
        ),
        Setting(
            name="health_address",
            flag="--health-address",
            metavar="HOST:PORT",
            help="Serve health and metrics here too, in plain HTTP: probes show no certificate.",
        ),
        Setting(
            name="token_file",
            flag="--token-file",
            metavar="FILE",
            help="Callers must show this token: as bearer, or as the password in urlPrefix.",
        ),
        *RECORDER,
        *CONNECTION,
        *LOGS,
        *serving_settings(PORT),
    )
)


def numa_settings_of(values: Mapping[str, Any], locate: Locate) -> NumaSettings:
    """Return how nodes are judged.

    Raises:
        ConfigError: the file cannot be read, or makes no sense.
    """
    path = values["args_file"]
    if not path:
        return read_args({})
    try:
        text = locate(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--args-file {path}: {error.strerror}") from None
    tree = load_yaml(text, path)
    if not isinstance(tree, dict):
        raise ConfigError(f"--args-file {path}: not a mapping")
    return read_args(tree)
