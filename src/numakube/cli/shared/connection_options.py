"""Which API server a command talks to, and as whom: kubectl's options, in one place.

    @click.command("resync")
    @live_options
    def command(cluster: ClusterOptions, ...):
        asyncio.run(work(cluster))

    async def work(cluster: ClusterOptions) -> None:
        async with connected(cluster) as client:
            ...

The options stand before the command or after it; what stands after wins. Only the usual ones are
in the help of each command, all of them are in the help of the program.
"""

from __future__ import annotations

import functools
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.errors import ClusterUnreachable, ConfigError, InvalidValue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from numakube.kube.client import Client
    from numakube.kube.connection.cluster_config import ClusterConfig

USER_AGENT: Final = "kubectl-numa"
_KEY: Final = "numakube.connection"
# A look at a cluster is repeated by hand; components on clusters are more patient.
_ATTEMPTS: Final = 3
_DETAILS: Final = 4
_EVENTS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Where a command looks.

    Attributes:
        kubeconfig: the file to read instead of the usual ones.
        context: the context in it, if not the current one.
        server: the API server's address, if not that of the context.
        user: in whose name to act.
        groups: of which groups that user is to be.
        timeout: seconds that a request may take; 0 for no limit of the user's.
        verbosity: how much to log, in kubectl's numbers.
        bundle: a file of ``kubectl numa bundle``; ``-`` for standard input, ``None`` for live.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    user: str | None = None
    groups: tuple[str, ...] = ()
    timeout: float = 0.0
    verbosity: int = 0
    bundle: str | None = None

    @property
    def live(self) -> bool:
        """Whether a cluster is asked, rather than a file."""
        return self.bundle is None

    def flags(self) -> dict[str, str]:
        """Return what was given of what programs have options of their own for."""
        flags = {"kubeconfig": self.kubeconfig, "context": self.context}
        return {name: text for name, text in flags.items() if text}

    @property
    def plain(self) -> bool:
        """Whether the kubeconfig says everything."""
        return not (self.server or self.user or self.groups or self.timeout or self.verbosity)


class Timeout(click.ParamType[Any]):
    """Seconds, or a duration as kubectl takes it: ``5s``, ``2m``."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        from numakube.values.times import SECOND, parse_duration

        text = f"{value}s" if str(value).isdecimal() else str(value)
        try:
            return parse_duration(text) / SECOND
        except InvalidValue as error:
            self.fail(f"{error}; write it as in 5s or 2m", param, ctx)


def _remembered(ctx: click.Context, param: click.Parameter, value: object) -> object:
    """Keep what was given where commands below find it; later options win."""
    if value not in (None, ()):
        ctx.meta.setdefault(_KEY, {})[param.name] = value
    return value


def _option(*names: str, **attributes: Any) -> Callable[..., Any]:  # noqa: ANN401 - click's
    return click.option(*names, callback=_remembered, expose_value=False, **attributes)


def connection_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare every option; they are found by `current_cluster`. Help hides the rarer ones."""
    options = (
        _option("--kubeconfig", metavar="FILE", help="How to reach the cluster."),
        _option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
        _option("-s", "--server", metavar="URL", hidden=True, help="Address of the API server."),
        _option("--as", "user", metavar="USER", hidden=True, help="Act in the name of USER."),
        _option(
            "--as-group",
            "groups",
            metavar="GROUP",
            multiple=True,
            hidden=True,
            help="And as one of GROUP; may be repeated.",
        ),
        _option(
            "--request-timeout",
            "timeout",
            type=Timeout(),
            metavar="DURATION",
            hidden=True,
            help="Give up a request after this time, such as 5s.",
        ),
        _option(
            "-v",
            "--v",
            "verbosity",
            type=click.IntRange(0),
            metavar="LEVEL",
            hidden=True,
            help="Log to standard error: 1 events, 4 and more every detail.",
        ),
    )

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return declare


def live_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare how to reach a cluster; it arrives as ``cluster``."""

    @connection_options()
    @functools.wraps(command)
    def wrapped(*args: object, **others: object) -> object:
        return command(*args, cluster=current_cluster(), **others)

    return wrapped


def current_cluster(ctx: click.Context | None = None) -> ClusterOptions:
    """Return what the command line that is running says."""
    context = ctx or click.get_current_context()
    return ClusterOptions(**context.meta.get(_KEY, {}))


def give_to_program(ctx: click.Context) -> None:
    """Give the program that is about to run what stands before its name and it has options for."""
    cluster, name = current_cluster(ctx), ctx.invoked_subcommand or ""
    if not cluster.plain:
        raise click.UsageError(f"{name} takes --kubeconfig and --context only.")
    ctx.default_map = {name: cluster.flags()}


def config_for(cluster: ClusterOptions) -> ClusterConfig:
    """Return how to reach the cluster.

    Raises:
        ConfigError: nothing says how.
        click.UsageError: the options contradict each other.
    """
    from numakube.kube.connection.cluster_config import (
        ClusterConfig,
        Impersonation,
        load_config,
        proxy_from_environment,
        server_url,
    )

    if cluster.groups and not cluster.user:
        raise click.UsageError("--as-group needs --as: a group has no name to act in.")
    try:
        config = load_config(kubeconfig=cluster.kubeconfig, context=cluster.context, env=os.environ)
    except ConfigError:
        if not cluster.server or cluster.kubeconfig or cluster.context:
            raise
        config = ClusterConfig(server=cluster.server)
    if cluster.server:
        server = server_url("--server", cluster.server)
        # What a kubeconfig names as its proxy stays; the environment's depends on the server.
        named_proxy = config.proxy_url != proxy_from_environment(os.environ, config.server)
        proxy = config.proxy_url if named_proxy else proxy_from_environment(os.environ, server)
        config = replace(config, server=server, proxy_url=proxy)
    if cluster.user:
        other = Impersonation(user=cluster.user, groups=cluster.groups)
        config = replace(config, user=replace(config.user, impersonation=other))
    return config


@asynccontextmanager
async def connected(
    cluster: ClusterOptions, *, user_agent: str = USER_AGENT, patient: bool = False
) -> AsyncIterator[Client]:
    """Give a client for the cluster; what cannot be reached is named.

    Args:
        cluster: what the command line says.
        user_agent: how to introduce ourselves.
        patient: try again for as long as components do.

    Raises:
        ClusterUnreachable: it does not answer; the message names context and server.
    """
    from numakube.kube.clock import RetryPolicy
    from numakube.kube.connect import connect

    _log_as_told(cluster.verbosity)
    config = config_for(cluster)
    async with connect(
        config,
        interactive=sys.stdin.isatty(),
        user_agent=user_agent,
        retry=None if patient else RetryPolicy(attempts=_ATTEMPTS),
        request_seconds=cluster.timeout or None,
    ) as client:
        try:
            yield client
        except ClusterUnreachable as error:
            raise named(error, config) from None


def named(error: ClusterUnreachable, config: ClusterConfig) -> ClusterUnreachable:
    """Return *error* with the server and the context that led to it."""
    by = f" of context {config.context!r}" if config.context else ""
    text = f"cannot reach the API server {config.server}{by}: {error}"
    return type(error)(text, sent=error.sent, refused=error.refused)


def _log_as_told(verbosity: int) -> None:
    """Keep the terminal for answers, unless details are asked for or logging is configured."""
    import structlog

    from numakube.cli.shared.log_options import configure_logs

    if not structlog.is_configured() or verbosity:
        level = "debug" if verbosity >= _DETAILS else "info" if verbosity >= _EVENTS else "error"
        configure_logs(level, "text")
