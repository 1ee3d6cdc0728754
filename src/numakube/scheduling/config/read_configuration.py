"""Reading and checking a KubeSchedulerConfiguration, and making its profiles.

A file for kube-scheduler with upstream's plugin works unchanged, an older version of it with notes
on what to write today. What we do not do is said at once and by name, rather than ignored:
extenders, and plugins that do not exist here. What makes no difference here is a warning: see
`unused_settings`. All other fields are honoured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.annexes import Group, added_to
from numakube.api.codec import convert
from numakube.api.scheduler_config import (
    API_VERSION,
    DEFAULT_SCHEDULER,
    KIND,
    MAIN_LEASE,
    POINT_FIELDS,
    KubeSchedulerConfiguration,
    PluginRef,
    Plugins,
    PluginSet,
)
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.scheduling.config.older_versions import OLDER, upgraded
from numakube.scheduling.framework.registry import POINTS, Profile, unknown_fields
from numakube.scheduling.framework.runtime import Runtime
from numakube.values.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.scheduler_config import ProfileConfig
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.registry import Handle, Registry


# ------------------------------------------------------------------------------------------------
# Which plugins a profile has at which point, and making them.
#
# The rules are kube-scheduler's (1.37): a profile's own settings are merged into the defaults,
# plugin by plugin; a plugin under ``multiPoint`` takes part wherever it can; what is said of a
# single point wins there, and such plugins come first.

_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a profile has unless it says otherwise, all of it under ``multiPoint``."""

    plugins: tuple[PluginRef, ...]

    def merged(self, plugins: Plugins) -> Plugins:
        """Return *plugins* with the defaults."""
        own = plugins.multi_point
        changed = PluginSet(enabled=_merge(self.plugins, own), disabled=own.disabled)
        fields = {name: getattr(plugins, name) for name in POINT_FIELDS.values()}
        return Plugins(**fields, multi_point=changed)


def _merge(defaults: Sequence[PluginRef], own: PluginSet) -> tuple[PluginRef, ...]:
    """Return *defaults* less those disabled; one that *own* enables again keeps its position."""
    disabled = {plugin.name for plugin in own.disabled}
    if _ALL in disabled:
        return own.enabled
    enabled = {plugin.name: plugin for plugin in own.enabled}
    kept = [
        enabled.get(default.name, default) for default in defaults if default.name not in disabled
    ]
    known = {plugin.name for plugin in kept}
    return (*kept, *(plugin for plugin in own.enabled if plugin.name not in known))


def make_runtime(
    config: ProfileConfig, *, defaults: Defaults, registry: Registry, handle: Handle
) -> Runtime:
    """Make the plugins of a profile; raise `ConfigError` naming the profile and the plugin."""
    where = f"profile {config.scheduler_name}"
    plugins = defaults.merged(config.plugins)
    args = {other.name: other.args for other in config.plugin_config}
    names = _named(plugins)
    missing = [name for name in (*names, *args) if name not in registry]
    if missing:
        raise ConfigError(f"{where}: there is no plugin {_absent(missing[0], registry)}")
    made = {name: _make(name, args.get(name, {}), registry, handle, where) for name in names}
    points = {point: _at_point(point, plugins, made, where) for point in POINTS}
    _check(points, where)
    runtime = Runtime(Profile(config.scheduler_name, points, _weights(plugins, where)))
    handle.runtime = runtime
    return runtime


def _absent(name: str, registry: Registry) -> str:
    """Say what there is instead of plugin *name*, or what brings it."""
    annex = added_to(Group.PLUGINS).get(name)
    if annex is None:
        return f"{name} here; known are {', '.join(registry)}"
    return f"{name} here: pip install 'numakube[{annex.extra}]' brings it"


def _named(plugins: Plugins) -> list[str]:
    sets = [plugins.multi_point, *(getattr(plugins, name) for name in POINT_FIELDS.values())]
    return list(dict.fromkeys(member.name for members in sets for member in members.enabled))


