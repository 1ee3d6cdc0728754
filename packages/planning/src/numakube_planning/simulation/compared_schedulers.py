"""How a cluster is run: its scheduler, what that knows of NUMA zones, and how kubelets are set.

Arms are compared side by side on the same cluster and workload. The schedulers are configurations
of the real one:

* ``least-allocated`` and ``most-allocated`` are NUMA-blind: kube-scheduler's default plugins, with
  its two ways of spreading or packing;
* ``upstream`` has the rules of the Go plugin NodeResourceTopologyMatch with its cache
  (``overreserve``) as its documentation recommends it, and reports of a given age;
* ``numakube`` is ours as it is deployed.

A scoring strategy of the NUMA plugin may follow: ``upstream-10s:MostAllocated``, or
``numakube:LeastFragmentation``, which keeps room for the commonest pods of the workload. Ours may
be without one of its plugins: ``numakube:without-GangScheduling``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.scheduler_config import (
    NUMA_PLUGIN,
    SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfig,
    numa_profile,
)
from numakube.errors import ConfigError
from numakube.scheduling import default_profile
from numakube.scheduling.numa.topology_match_args import LEAST_FRAGMENTATION, STRATEGIES
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Weights = Sequence[Mapping[str, object]]

_WITHOUT: Final = "without-"
_GUARD: Final = "RejectionGuard"
_FIT: Final = "NodeResourcesFit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What exporters publish, and when.

    Attributes:
        exact: whether reports have exact data, as numakube's exporter writes it.
        polled: whether a node looks for changes every so often, each node at a time of its own,
            instead of reporting a change right after it happened.
        every_seconds: the shortest time between two reports of a node.
        after_seconds: from a change on a node that is not polled to its report.
    """

    exact: bool = True
    polled: bool = False
    every_seconds: float = 1.0
    after_seconds: float = 0.1


