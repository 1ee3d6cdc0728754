"""Configurations of kube-scheduler 1.19 to 1.28 (v1beta1 to v1beta3), turned into v1.

Fields kept their names from v1beta1 on; what changed are plugins. The three that rated nodes by
what is free (NodeResourcesLeastAllocated and its relatives) became strategies of NodeResourcesFit
(KEP-2458), some plugins were merged into others or removed, and the plugin of scheduler-plugins
0.19 to 0.22 had a connection of its own. Every change is a sentence that names the new field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.scheduler_config import (
    API_VERSION,
    KIND,
    NUMA_PLUGIN,
    KubeSchedulerConfiguration,
)
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Note = Callable[[str], None]
    Tree = dict[str, Any]

OLDER: Final = tuple(
    f"kubescheduler.config.k8s.io/{name}" for name in ("v1beta3", "v1beta2", "v1beta1")
)
_ADDRESSES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    OLDER[1:], ("healthzBindAddress", "metricsBindAddress")
)
"""Where health and metrics were served without TLS, up to v1beta2."""
_FIT: Final = "NodeResourcesFit"
_USUAL: Final = "NodeResourcesLeastAllocated"
_STRATEGIES: Final[Mapping[str, str]] = {
    _USUAL: "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_GONE: Final[Mapping[str, str]] = {
    "SelectorSpread": "the default constraints of PodTopologySpread do its work",
    "NodePreferAvoidPods": "use taints",
    **dict.fromkeys(
        ("EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"),
        "NodeVolumeLimits does its work",
    ),
}
_NO_EFFECT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("kubeconfigpath", "kubeConfigPath", "masteroverride", "masterOverride"),
        "write clientConnection.kubeconfig, or --kubeconfig",
    ),
    "namespaces": "reports of every namespace are read",
}
"""Arguments of the NUMA plugin of that time."""
_LOCKS: Final = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


def upgraded(tree: Mapping[str, Any], note: Note, source: str = KIND) -> dict[str, Any]:
    """Return *tree*, a configuration of an older version, as one of v1; *note* gets each change.

    Raises:
        ConfigError: v1 cannot say what it says.
        MalformedObject: a field has another type than it should.
    """
    version = tree["apiVersion"]
    note(f"apiVersion: {version} is deprecated: write {API_VERSION}")
    found = {**_without_nulls(tree), "apiVersion": API_VERSION}
    for field in _ADDRESSES.get(version, ()):
        if found.pop(field, None):
            note(f"{field} has no effect: write --bind-address")
    convert(KubeSchedulerConfiguration, found, source)
    if "profiles" in found:
        found["profiles"] = [
            _profile(one, f"profiles[{place}]", note) for place, one in enumerate(found["profiles"])
        ]
    election = found.get("leaderElection", {})
    if election.get("resourceLock") in _LOCKS:
        note(f"leaderElection.resourceLock: {election['resourceLock']} is now leases")
        found["leaderElection"] = {**election, "resourceLock": "leases"}
    return found


def _without_nulls(tree: Any) -> Any:  # noqa: ANN401 - any YAML
    """Return *tree* without fields that are null: to Go they are not there."""
    if isinstance(tree, Mapping):
        return {name: _without_nulls(one) for name, one in tree.items() if one is not None}
    return [_without_nulls(one) for one in tree] if isinstance(tree, list) else tree


def _profile(profile: Tree, path: str, note: Note) -> Tree:
    plugins = profile.get("plugins", {})
    named = list(_arguments(profile.get("pluginConfig", []), f"{path}.pluginConfig", note))
    arguments = _with_strategy(named, _strategy(plugins, path), path, note)
    sets = {
        point: _plugin_set(chosen, f"{path}.plugins.{point}", note)
        for point, chosen in plugins.items()
    }
    return {
        **profile,
        **({"plugins": sets} if sets else {}),
        **({"pluginConfig": arguments} if arguments or named else {}),
    }


def _plugin_set(chosen: Tree, path: str, note: Note) -> Tree:
    """Return the plugins of one point under their names of v1."""
    enabled, disabled = chosen.get("enabled", []), chosen.get("disabled", [])
    for entry in enabled:
        name = entry["name"]
        if name in _GONE:
            note(f"{path}.enabled: {name} does not exist any more: {_GONE[name]}")
        elif name in _STRATEGIES:
            note(f"{path}.enabled: {name} is now {_FIT} with scoringStrategy {_STRATEGIES[name]}")
    kept = [_renamed(entry) for entry in enabled if entry["name"] not in _GONE]
    # A strategy that gives way to another one is switched off by that.
    strategy = any(entry["name"] == _FIT for entry in kept)
    less = [entry for entry in disabled if not (strategy and entry["name"] in _STRATEGIES)]
    changed = {"enabled": kept, "disabled": [_renamed(one) for one in less]}
    return {**chosen, **{key: value for key, value in changed.items() if key in chosen}}


def _renamed(one: Tree) -> Tree:
    return {**one, "name": _FIT} if one["name"] in _STRATEGIES else one


def _strategy(plugins: Tree, path: str) -> str:
    """Return the plugin that a profile's nodes are rated by, if it is one of an older version."""
    enabled = plugins.get("score", {}).get("enabled", [])
    names = [entry["name"] for entry in enabled if entry["name"] in _STRATEGIES]
    if len(names) > 1:
        raise ConfigError(
            f"{path}.plugins.score.enabled: {' and '.join(names)} exclude each other:"
            f" {_FIT} has one scoringStrategy"
        )
    return names[0] if names else ""


