"""Commands that look at a cluster: the options they share, and the facts they get.

    @click.command("top")
    @cluster_options
    @namespace_options
    def command(cluster: ClusterOptions, namespace: str, all_namespaces: bool, ...):
        facts = facts_for(cluster, what=ZONES)

Facts come from the live cluster, as kubectl would reach it, or from a bundle (``--from``); what
follows cannot tell the difference.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numakube.insight.collected import Collected
    from numakube.insight.facts import ClusterFacts
    from numakube.kube.config import ClusterConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Where a command looks.

    Attributes:
        bundle: a file of ``kubectl numa bundle``; ``-`` for standard input, ``None`` for live.
    """

    kubeconfig: str | None = None
    context: str | None = None
    bundle: str | None = None

    @property
    def live(self) -> bool:
        """Whether a cluster is asked, rather than a file."""
        return self.bundle is None


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``--kubeconfig``, ``--context`` and ``--from``; they arrive as ``cluster``."""

    @click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig to use.")
    @click.option(
        "--from",
        "bundle",
        metavar="FILE",
        help="Look at this bundle (of `kubectl numa bundle`) instead of a live cluster.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: object,
        kubeconfig: str | None,
        context: str | None,
        bundle: str | None,
        **others: object,
    ) -> object:
        if bundle is not None and (kubeconfig or context):
            raise click.UsageError("--from is a file, for which there is no kubeconfig or context.")
        cluster = ClusterOptions(kubeconfig=kubeconfig, context=context, bundle=bundle)
        return command(*args, cluster=cluster, **others)

    return wrapped


def namespace_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-n``; it arrives as ``namespace``, empty if not given (see `namespace_for`)."""
    option = click.option(
        "-n", "--namespace", default="", metavar="NAME", help="Namespace; as kubectl's by default."
    )
    return option(command)


def all_namespaces_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-A``; it arrives as ``all_namespaces``."""
    option = click.option("-A", "--all-namespaces", is_flag=True, help="Look at every namespace.")
    return option(command)


def selector_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-l``; it arrives as ``selector``, the text of a label selector."""
    option = click.option(
        "-l", "--selector", default="", metavar="SELECTOR", help="Only what has these labels."
    )
    return option(command)


def namespace_for(cluster: ClusterOptions, namespace: str) -> str:
    """Return the namespace to work in: the given one, or that of the context."""
    if namespace or not cluster.live:
        return namespace or "default"
    return _config(cluster).namespace or "default"


def facts_for(cluster: ClusterOptions, *, what: Collection[str] | None = None) -> ClusterFacts:
    """Return what is known of the cluster; *what* limits what is read of a live one.

    Raises:
        ClusterUnreachable: it does not answer.
        ConfigError: nothing says where it is.
    """
    from numakube.insight.facts import facts_of

    return facts_of(collected_for(cluster, what=what))


def collected_for(cluster: ClusterOptions, *, what: Collection[str] | None = None) -> Collected:
    """Return what `facts_for` makes facts of."""
    if cluster.bundle is not None:
        from numakube.apps.bundle import unpack

        return unpack(_content(cluster.bundle), name=cluster.bundle)
    return asyncio.run(_gathered(cluster, what))


async def _gathered(cluster: ClusterOptions, what: Collection[str] | None) -> Collected:
    import structlog

    from numakube.apps.gathering import EVERYTHING, gather
    from numakube.cli.logs import configure_logs
    from numakube.kube.connect import connect

    if not structlog.is_configured():
        configure_logs("error", "text")
    config = _config(cluster)
    async with connect(config, interactive=sys.stdin.isatty(), user_agent="kubectl-numa") as client:
        return await gather(client, what=EVERYTHING if what is None else what)


def _config(cluster: ClusterOptions) -> ClusterConfig:
    from numakube.kube.config import load_config

    return load_config(kubeconfig=cluster.kubeconfig, context=cluster.context, env=os.environ)


def _content(bundle: str) -> bytes:
    if bundle == "-":
        return sys.stdin.buffer.read()
    path = Path(bundle)
    if path.is_dir():
        raise ConfigError(f"{bundle}: a directory; --from takes a file of `kubectl numa bundle`")
    return path.read_bytes()
