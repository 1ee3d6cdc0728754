"""Arguments of plugins have kube-scheduler's defaults, and its words for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.errors import ConfigError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.plugins.default_plugins import (
    DEFAULT_PLUGINS,
    default_plugins,
    default_weights,
)
from numakube.scheduling.plugins.node_affinity import NOT_ENFORCED, NOT_MATCHED, NodeAffinity
from numakube.scheduling.plugins.plugin_arguments import (
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
    read_args,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo


def test_defaults_are_those_of_kube_scheduler() -> None:
    """An empty pluginConfig is as none."""
    fit = read_args(NodeResourcesFitArgs, {})
    assert fit.scoring_strategy.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in fit.scoring_strategy.resources] == [
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
    assert [resource.weight for resource in resources] == [1, 1]


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


def test_pods_keep_to_the_affinity_that_a_profile_adds() -> None:
    """Beside their own, and before it: that is what they read."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    plugin = NodeAffinity.from_args({"addedAffinity": required})
    cluster = Cluster()
    for name, zone in (("n0", "a"), ("n1", "b"), ("n2", "a")):
        labels = {"zone": zone, "name": name}
        cluster.set_node(convert(Node, {"metadata": {"name": name, "labels": labels}}))
    spec = {"containers": [{"name": "c"}], "nodeSelector": {"name": "n0"}}
    pod = PodInfo(convert(Pod, {"metadata": {"name": "p", "uid": "p"}, "spec": spec}))
    expected = {"n0": SUCCESS, "n1": NOT_ENFORCED, "n2": NOT_MATCHED}
    assert {node.name: plugin.filter(CycleState(), pod, node) for node in cluster.nodes()} == (
        expected
    )
    snapshot = cluster.snapshot()
    told = plugin.filter_all(CycleState(), pod, snapshot, snapshot.rows)
    assert told is not None
    assert {
        snapshot.at(int(row)).name: told.status(position)
        for position, row in enumerate(snapshot.rows)
    } == expected
    assert plugin.filter_all(CycleState(), pod, snapshot, snapshot.rows[:1]) is None


def test_preferences_that_cannot_be_read_are_refused_as_well() -> None:
    """They would rate no node."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}]
    preference = {"weight": 1, "preference": terms[0]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    with pytest.raises(ConfigError, match="'Near' is not a valid selector operator"):
        DEFAULT_PLUGINS["NodeAffinity"].make({"addedAffinity": preferred}, Handle())


def test_every_plugin_has_the_name_it_is_known_by() -> None:
    """The table and the classes agree, and the weights are those of the default profile."""
    assert [plugin.name for plugin in default_plugins()] == list(DEFAULT_PLUGINS)
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


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([(0, 0), (100, 10)], ""),
        ([(50, 5)], ""),
        ([(10, 0), (10, 5)], "shape[1].utilization: Invalid value: 10: values must be sorted"),
        ([(10, 0), (9, 5)], "shape[1].utilization: Invalid value: 9: values must be sorted"),
        ([(0, 0), (20, 1), (10, 5)], "shape[2].utilization: Invalid value: 10: values must be"),
        ([(-1, 0)], "shape[0].utilization: Invalid value: -1: not in valid range [0, 100]"),
        ([(101, 0)], "shape[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
        ([(0, -1)], "shape[0].score: Invalid value: -1: not in valid range [0, 10]"),
        ([(0, 0), (1, 11)], "shape[1].score: Invalid value: 11: not in valid range [0, 10]"),
    ],
)
def test_the_points_of_a_line_rise_within_their_range(
    points: list[tuple[int, int]], problem: str
) -> None:
    """Two points at one place would make two lines."""
    shape = [{"utilization": at, "score": score} for at, score in points]
    if problem:
        with pytest.raises(ConfigError) as raised:
            DEFAULT_PLUGINS["VolumeBinding"].make({"shape": shape}, Handle())
        assert problem in str(raised.value)
    else:
        DEFAULT_PLUGINS["VolumeBinding"].make({"shape": shape}, Handle())


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("InterPodAffinity", {"hardPodAffinityWeight": 0}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 100}),
        ("VolumeBinding", {"bindTimeoutSeconds": 0}),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "LeastAllocated",
                    "resources": [{"name": "cpu", "weight": 100}],
                }
            },
        ),
    ],
)
def test_the_ends_of_a_range_are_in_it(plugin: str, args: dict[str, Any]) -> None:
    """What is written as valid can be used."""
    DEFAULT_PLUGINS[plugin].make(args, Handle())


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        (["cpu", "cpu"], 'resources[1].name: Duplicate value: "cpu"'),
        (["cpu", "memory"], ""),
    ],
)
def test_a_resource_is_balanced_once(resources: list[str], problem: str) -> None:
    """Named twice, it would count twice."""
    args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    make = DEFAULT_PLUGINS["NodeResourcesBalancedAllocation"].make
    if problem:
        with pytest.raises(ConfigError) as raised:
            make(args, Handle())
        assert problem in str(raised.value)
    else:
        make(args, Handle())


@pytest.mark.parametrize(
    ("constraint", "problem"),
    [
        ({}, ""),
        ({"maxSkew": 0}, "maxSkew: Invalid value: 0: not in valid range (0, inf)"),
        ({"topologyKey": ""}, "topologyKey: Required value: can not be empty"),
        ({"topologyKey": "a b"}, 'topologyKey: Invalid value: "a b"'),
        ({"whenUnsatisfiable": ""}, "whenUnsatisfiable: Required value: can not be empty"),
        ({"labelSelector": {}}, "labelSelector: Forbidden: constraint must not define a selector"),
    ],
)
def test_default_constraints_say_how_pods_are_spread_and_over_what(
    constraint: dict[str, Any], problem: str
) -> None:
    """Which pods those are follows from each pod."""
    plain = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [{**plain, **constraint}]}
    make = DEFAULT_PLUGINS["PodTopologySpread"].make
    if not problem:
        make(args, Handle())
        twice = {**args, "defaultConstraints": [plain, {**plain, "maxSkew": 2}]}
        with pytest.raises(ConfigError, match=r"defaultConstraints\[1\]: Duplicate value"):
            make(twice, Handle())
        other = {**plain, "whenUnsatisfiable": "ScheduleAnyway"}
        make({**args, "defaultConstraints": [plain, other]}, Handle())
        return
    with pytest.raises(ConfigError) as raised:
        make(args, Handle())
    assert f"defaultConstraints[0].{problem}" in str(raised.value)
