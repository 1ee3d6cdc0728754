"""The settings that every long-running process has: cluster, logs, and where it serves.

SETTINGS = Settings((*CONNECTION, *LOGS, *serving_settings(8080), ...))
config = cluster_of(values, env=env, root=root)
listen = listen_of(values, path=Path)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from numakube.apps.host.certificates import VERSIONS, TlsFiles
from numakube.apps.host.serving import Listen, parse_address
from numakube.apps.host.settings import Setting
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from numakube.kube.config import ClusterConfig

Locate: TypeAlias = Callable[[str], Path]
"""Where a path of the process really is: elsewhere if it runs in a container of the lab."""

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

CONNECTION: Final = (
    Setting(
        name="kubeconfig",
        flag="--kubeconfig",
        metavar="FILE",
        key="global.kubeconfig",
        help="How to reach the cluster; by default as kubectl does, or the pod's own account.",
    ),
    Setting(name="context", flag="--context", help="Context of the kubeconfig to use."),
)

LOGS: Final = (
    Setting(
        name="log_level",
        flag="--log-level",
        type=click.Choice(LEVELS),
        default="info",
        key="global.logLevel",
        help="Least important events to log.",
    ),
    Setting(
        name="log_format",
        flag="--log-format",
        type=click.Choice(FORMATS),
        default="text",
        key="global.logFormat",
        help="Form of the log.",
    ),
)


def serving_settings(
    port: int, *, section: str = "serving", served: str = "health and metrics"
) -> tuple[Setting, ...]:
    """Return the settings of where health and metrics are served, by default on *port*."""
    return (
        Setting(
            name="bind_address",
            flag="--bind-address",
            metavar="HOST:PORT",
            default=f"127.0.0.1:{port}",
            key=f"{section}.bindAddress",
            help=f"Where to serve {served}; port 0 takes a free one.",
        ),
        Setting(
            name="tls_cert_file",
            flag="--tls-cert-file",
            metavar="FILE",
            key=f"{section}.tlsCertFile",
            help="Certificate with its chain, for HTTPS.",
        ),
        Setting(
            name="tls_key_file",
            flag="--tls-key-file",
            metavar="FILE",
            key=f"{section}.tlsKeyFile",
            help="Key of the certificate.",
        ),
        Setting(
            name="tls_client_ca_file",
            flag="--tls-client-ca-file",
            metavar="FILE",
            key=f"{section}.tlsClientCAFile",
            help="Ask clients for a certificate of this authority.",
        ),
        Setting(
            name="tls_min_version",
            flag="--tls-min-version",
            type=click.Choice(tuple(VERSIONS)),
            default="VersionTLS12",
            key=f"{section}.tlsMinVersion",
            help="Least version of TLS.",
        ),
        Setting(
            name="insecure_serving",
            flag="--insecure-serving/--no-insecure-serving",
            default=False,
            key=f"{section}.insecure",
            help="Serve plain HTTP, and whoever calls, even where others can reach it.",
        ),
    )


def cluster_of(
    values: Mapping[str, Any], *, env: Mapping[str, str], root: Path = Path("/")
) -> ClusterConfig:
    """Return how to reach the cluster; *root* is where the pod's account is mounted.

    Raises:
        ConfigError: nothing says how.
    """
    # Not every process has a cluster; one that has none does without the memory.
    from numakube.kube.config import load_config

    kubeconfig, context = values["kubeconfig"] or None, values["context"] or None
    # Another root is another file system: the home directory of this one is none of its business.
    home = None if root == Path("/") else root
    return load_config(kubeconfig=kubeconfig, context=context, env=env, home=home, root=root)


def listen_of(values: Mapping[str, Any], *, locate: Locate = Path) -> Listen:
    """Return where to serve.

    Raises:
        ConfigError: the settings contradict each other.
    """
    host, port = parse_address(values["bind_address"])
    certificate, key = values["tls_cert_file"], values["tls_key_file"]
    if bool(certificate) != bool(key):
        raise ConfigError("--tls-cert-file and --tls-key-file must be given together")
    tls = None
    if certificate:
        authority = values["tls_client_ca_file"]
        tls = TlsFiles(
            certificate=locate(certificate),
            key=locate(key),
            client_authority=locate(authority) if authority else None,
            min_version=values["tls_min_version"],
        )
    return Listen(host=host, port=port, tls=tls, plain=values["insecure_serving"])
