"""Feature gates that change what the resource managers do, with their stage in each release.

A gate that the configuration names has the value given there. ``AllAlpha`` and ``AllBeta`` decide
for the other gates of their stage; the rest have the default of the release. Follows
``pkg/features/kube_features.go`` and k8s.io/component-base/featuregate of Kubernetes 1.31 to 1.37.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    stage = next((one for one in reversed(_GATES[name]) if one.since <= release[1]), None)
    if stage is None:
        return False
    if stage.group == _STABLE:
        return stage.default
    return gates.get(name, gates.get(stage.group, stage.default))