def _make(
    name: str, args: Mapping[str, object], registry: Registry, handle: Handle, where: str
) -> Plugin:
    try:
        return registry[name](args, handle)
    except (ConfigError, MalformedObject) as error:
        raise ConfigError(f"{where}: pluginConfig of {name}: {error}") from None


def _at_point(
    point: str, plugins: Plugins, made: Mapping[str, Plugin], where: str
) -> tuple[Plugin, ...]:
    own: PluginSet = getattr(plugins, POINT_FIELDS[point])
    disabled = {plugin.name for plugin in own.disabled}
    chosen = [plugin.name for plugin in own.enabled]
    for name in chosen:
        if not isinstance(made[name], POINTS[point]):
            raise ConfigError(f"{where}: plugin {name} cannot take part at {point}")
    general: list[str] = []
    if _ALL not in disabled:
        general = [
            plugin.name
            for plugin in plugins.multi_point.enabled
            if plugin.name not in disabled and isinstance(made[plugin.name], POINTS[point])
        ]
    # Plugins named at the point that multiPoint has too come first, then the rest of multiPoint.
    order = [name for name in chosen if name in general]
    order += [name for name in general if name not in chosen]
    order += [name for name in chosen if name not in general]
    order += [name for name in made if point in made[name].insists_on and name not in order]
    return tuple(made[name] for name in order)


def _check(points: Mapping[str, Sequence[Plugin]], where: str) -> None:
    sorters = [point.name for point in points["queueSort"]]
    if len(sorters) != 1:
        raise ConfigError(f"{where}: exactly one plugin must sort the queue, not {sorters}")
    if not points["bind"]:
        raise ConfigError(f"{where}: no plugin binds pods")


def _weights(plugins: Plugins, where: str) -> dict[str, int]:
    weights: dict[str, int] = {}
    named: Iterable[PluginRef] = (*plugins.multi_point.enabled, *plugins.score.enabled)
    for plugin in named:
        weights[plugin.name] = 1 if plugin.weight is None or plugin.weight == 0 else plugin.weight
        if weights[plugin.name] < 0:
            raise ConfigError(f"{where}: plugin {plugin.name}: the weight must not be negative")
    return weights


# ------------------------------------------------------------------------------------------------
# Reading and checking a KubeSchedulerConfiguration.

_ALL_NODES: Final = 100
"""Percent."""
_LOCK: Final = "leases"
_JSON: Final = "application/json"
_NO_PROFILES: Final = "there is no /debug/pprof here"


def _ignored(note: str) -> None:
    del note


def read_configuration(
    tree: Mapping[str, object], *, source: str = KIND, note: Callable[[str], None] = _ignored
) -> KubeSchedulerConfiguration:
    """Return the configuration in *tree*, a parsed file.

    Args:
        tree: what the file has.
        source: where it is from.
        note: gets a sentence for everything that is to be written otherwise today.

    Raises:
        ConfigError: it is wrong; the message names the field.
    """
    if tree.get("kind") != KIND or tree.get("apiVersion") not in (API_VERSION, *OLDER):
        raise ConfigError(
            f"{source}: this is {tree.get('apiVersion')} {tree.get('kind')}, "
            f"not a {KIND} of {API_VERSION}"
        )
    try:
        tree = tree if tree["apiVersion"] == API_VERSION else upgraded(tree, note, source)
        config = convert(KubeSchedulerConfiguration, tree, source)
    except MalformedObject as error:
        raise ConfigError(str(error)) from None
    config = _with_lease(config, tree.get("leaderElection"))
    problems = [*unknown_fields(tree), *_problems(config)]
    if problems:
        raise ConfigError(f"{source}: " + "; ".join(problems))
    return config


def _with_lease(config: KubeSchedulerConfiguration, told: object) -> KubeSchedulerConfiguration:
    """Return *config* with a lease where *told*, the election of the file, leaves it open."""
    election = config.leader_election
    named = isinstance(told, dict) and told.get("resourceName")
    settled = msgspec.structs.replace(
        election,
        resource_name=election.resource_name if named else config.own_lease,
        resource_namespace=election.resource_namespace or MAIN_LEASE[0],
        resource_lock=election.resource_lock or _LOCK,
    )
    return msgspec.structs.replace(config, leader_election=settled)


