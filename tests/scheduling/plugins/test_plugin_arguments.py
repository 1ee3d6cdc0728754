"""Arguments of plugins have kube-scheduler's defaults, and its words for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.errors import ConfigError
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.plugins.default_plugins import (
    DEFAULT_PLUGINS,
    default_plugins,
    default_weights,
)
from numakube.scheduling.plugins.plugin_arguments import (
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
    read_args,
)


def test_defaults_are_those_of_kube_scheduler() -> None:
    """An empty pluginConfig is as none."""
    fit = read_args(NodeResourcesFitArgs, {})
    assert fit.scoring_strategy.type == "LeastAllocated"
    assert [(one.name, one.weight) for one in fit.scoring_strategy.resources] == [
        ("cpu", 1),
        ("memory", 1),
    ]
    assert read_args(NodeResourcesBalancedAllocationArgs, {"resources": []}).resources
    assert read_args(InterPodAffinityArgs, {}).hard_pod_affinity_weight == 1
    assert read_args(PodTopologySpreadArgs, {}).defaulting_type == "System"
    assert read_args(VolumeBindingArgs, {}).bind_timeout_seconds == 600


def test_a_weight_left_out_or_zero_is_one() -> None:
    """Both mean the same in a configuration."""
    listed = [{"name": "cpu"}, {"name": "memory", "weight": 0}]
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": listed}}
    resources = read_args(NodeResourcesFitArgs, args).scoring_strategy.resources
    assert [one.weight for one in resources] == [1, 1]


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [
        (
            "DynamicResources",
            {"deviceAttributes": {"gpu.example": {"numa": "cell"}}},
            "deviceAttributes[gpu.example].numa: unknown field (is numaNode meant?)",
        ),
        (
            "DynamicResources",
            {"deviceAttributes": {"gpu.example": {"pciAddress": "a b"}}},
            'deviceAttributes[gpu.example].pciAddress: Invalid value: "a b": name part must '
            "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Best"}},
            'scoringStrategy.type: Unsupported value: "Best": supported values: '
            '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 101}],
                }
            },
            "scoringStrategy.resources[0].weight: Invalid value: 101: "
            "resource weight of cpu not in valid range (0, 100]",
        ),
        (
            "NodeResourcesFit",
            {"apiVersion": "x", "kind": "y", "ignoredResource": ["a"]},
            "ignoredResource: unknown field (is ignoredResources meant?)",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu"}]}},
            'scoringStrategy.type: Unsupported value: "": supported values: '
            '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.shape: Required value: at least one point must be specified",
        ),
        (
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a/b"]},
            'ignoredResourceGroups[0]: Invalid value: "a/b": '
            "resource group name can't contain '/'",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "Do"}]},
            '[defaultingType: Invalid value: "System": when .defaultConstraints are not empty, '
            'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Do": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"]',
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            "bindTimeoutSeconds: Invalid value: -1: "
            "invalid BindTimeoutSeconds, should not be a negative value",
        ),
        (
            "VolumeBinding",
            {"shape": [{"utilization": 0, "score": 11}]},
            "shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ),
    ],
)
def test_wrong_arguments_are_refused(plugin: str, args: dict[str, Any], text: str) -> None:
    """The message names the field."""
    with pytest.raises(ConfigError) as raised:
        DEFAULT_PLUGINS[plugin].make(args, Handle())
    assert str(raised.value) == f"{plugin}Args: {text}"


def test_affinity_that_cannot_be_read_is_refused() -> None:
    """It would keep every pod of the profile away from every node."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    with pytest.raises(ConfigError, match="'Near' is not a valid selector operator"):
        DEFAULT_PLUGINS["NodeAffinity"].make({"addedAffinity": required}, Handle())


def test_every_plugin_has_the_name_it_is_known_by() -> None:
    """The table and the classes agree, and the weights are those of the default profile."""
    assert [one.name for one in default_plugins()] == list(DEFAULT_PLUGINS)
    assert default_weights() == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
