"""Configurations of kube-scheduler 1.19 to 1.28 work, and say what to write today (C28)."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.yaml_text import load_yaml
from numakube.errors import ConfigError
from numakube.insight.scheduler_engine import tried

OF_THE_GUIDE = """
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false, resourceLock: endpointsleases}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
healthzBindAddress: 0.0.0.0:10251
profiles:
- schedulerName: default-scheduler
- schedulerName: topo-aware-scheduler
  plugins:
    filter: {enabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      kubeconfigpath: /etc/kubernetes/scheduler.conf
      masteroverride: ""
      namespaces: [default, production]
"""
"""As installation guides of 2021 have it."""
CONSTRAINT = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}


def loaded(profile: dict[str, Any], version: str = "v1beta1") -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of each plugin that an old *profile* ends up with, and the notes."""
    tree = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "old", **profile}],
    }
    notes: list[str] = []
    (found,) = tried(tree, "old.yaml", notes.append).profiles
    return {config.name: config.args for config in found.plugin_config}, notes


def test_a_file_of_the_installation_guide_loads_with_the_new_field_for_each_old_one() -> None:
    """C28: every profile is there, and nothing is dropped in silence."""
    tree = load_yaml(OF_THE_GUIDE, "guide.yaml")
    assert isinstance(tree, dict)
    notes: list[str] = []
    config = tried(tree, "guide.yaml", notes.append)
    names = [profile.scheduler_name for profile in config.profiles]
    assert names == ["default-scheduler", "topo-aware-scheduler"]
    assert config.leader_election.resource_lock == "leases"
    plugin = "profiles[1].pluginConfig: NodeResourceTopologyMatch"
    assert notes == [
        "apiVersion: kubescheduler.config.k8s.io/v1beta1 is deprecated:"
        " write kubescheduler.config.k8s.io/v1",
        "healthzBindAddress has no effect: write --bind-address",
        f"{plugin}.kubeconfigpath has no effect: write clientConnection.kubeconfig,"
        " or --kubeconfig",
        f"{plugin}.masteroverride has no effect: write clientConnection.kubeconfig,"
        " or --kubeconfig",
        f"{plugin}.namespaces has no effect: reports of every namespace are read",
        "leaderElection.resourceLock: endpointsleases is now leases",
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_plugins_that_rated_by_what_is_free_become_a_strategy(version: str) -> None:
    """C28, KEP-2458: with resources and shape."""
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    resources = [{"name": "cpu", "weight": 3}]
    score = {
        "enabled": [{"name": "RequestedToCapacityRatio", "weight": 2}],
        "disabled": [{"name": "NodeResourcesLeastAllocated"}],
    }
    told = {"name": "RequestedToCapacityRatio", "args": {"shape": shape, "resources": resources}}
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}}
    args, notes = loaded({"plugins": {"score": score}, "pluginConfig": [fit, told]}, version)
    assert args == {
        "NodeResourcesFit": {
            "ignoredResources": ["example.com/x"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": resources,
                "requestedToCapacityRatio": {"shape": shape},
            },
        }
    }
    assert (
        "profiles[0].plugins.score.enabled: RequestedToCapacityRatio is now NodeResourcesFit with"
        " scoringStrategy RequestedToCapacityRatio" in notes
    )


def test_arguments_of_the_default_rating_are_kept() -> None:
    """C28: it was on without being named."""
    told = {"name": "NodeResourcesLeastAllocated", "args": {"resources": [{"name": "memory"}]}}
    args, _ = loaded({"pluginConfig": [told]})
    strategy = {"type": "LeastAllocated", "resources": [{"name": "memory"}]}
    assert args == {"NodeResourcesFit": {"scoringStrategy": strategy}}


def test_plugins_that_are_gone_are_named_with_what_does_their_work() -> None:
    """C28: and constraints keep meaning what they meant."""
    spread = {"name": "PodTopologySpread", "args": {"defaultConstraints": [CONSTRAINT]}}
    score = {"enabled": [{"name": "SelectorSpread"}, {"name": "NodePreferAvoidPods"}]}
    args, notes = loaded({"plugins": {"score": score}, "pluginConfig": [spread]})
    assert args["PodTopologySpread"]["defaultingType"] == "List"
    text = "\n".join(notes)
    for part in ("SelectorSpread does not exist any more", "use taints", "defaultingType: List"):
        assert part in text


@pytest.mark.parametrize(
    "told",
    [{"defaultConstraints": [CONSTRAINT], "defaultingType": "List"}, {"defaultingType": "System"}],
)
def test_spreading_that_says_its_defaulting_stays_as_it_is(told: dict[str, Any]) -> None:
    """C28: and nothing is said about it."""
    args, notes = loaded({"pluginConfig": [{"name": "PodTopologySpread", "args": told}]})
    assert args["PodTopologySpread"] == told
    assert "defaultingType" not in "\n".join(notes)


def test_what_v1_cannot_say_is_refused() -> None:
    """C28: two ratings at once, and plugins without a successor."""
    both = [{"name": "NodeResourcesLeastAllocated"}, {"name": "NodeResourcesMostAllocated"}]
    with pytest.raises(ConfigError, match=r"profiles\[0\].plugins.score.enabled: .* exclude each"):
        loaded({"plugins": {"score": {"enabled": both}}})
    with pytest.raises(ConfigError, match="there is no plugin ServiceAffinity here"):
        loaded({"plugins": {"filter": {"enabled": [{"name": "ServiceAffinity"}]}}})


@pytest.mark.parametrize(
    "broken",
    [
        {"plugins": []},
        {"plugins": {"score": 1}},
        {"plugins": {"score": {"enabled": 1}}},
        {"pluginConfig": {}},
        {"pluginConfig": [1]},
        {"pluginConfig": [{"name": "NodeResourceTopologyMatch", "args": 3}]},
        {"pluginConfig": [{"args": {}}]},
    ],
)
def test_a_broken_file_is_refused_like_one_of_v1(broken: dict[str, Any]) -> None:
    """C28: with the source, not with a traceback."""
    with pytest.raises(ConfigError, match=r"old\.yaml"):
        loaded(broken)
