"""Commands that look at a cluster: the options they share, and the facts they get.

    @click.command("top")
    @cluster_options
    @namespace_option
    @all_namespaces_option
    def command(cluster: ClusterOptions, namespace: str, all_namespaces: bool, ...):
        facts = facts_for(cluster, what=ZONES)

Facts come from the live cluster, as kubectl would reach it, or from a bundle (``--from``); what
follows cannot tell the difference.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.connection_options import (
    ClusterOptions,
    config_for,
    connected,
    connection_options,
    current_cluster,
)
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numakube.insight.collected import Collected
    from numakube.insight.facts import ClusterFacts

_ORPHANS_NAMED: Final = 5
LIVE: Final = "live"
"""What --from takes for the cluster itself, which is also the default."""


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare how to reach a cluster, or ``--from``; it arrives as ``cluster``."""

    @connection_options()
    @click.option(
        "--from",
        "bundle",
        metavar="FILE",
        help="Look at this bundle or dump instead of a live cluster: see `help topic sources`.",
    )
    @functools.wraps(command)
    def wrapped(*args: object, bundle: str | None, **others: object) -> object:
        cluster = current_cluster()
        bundle = None if bundle == LIVE else bundle
        if bundle is not None and (cluster.kubeconfig or cluster.context or cluster.server):
            raise click.UsageError("--from is a file, for which there is no kubeconfig or context.")
        return command(*args, cluster=replace(cluster, bundle=bundle), **others)

    return wrapped


def namespace_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-n``; it arrives as ``namespace``, empty if not given (see `namespace_for`)."""
    option = click.option(
        "-n",
        "--namespace",
        default="",
        type=ObjectName("namespace"),
        metavar="NAME",
        help="Namespace; by default as for kubectl.",
    )
    return option(command)


def all_namespaces_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-A``; it arrives as ``all_namespaces``."""
    option = click.option("-A", "--all-namespaces", is_flag=True, help="Look at every namespace.")
    return option(command)


def selector_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare ``-l``; it arrives as ``selector``, the text of a label selector."""
    option = click.option(
        "-l", "--selector", default="", metavar="SELECTOR", help="Only objects with these labels."
    )
    return option(command)


def namespace_for(cluster: ClusterOptions, namespace: str) -> str:
    """Return the namespace to work in: the given one, or that of the context."""
    if namespace or not cluster.live:
        return namespace or "default"
    return config_for(cluster).namespace or "default"


def pod_place(cluster: ClusterOptions, namespace: str, name: str) -> tuple[str, str]:
    """Return namespace and name of a pod, whose name may have its namespace before it."""
    if "/" in name and not namespace:
        space, _, bare = name.partition("/")
        return space, bare
    return namespace_for(cluster, namespace), name


def facts_for(cluster: ClusterOptions, *, what: Collection[str] | None = None) -> ClusterFacts:
    """Return what is known of the cluster; *what* limits what is read of a live one.

    Raises:
        ClusterUnreachable: it does not answer.
        ConfigError: nothing says where it is.
    """
    from numakube.insight.facts import facts_of

    return facts_of(collected_for(cluster, what=what))


def warn_of_refusal(facts: ClusterFacts) -> None:
    """Say, once and apart from the output, that the user may not read reports, or claims."""
    from numakube.insight.collected import RESOURCE_CLAIMS, RESOURCE_SLICES
    from numakube.insight.list_reading import ROLE

    texts = [facts.why_no_reports] if facts.why_no_reports else []
    if any(pod.spec.resource_claims for pod in facts.pods):
        missing = facts.missing(RESOURCE_CLAIMS) or facts.missing(RESOURCE_SLICES)
        if missing is not None and missing.right:
            texts.append(f"devices of claims are not shown: you may not {missing.right}")
    for text in texts:
        click.echo(f"warning: {text}; the ClusterRole {ROLE}, a part of view, allows it", err=True)


def warn_of_orphans(facts: ClusterFacts) -> None:
    """Say, apart from the output, which nodes are reckoned since their exporters are gone."""
    orphans = list(facts.orphans())
    for node, why in orphans[:_ORPHANS_NAMED]:
        click.echo(f"warning: {node}: {why}", err=True)
    if more := orphans[_ORPHANS_NAMED:]:
        click.echo(f"warning: the exporters of {len(more)} more nodes are gone", err=True)


def collected_for(cluster: ClusterOptions, *, what: Collection[str] | None = None) -> Collected:
    """Return what `facts_for` makes facts of."""
    if cluster.bundle is not None:
        from numakube.apps.cluster_file import read_cluster

        return read_cluster(_content(cluster.bundle), cluster.bundle)
    return asyncio.run(_gathered(cluster, what))


async def _gathered(cluster: ClusterOptions, what: Collection[str] | None) -> Collected:
    from numakube.apps.gathering import EVERYTHING, gather

    async with connected(cluster) as client:
        return await gather(client, what=EVERYTHING if what is None else what)


def _content(bundle: str) -> bytes:
    if bundle == "-":
        return sys.stdin.buffer.read()
    path = Path(bundle)
    if path.is_dir():
        raise ConfigError(f"{bundle}: a directory; --from takes a bundle or a dump")
    return path.read_bytes()