def _arguments(listed: list[Tree], path: str, note: Note) -> Iterator[Tree]:
    for entry in listed:
        name, args = entry["name"], entry.get("args", {})
        where = f"{path}: {name}"
        if name in _GONE:
            note(f"{where} does not exist any more: {_GONE[name]}")
        elif name == NUMA_PLUGIN:
            yield {**entry, "args": _without_connection(args, where, note)}
        elif name == "PodTopologySpread":
            yield {**entry, "args": _with_defaulting(args, where, note)}
        else:
            yield entry


def _without_connection(args: Tree, where: str, note: Note) -> Tree:
    for field, instead in _NO_EFFECT.items():
        if field in args:
            note(f"{where}.{field} has no effect: {instead}")
    return {field: value for field, value in args.items() if field not in _NO_EFFECT}


def _with_defaulting(args: Tree, where: str, note: Note) -> Tree:
    if not args.get("defaultConstraints") or args.get("defaultingType"):
        return args
    note(f"{where}.defaultConstraints need defaultingType: List")
    return {**args, "defaultingType": "List"}


def _with_strategy(listed: list[Tree], plugin: str, path: str, note: Note) -> list[Tree]:
    """Return arguments with those of *plugin* as the scoring strategy of NodeResourcesFit."""
    named = {entry["name"]: entry.get("args", {}) for entry in listed}
    for name in _STRATEGIES:
        if name in named:
            field = f"{_FIT}.scoringStrategy"
            note(f"{path}.pluginConfig: {name} is now {field}: write its arguments there")
    # Nodes were rated by this one unless a profile said otherwise.
    plugin = plugin or next((name for name in named if name == _USUAL), "")
    kept = [entry for entry in listed if entry["name"] not in _STRATEGIES]
    if not plugin:
        return kept
    told = named.get(plugin, {})
    strategy: Tree = {"type": _STRATEGIES[plugin]}
    if "resources" in told:
        strategy["resources"] = told["resources"]
    if "shape" in told:
        strategy["requestedToCapacityRatio"] = {"shape": told["shape"]}
    fit = {"name": _FIT, "args": {**named.get(_FIT, {}), "scoringStrategy": strategy}}
    return [*(entry for entry in kept if entry["name"] != _FIT), fit]
