"""The settings that every long-running process has: cluster, logs, and where it serves.

class ExampleSettings:
    serving: ServingSettings = serving_on(8080)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)

config = cluster_of(settings.connection, env=env, root=root)
listen = listen_of(settings.serving, locate=Path)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from numakube.apps.host.certificates import VERSIONS, TlsFiles
from numakube.apps.host.http_serving import Listen, parse_address
from numakube.apps.host.log_levels import LEVELS, level_of_verbosity
from numakube.apps.host.settings_sources import group, setting
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.kube.connection.cluster_config import ClusterConfig

Locate: TypeAlias = Callable[[str], Path]
"""Where a path of the process really is: elsewhere if it runs in a container of the lab."""

FORMATS: Final = ("text", "json")

_SERVED: Final = "Where to serve {}; port 0 takes a free one."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach the cluster."""

    kubeconfig: str = setting(
        "--kubeconfig",
        key="global.kubeconfig",
        metavar="FILE",
        help="How to reach the cluster; by default as kubectl does, or the pod's own account.",
    )
    context: str = setting(
        "--context",
        help="Context of the kubeconfig to use.",
    )


class LogLevel(click.Choice[str]):
    """A level by its name, or by the number that Go programs have for it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is logged, and how."""

    log_level: str = setting(
        "--log-level",
        type=LogLevel(LEVELS),
        default="info",
        key="global.logLevel",
        help="Minimum level of events to log.",
    )
    log_format: str = setting(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        key="global.logFormat",
        help="Format of the log.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Whether several agree on one that works, and where."""

    leader_elect: bool = setting(
        "--leader-elect/--no-leader-elect",
        default=True,
        help="Whether several replicas elect a leader.",
    )
    namespace: str = setting(
        "--namespace",
        default="numakube",
        env="POD_NAMESPACE",
        metavar="NAME",
        help="Where the lease is.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Where health and metrics are served."""

    bind_address: str = setting(
        "--bind-address",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help=_SERVED.format("health and metrics"),
    )
    tls_cert_file: str = setting(
        "--tls-cert-file",
        metavar="FILE",
        help="Certificate with its chain, for HTTPS.",
    )
    tls_key_file: str = setting(
        "--tls-key-file --tls-private-key-file",
        metavar="FILE",
        help="Key of the certificate.",
    )
    tls_client_ca_file: str = setting(
        "--tls-client-ca-file",
        metavar="FILE",
        help="Ask clients for a certificate of this authority.",
    )
    tls_min_version: str = setting(
        "--tls-min-version",
        type=click.Choice(tuple(VERSIONS)),
        default="VersionTLS12",
        help="Minimum version of TLS.",
    )
    insecure_serving: bool = setting(
        "--insecure-serving/--no-insecure-serving",
        default=False,
        help="Serve plain HTTP to every client, even on addresses that others can reach.",
    )


def serving_on(port: int, served: str = "health and metrics") -> ServingSettings:
    """Return the field for where *served* is served, by default on *port* of loopback."""
    address = {"default": f"127.0.0.1:{port}", "help": _SERVED.format(served)}
    return group(ServingSettings, bind_address=address)


def cluster_of(
    connection: ConnectionSettings, *, env: Mapping[str, str], root: Path = Path("/")
) -> ClusterConfig:
    """Return how to reach the cluster; *root* is where the pod's account is mounted.

    Raises:
        ConfigError: nothing says how.
    """
    # Not every process has a cluster; one that has none does without the memory.
    from numakube.kube.connection.cluster_config import load_config

    kubeconfig, context = connection.kubeconfig or None, connection.context or None
    # Another root is another file system, in which this one's home directory does not exist.
    home = None if root == Path("/") else root
    return load_config(kubeconfig=kubeconfig, context=context, env=env, home=home, root=root)


def listen_of(serving: ServingSettings, *, locate: Locate = Path) -> Listen:
    """Return where to serve.

    Raises:
        ConfigError: the settings contradict each other.
    """
    host, port = parse_address(serving.bind_address)
    certificate, key = serving.tls_cert_file, serving.tls_key_file
    if bool(certificate) != bool(key):
        raise ConfigError("--tls-cert-file and --tls-key-file must be given together")
    tls = None
    if certificate:
        authority = serving.tls_client_ca_file
        tls = TlsFiles(
            certificate=locate(certificate),
            key=locate(key),
            client_authority=locate(authority) if authority else None,
            min_version=serving.tls_min_version,
        )
    return Listen(host=host, port=port, tls=tls, plain=serving.insecure_serving)
