"""Which plugins a profile has at which point, and making them.

The rules are kube-scheduler's (1.35): a profile's own settings are merged into the defaults, plugin
by plugin; a plugin under ``multiPoint`` takes part wherever it can; what is said of a single point
wins there, and such plugins come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.scheduler_config import POINT_FIELDS, PluginRef, Plugins, PluginSet
from numakube.errors import ConfigError, MalformedObject
from numakube.scheduling.framework.profile import POINTS, Profile
from numakube.scheduling.framework.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.scheduler_config import ProfileConfig
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.registry import Handle, Registry

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
    disabled = {one.name for one in own.disabled}
    if _ALL in disabled:
        return own.enabled
    enabled = {one.name: one for one in own.enabled}
    kept = [enabled.get(one.name, one) for one in defaults if one.name not in disabled]
    known = {one.name for one in kept}
    return (*kept, *(one for one in own.enabled if one.name not in known))


def make_runtime(
    config: ProfileConfig, *, defaults: Defaults, registry: Registry, handle: Handle
) -> Runtime:
    """Make the plugins of a profile; raise `ConfigError` naming the profile and the plugin."""
    where = f"profile {config.scheduler_name}"
    plugins = defaults.merged(config.plugins)
    args = {one.name: one.args for one in config.plugin_config}
    names = _named(plugins)
    missing = [name for name in (*names, *args) if name not in registry]
    if missing:
        raise ConfigError(
            f"{where}: there is no plugin {missing[0]} here; known are {', '.join(registry)}"
        )
    made = {name: _make(name, args.get(name, {}), registry, handle, where) for name in names}
    points = {point: _at_point(point, plugins, made, where) for point in POINTS}
    _check(points, where)
    runtime = Runtime(Profile(config.scheduler_name, points, _weights(plugins, where)))
    handle.runtime = runtime
    return runtime


def _named(plugins: Plugins) -> list[str]:
    sets = [plugins.multi_point, *(getattr(plugins, name) for name in POINT_FIELDS.values())]
    return list(dict.fromkeys(one.name for members in sets for one in members.enabled))


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
    disabled = {one.name for one in own.disabled}
    chosen = [one.name for one in own.enabled]
    for name in chosen:
        if not isinstance(made[name], POINTS[point]):
            raise ConfigError(f"{where}: plugin {name} cannot take part at {point}")
    general: list[str] = []
    if _ALL not in disabled:
        general = [
            one.name
            for one in plugins.multi_point.enabled
            if one.name not in disabled and isinstance(made[one.name], POINTS[point])
        ]
    # Plugins named at the point that multiPoint has too come first, then the rest of multiPoint.
    order = [name for name in chosen if name in general]
    order += [name for name in general if name not in chosen]
    order += [name for name in chosen if name not in general]
    order += [name for name in made if point in made[name].insists_on and name not in order]
    return tuple(made[name] for name in order)


def _check(points: Mapping[str, Sequence[Plugin]], where: str) -> None:
    sorters = [one.name for one in points["queueSort"]]
    if len(sorters) != 1:
        raise ConfigError(f"{where}: exactly one plugin must sort the queue, not {sorters}")
    if not points["bind"]:
        raise ConfigError(f"{where}: no plugin binds pods")


def _weights(plugins: Plugins, where: str) -> dict[str, int]:
    weights: dict[str, int] = {}
    named: Iterable[PluginRef] = (*plugins.multi_point.enabled, *plugins.score.enabled)
    for one in named:
        weights[one.name] = 1 if one.weight is None or one.weight == 0 else one.weight
        if weights[one.name] < 0:
            raise ConfigError(f"{where}: plugin {one.name}: the weight must not be negative")
    return weights
