"""How the scheduler that is deployed is configured: by options, or by a file of the user's.

Both end as a KubeSchedulerConfiguration of which every plugin has been made once, so that a mistake
is found before anything is deployed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.api.scheduler_config import (
    NUMA_PLUGIN,
    SCHEDULER_NAME,
    configuration_tree,
    numa_configuration,
)
from numakube.api.yaml_text import load_yaml
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FILE: Final = "--scheduler-config"
_ARG: Final = "--scheduler-arg"


@dataclass(frozen=True, slots=True)
class ConfiguredScheduler:
    """What pods name, and the configuration; ``None`` for the usual one."""

    name: str = SCHEDULER_NAME
    configuration: dict[str, Any] | None = None


def scheduler_configuration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare how the scheduler is configured; it arrives as ``scheduler``."""

    @click.option(
        "--scheduler-name",
        "--sched-profile-name",
        "names",
        multiple=True,
        metavar="NAME",
        help="What pods name in spec.schedulerName; repeat it for several profiles."
        f"  [default: {SCHEDULER_NAME}]",
    )
    @click.option(
        _ARG,
        "arguments",
        multiple=True,
        metavar="FIELD=VALUE",
        help=f"An argument of {NUMA_PLUGIN} in every profile, such as cache.kind=overreserve,"
        " cache.foreignPodsDetect=OnlyExclusiveResources, cacheResyncPeriodSeconds=10 or"
        " scoringStrategy.type=LeastNUMANodes; can be repeated.",
    )
    @click.option(
        _FILE,
        "path",
        type=click.Path(exists=True, dir_okay=False),
        help="A KubeSchedulerConfiguration of your own, with its profiles, instead of the above.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: object,
        names: tuple[str, ...],
        arguments: tuple[str, ...],
        path: str | None,
        **others: object,
    ) -> object:
        if path is None:
            scheduler = configured_by_options(names, arguments)
        elif names or arguments:
            raise click.UsageError(f"{_FILE} has names and arguments of its own.")
        else:
            scheduler = configured_by_file(path)
        return command(*args, scheduler=scheduler, **others)

    return wrapped


def configured_by_file(path: str) -> ConfiguredScheduler:
    """Return what the file at *path* says; raise `ConfigError` if a scheduler refuses it."""
    tree = load_yaml(Path(path).read_text(encoding="utf-8"), path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{_FILE} {path}: not a mapping")
    return _tried(_without_kubeconfig(tree, path), path)


def _without_kubeconfig(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """Return *tree* without the kubeconfig of its cluster, a file that its pods do not have."""
    connection = tree.get("clientConnection")
    if not isinstance(connection, dict) or not connection.get("kubeconfig"):
        return tree
    field = "clientConnection.kubeconfig"
    click.echo(f"warning: {path}: {field} is left out: pods use their account", err=True)
    kept = {name: value for name, value in connection.items() if name != "kubeconfig"}
    return {**tree, "clientConnection": kept}


def configured_by_options(names: tuple[str, ...], arguments: Iterable[str]) -> ConfiguredScheduler:
    """Return what the options say; raise `ConfigError` if a scheduler refuses it."""
    told: dict[str, Any] = {}
    for argument in arguments:
        _put(told, argument)
    chosen = names or (SCHEDULER_NAME,)
    if len(chosen) == 1 and not told:
        return ConfiguredScheduler(chosen[0])
    return _tried(configuration_tree(numa_configuration(chosen, told)), _ARG)


def _put(tree: dict[str, Any], argument: str) -> None:
    """Put ``a.b=value`` into *tree*; the value is YAML."""
    path, equals, text = argument.partition("=")
    *parents, last = path.split(".")
    if not equals or not all((*parents, last)):
        raise ConfigError(f"{_ARG} {argument}: FIELD=VALUE is expected")
    for name in parents:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{_ARG} {argument}: {name} has a value already")
    tree[last] = load_yaml(text, f"{_ARG} {argument}")


def _tried(tree: dict[str, Any], source: str) -> ConfiguredScheduler:
    from numakube.insight.scheduler_engine import tried

    config = tried(tree, source, lambda note: click.echo(f"warning: {source}: {note}", err=True))
    return ConfiguredScheduler(config.profiles[0].scheduler_name, tree)