@dataclass(frozen=True, slots=True)
class WhatIf:
    """How the cluster of an arm differs from that of another one.

    Attributes:
        base: the name of the other arm.
        text: all that differs, for a legend.
        sentence: the same in words that go on after a comma.
    """

    base: str
    text: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to run the cluster.

    Attributes:
        name: what results are called by.
        scheduler: the scheduler's configuration; all pods are for its first profile.
        reports: what its nodes report; ``None`` if nothing is to be reported.
        kubelet: words that change the kubelets' configurations
            (`numakube.kubelet.config_from_words`).
        what_if: how its cluster differs from the one that there is; ``None`` if it does not.
    """

    name: str
    scheduler: KubeSchedulerConfiguration
    reports: Reports | None = None
    kubelet: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    what_if: WhatIf | None = None


def _alone(profile: ProfileConfig) -> KubeSchedulerConfiguration:
    """Return a scheduler with one *profile* that needs no lease: there is no other."""
    return KubeSchedulerConfiguration(
        profiles=(profile,), leader_election=LeaderElectionConfig(leader_elect=False)
    )


def blind(name: str, strategy: str, resources: Iterable[str] = (CPU, MEMORY)) -> Arm:
    """Return a NUMA-blind scheduler that fills nodes by *strategy*, counting *resources* alike."""
    args = {"scoringStrategy": {"type": strategy, "resources": list(_alike(resources))}}
    profile = ProfileConfig(
        scheduler_name=SCHEDULER_NAME,
        plugins=_without_guard(),
        plugin_config=(PluginConfig(name=_FIT, args=args),),
    )
    return Arm(name=name, scheduler=_alone(profile))


def upstream(name: str, report_seconds: float, strategy: str = "", weights: _Weights = ()) -> Arm:
    """Return the rules of the Go plugin, with reports up to *report_seconds* old."""
    args: dict[str, object] = {"mode": "upstream", "cacheResyncPeriodSeconds": 5}
    if strategy:
        args["scoringStrategy"] = {"type": strategy, "resources": list(weights)}
    enabled = (PluginRef(name=NUMA_PLUGIN, weight=1),)
    profile = ProfileConfig(
        scheduler_name=SCHEDULER_NAME,
        plugins=_without_guard(enabled),
        plugin_config=(PluginConfig(name=NUMA_PLUGIN, args=args),),
    )
    return Arm(
        name=name,
        scheduler=_alone(profile),
        reports=Reports(exact=False, polled=True, every_seconds=report_seconds),
    )


def ours(
    name: str = "numakube", args: Mapping[str, object] | None = None, *, without: str = ""
) -> Arm:
    """Return our scheduler as it is deployed; *args* are those of its NUMA plugin.

    It may be *without* one of its plugins, to see what that is worth.
    """
    profile = numa_profile(SCHEDULER_NAME, args)
    if without:
        points = profile.plugins
        off = (*points.multi_point.disabled, PluginRef(name=without))
        fewer = msgspec.structs.replace(points.multi_point, disabled=off)
        plugins = msgspec.structs.replace(points, multi_point=fewer)
        profile = msgspec.structs.replace(profile, plugins=plugins)
    return Arm(name=name, scheduler=_alone(profile), reports=Reports())


def scheduler_arm(
    name: str,
    resources: Iterable[str] = (CPU, MEMORY),
    typical: Callable[[], Sequence[Mapping[str, object]]] = tuple,
) -> Arm:
    """Return the arm of that name.

    Args:
        name: one of `SCHEDULERS`; ``upstream-30s`` has reports of any other age. A strategy of its
            NUMA plugin may follow after a colon.
        resources: what NUMA-blind schedulers count when they spread or pack, and strategies.
        typical: the pods that the strategy LeastFragmentation keeps room for.

    Raises:
        ConfigError: there is no such arm.
    """
    scheduler, _, strategy = name.partition(":")
    kind, _, age = scheduler.partition("-")
    if name == "least-allocated":
        return blind(name, "LeastAllocated", resources)
    if name == "most-allocated":
        return blind(name, "MostAllocated", resources)
    if kind == "upstream" and age.endswith("s") and age[:-1].isdecimal() and int(age[:-1]):
        _check(name, strategy, STRATEGIES)
        return upstream(name, float(age[:-1]), strategy, _alike(resources))
    if scheduler == "numakube" and strategy.startswith(_WITHOUT):
        plugin = strategy.removeprefix(_WITHOUT)
        known = [ref.name for ref in default_profile().plugins]
        if plugin not in known:
            near = get_close_matches(plugin, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"scheduler {name!r}: a profile has no plugin {plugin!r}{meant}")
        return ours(name, without=plugin)
    if scheduler == "numakube":
        _check(name, strategy, (LEAST_FRAGMENTATION,))
        return ours(name, least_fragmentation(typical()) if strategy else None)
    raise ConfigError(f"unknown scheduler {name!r}; there are {', '.join(SCHEDULERS)}")


def least_fragmentation(typical: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return arguments of our NUMA plugin that keep room for *typical* pods."""
    return {
        "scoringStrategy": {"type": LEAST_FRAGMENTATION, "typicalPods": list(typical)},
        "native": {"alignmentWeight": 40, "packingWeight": 50, "balanceWeight": 10},
    }


def _check(name: str, strategy: str, known: Sequence[str]) -> None:
    if ":" in name and strategy not in known:
        raise ConfigError(f"scheduler {name!r}: its strategy is not {' or '.join(known)}")


def _alike(resources: Iterable[str]) -> _Weights:
    return tuple({"name": resource, "weight": 1} for resource in resources)


SCHEDULERS: Final = (
    "least-allocated", "most-allocated", "upstream-1s", "upstream-10s", "upstream-60s", "numakube",
)  # fmt: skip
"""The schedulers that are compared if nothing else is asked for."""


def _without_guard(enabled: tuple[PluginRef, ...] = ()) -> Plugins:
    """Return the default plugins without the guard, which only our scheduler has."""
    off = (PluginRef(name=_GUARD),)
    return Plugins(multi_point=PluginSet(enabled=enabled, disabled=off))
