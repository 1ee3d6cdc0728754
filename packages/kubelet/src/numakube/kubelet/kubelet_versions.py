"""What differs between kubelet versions, as switches of one model, and their feature gates.

Supported are 1.28 to 1.37; an unknown newer version behaves as the newest known one. Each
switch says in which version the kubelet changed. Up to 1.30 the managers follow the rules of 1.31
(compared source by source: release branches 1.28 to 1.31, pkg/kubelet/cm); 1.27 and older have
other defaults, checks or merge rules and are not modelled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


OLDEST = (1, 28)
NEWEST = (1, 37)
DEFAULT = "1.35"

_VERSION = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?")


class Maturity(IntEnum):
    """How far a policy option has come; alpha and beta ones need a feature gate."""

    ALPHA = 1
    BETA = 2
    STABLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The switches of one kubelet version."""

    version: tuple[int, int]
    # 1.36: device hints only name NUMA nodes that have devices of the resource.
    device_hints_on_device_nodes_only: bool
    # 1.37: distribute-cpus-across-numa honours align-by-socket and never over-asks a node.
    socket_aware_distribution: bool
    # Up to 1.36 a restarted kubelet checks SMT alignment again for containers that have CPUs.
    smt_check_before_existing: bool
    # 1.32: the SMT error tells the two causes apart.
    smt_error_names_physical_cpus: bool
    # 1.29: the error about too few CPUs tells how many were asked for and free.
    cpu_shortage_names_amounts: bool
    # 1.32: a multi-node memory allocation may not overlap other groups.
    memory_group_rule: bool
    # 1.37: a container without memory request is not recorded by the memory manager.
    skips_empty_memory_requests: bool
    # 1.34: an odd number of CPUs can be met from part of an uncore cache.
    odd_uncore_requests: bool
    # 1.34: the CPU and memory managers leave pods with pod-level resources alone.
    ignores_pod_level_resources: bool
    # 1.36: gate PodLevelResourceManagers exists.
    pod_level_managers: bool
    # All known versions: remembered NUMA combinations are overwritten (kubernetes #141238, open).
    combination_aliasing: bool
    cpu_options: Mapping[str, Maturity]
    topology_options: Mapping[str, Maturity]


# Option name to the versions at which it became alpha, beta and stable; None: not by 1.37.
_CPU_OPTIONS: Mapping[str, tuple[int | None, int | None, int | None]] = MappingProxyType(
    {
        "full-pcpus-only": (22, 23, 33),
        "distribute-cpus-across-numa": (23, 33, None),
        "align-by-socket": (25, None, None),
        "distribute-cpus-across-cores": (31, None, None),
        "strict-cpu-reservation": (32, 33, 35),
        "prefer-align-cpus-by-uncorecache": (32, 34, 36),
    }
)
_TOPOLOGY_OPTIONS: Mapping[str, tuple[int | None, int | None, int | None]] = MappingProxyType(
    {
        "prefer-closest-numa-nodes": (26, 28, 32),
        "max-allowable-numa-nodes": (None, 31, 35),
    }
)


def release_of(version: str) -> tuple[int, int]:
    """Return the release of a *version* such as ``1.35`` or ``v1.36.4``."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ConfigError(f"kubernetes version {version!r}: write it as 1.35 or v1.35.7")
    return int(match[1]), int(match[2])


def behaviour_of(version: str = DEFAULT) -> Behaviour:
    """Return the behaviour of a kubelet *version* such as ``1.35`` or ``v1.36.4``."""
    release = release_of(version)
    if release < OLDEST:
        raise ConfigError(
            f"kubernetes version {version!r}: the oldest modelled version is "
            f"{OLDEST[0]}.{OLDEST[1]}"
        )
    return _behaviour(min(release, NEWEST))


@lru_cache  # every report and every model asks, and they share what they get
def _behaviour(release: tuple[int, int]) -> Behaviour:
    return Behaviour(
        version=release,
        device_hints_on_device_nodes_only=release >= (1, 36),
        socket_aware_distribution=release >= (1, 37),
        smt_check_before_existing=release < (1, 37),
        smt_error_names_physical_cpus=release >= (1, 32),
        cpu_shortage_names_amounts=release >= (1, 29),
        memory_group_rule=release >= (1, 32),
        skips_empty_memory_requests=release >= (1, 37),
        odd_uncore_requests=release >= (1, 34),
        ignores_pod_level_resources=release >= (1, 34),
        pod_level_managers=release >= (1, 36),
        combination_aliasing=True,
        cpu_options=_available(_CPU_OPTIONS, release),
        topology_options=_available(_TOPOLOGY_OPTIONS, release),
    )


def _available(
    options: Mapping[str, tuple[int | None, int | None, int | None]], release: tuple[int, int]
) -> Mapping[str, Maturity]:
    """Return the options that exist in *release* with their maturity there."""
    minor = release[1]
    result = {}
    for name, since in options.items():
        for maturity, start in zip(reversed(Maturity), reversed(since), strict=True):
            if start is not None and minor >= start:
                result[name] = maturity
                break
    return result


# Feature gates that change what the resource managers do, with their stage in each release.
#
# A gate that the configuration names has the value given there. ``AllAlpha`` and ``AllBeta`` decide
# for the other gates of their stage; the rest have the default of the release. Follows
# ``pkg/features/kube_features.go`` and k8s.io/component-base/featuregate of Kubernetes 1.31 to
# 1.37.


ALPHA: Final = "AllAlpha"
BETA: Final = "AllBeta"
_STABLE: Final = ""


class _Stage(NamedTuple):
    """What a gate is from a minor release on; *group* is the gate that decides for its stage."""

    since: int
    group: str
    default: bool


_GATES: Final[Mapping[str, tuple[_Stage, ...]]] = MappingProxyType(
    {
        "CPUManagerPolicyAlphaOptions": (_Stage(23, ALPHA, default=False),),
        "CPUManagerPolicyBetaOptions": (_Stage(23, BETA, default=True),),
        "TopologyManagerPolicyAlphaOptions": (_Stage(26, ALPHA, default=False),),
        "TopologyManagerPolicyBetaOptions": (_Stage(28, BETA, default=True),),
        "PodLevelResources": (_Stage(32, ALPHA, default=False), _Stage(34, BETA, default=True)),
        "PodLevelResourceManagers": (
            _Stage(36, ALPHA, default=False),
            _Stage(37, BETA, default=False),
        ),
        "PodLevelResourcesFixKubeletQOSClass": (_Stage(37, BETA, default=True),),
        "InPlacePodVerticalScaling": (
            _Stage(27, ALPHA, default=False),
            _Stage(33, BETA, default=True),
            _Stage(35, _STABLE, default=True),
        ),
        "InPlacePodVerticalScalingExclusiveCPUs": (_Stage(32, ALPHA, default=False),),
        "InPlacePodVerticalScalingExclusiveMemory": (_Stage(34, ALPHA, default=False),),
    }
)

KNOWN: Final = frozenset({*_GATES, ALPHA, BETA})
"""The gates that the model reads."""


def gate_is_on(name: str, gates: Mapping[str, bool], release: tuple[int, int]) -> bool:
    """Tell whether gate *name* is on in *release* under the configured *gates*."""
    stage = next((gate for gate in reversed(_GATES[name]) if gate.since <= release[1]), None)
    if stage is None:
        return False
    if stage.group == _STABLE:
        return stage.default
    return gates.get(name, gates.get(stage.group, stage.default))