def unused_settings(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield what the configuration asks for that has no effect here, or not the expected one."""
    for path, percentage in _percentages(config):
        if percentage not in (None, _ALL_NODES):
            yield f"{path} has no effect: every node is filtered and scored for every pod"
    connection = config.client_connection
    unused = {
        "parallelism": (config.parallelism, "all nodes are looked at together"),
        "enableProfiling": (config.enable_profiling, _NO_PROFILES),
        "enableContentionProfiling": (config.enable_contention_profiling, _NO_PROFILES),
        "delayCacheUntilActive": (
            config.delay_cache_until_active,
            "caches are filled before the lease is taken, so that another takes over at once",
        ),
    }
    for path, (value, why) in unused.items():
        if value:
            yield f"{path} has no effect: {why}"
    for path, types in (
        ("clientConnection.acceptContentTypes", connection.accept_content_types),
        ("clientConnection.contentType", connection.content_type),
    ):
        if types not in ("", _JSON):
            yield f"{path} has no effect: requests and answers are {_JSON}"
    yield from _foreign_lease(config)


def _foreign_lease(config: KubeSchedulerConfiguration) -> Iterator[str]:
    election = config.leader_election
    lease = (election.resource_namespace, election.resource_name)
    if election.leader_elect and lease == MAIN_LEASE and not config.serves_default:
        yield (
            f"leaderElection: {'/'.join(lease)} is kube-scheduler's lease, and no profile serves"
            f" {DEFAULT_SCHEDULER}: only one of the two works at a time. Give another resourceName"
        )


def _percentages(config: KubeSchedulerConfiguration) -> Iterator[tuple[str, int | None]]:
    name = "percentageOfNodesToScore"
    yield name, config.percentage_of_nodes_to_score
    for position, profile in enumerate(config.profiles):
        yield f"profiles[{position}].{name}", profile.percentage_of_nodes_to_score


def _problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    for path, percentage in _percentages(config):
        if percentage is not None and not 0 <= percentage <= _ALL_NODES:
            yield f"{path}: {percentage} is not between 0 and {_ALL_NODES}"
    yield from _client_problems(config)
    if config.extenders:
        yield "extenders: this scheduler calls none; use kube-scheduler with `numakube extender`"
    if config.pod_initial_backoff_seconds <= 0:
        yield "podInitialBackoffSeconds: must be greater than 0"
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        yield "podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds"
    yield from _profile_problems(config)
    yield from _lease_problems(config)


def _client_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    if config.parallelism is not None and config.parallelism <= 0:
        yield "parallelism: must be greater than 0"
    if config.client_connection.burst < 0:
        yield "clientConnection.burst: must not be negative"


def _profile_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    seen: set[str] = set()
    for position, profile in enumerate(config.profiles):
        path = f"profiles[{position}]"
        if not profile.scheduler_name:
            yield f"{path}.schedulerName: required"
        if profile.scheduler_name in seen:
            yield f"{path}.schedulerName: {profile.scheduler_name} is in another profile already"
        seen.add(profile.scheduler_name)
        named = [other.name for other in profile.plugin_config]
        for name in sorted({one for one in named if named.count(one) > 1}):
            yield f"{path}.pluginConfig: {name} appears more than once"


def _lease_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    election = config.leader_election
    if not election.leader_elect:
        return
    try:
        times = [
            parse_duration(text)
            for text in (election.lease_duration, election.renew_deadline, election.retry_period)
        ]
    except InvalidValue as error:
        yield f"leaderElection: {error}"
        return
    if not times[0] > times[1] > times[2]:
        yield "leaderElection: leaseDuration must exceed renewDeadline, and that retryPeriod"
    if election.resource_lock != _LOCK:
        yield f"leaderElection.resourceLock: {election.resource_lock} is not supported: use {_LOCK}"
