"""Numbers of a configuration file that are in their range, and those that are not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from numakube.api.scheduler_config import PluginRef, ProfileConfig
from numakube.errors import ConfigError
from numakube.scheduling.config.read_configuration import Defaults, make_runtime, read_configuration
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Bind, Confirm, Filter, Plugin, QueueSort, Score
from numakube.scheduling.framework.registry import Factory, Handle, Profile
from numakube.scheduling.framework.status import SUCCESS, Status
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo


def tree(**fields: object) -> dict[str, object]:
    """Return a file."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**kind, **fields}


@pytest.mark.parametrize("percentage", [0, 1, 100])
def test_any_part_of_the_nodes_can_be_asked_for(percentage: int) -> None:
    """Nothing leaves it to the scheduler."""
    config = read_configuration(tree(percentageOfNodesToScore=percentage))
    assert config.percentage_of_nodes_to_score == percentage


@pytest.mark.parametrize("percentage", [-1, 101])
def test_more_than_all_nodes_and_less_than_none_are_refused(percentage: int) -> None:
    """With the field."""
    with pytest.raises(ConfigError, match="percentageOfNodesToScore"):
        read_configuration(tree(percentageOfNodesToScore=percentage))


@pytest.mark.parametrize(
    ("told", "lease"),
    [
        ({}, ("kube-system", "leases")),
        ({"resourceNamespace": "here"}, ("here", "leases")),
        ({"resourceNamespace": "here", "resourceLock": "leases"}, ("here", "leases")),
    ],
)
def test_a_lease_is_where_the_file_says_or_beside_kube_scheduler(
    told: dict[str, str], lease: tuple[str, str]
) -> None:
    """Its name is our own unless the file has one."""
    election = read_configuration(tree(leaderElection=told)).leader_election
    assert (election.resource_namespace, election.resource_lock) == lease
    named = read_configuration(tree(leaderElection={**told, "resourceName": "mine"}))
    assert named.leader_election.resource_name == "mine" != election.resource_name


# ------------------------------------------------------------------------------------------------
# Profiles come out of a configuration as kube-scheduler would make them.


class Sorter(QueueSort):
    """Sorts the queue."""

    name = "Sorter"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[object, ...]:
        """First come, first served."""
        return (queued_at,)


class Binder(Bind):
    """Binds."""

    name = "Binder"

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Do nothing."""
        return SUCCESS


class Both(Filter, Score):
    """Filters and scores."""

    name = "Both"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept."""
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate all the same."""
        return 1


class Checker(Both, Confirm):
    """Filters, and checks the best nodes once more."""

    name = "Checker"
    insists_on = frozenset({"confirm"})

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept."""
        return SUCCESS


def named(plugin: type[Plugin], plugin_name: str) -> Factory:
    """Return a factory of *plugin* under another name."""

    def make(args: Mapping[str, object], handle: Handle) -> Plugin:
        if "wrong" in args:
            raise ConfigError("wrong: not allowed")
        made = plugin()
        made.name = plugin_name  # type: ignore[misc]
        return made

    return make


REGISTRY = {name: named(Both, name) for name in ("A", "B", "C")} | {
    "Sorter": named(Sorter, "Sorter"),
    "Binder": named(Binder, "Binder"),
    "Checker": named(Checker, "Checker"),
}
DEFAULTS = Defaults(
    (
        PluginRef(name="Sorter"),
        PluginRef(name="A"),
        PluginRef(name="B", weight=3),
        PluginRef(name="Binder"),
    )
)


def profile(**tree: Any) -> Profile:
    """Make the profile that *tree* describes."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "numa", **tree}],
    }
    config = read_configuration(document, source="config.yaml")
    return make_runtime(
        config.profiles[0], defaults=DEFAULTS, registry=REGISTRY, handle=Handle()
    ).profile


def at(found: Profile, point: str) -> list[str]:
    """Return the names of the plugins at *point*."""
    return [plugin.name for plugin in found.points[point]]


def test_without_settings_the_defaults_take_part_wherever_they_can() -> None:
    """Order and weights are those of the defaults."""
    found = profile()
    assert at(found, "filter") == ["A", "B"]
    assert at(found, "queueSort") == ["Sorter"]
    assert found.weights["B"] == 3


def test_a_plugin_added_under_multi_point_comes_last() -> None:
    """As upstream's example configuration does."""
    found = profile(plugins={"multiPoint": {"enabled": [{"name": "C", "weight": 7}]}})
    assert at(found, "filter") == ["A", "B", "C"]
    assert found.weights["C"] == 7


@pytest.mark.parametrize("told", [{}, {"weight": 0}, {"weight": 1}])
def test_a_plugin_weighs_one_unless_a_weight_is_given(told: dict[str, int]) -> None:
    found = profile(plugins={"multiPoint": {"enabled": [{"name": "C", **told}]}})
    assert found.weights["C"] == 1


def test_a_default_enabled_again_keeps_its_position_and_takes_the_new_weight() -> None:
    """Merged plugin by plugin."""
    found = profile(plugins={"multiPoint": {"enabled": [{"name": "A", "weight": 9}]}})
    assert at(found, "score") == ["A", "B"]
    assert found.weights["A"] == 9


def test_a_plugin_disabled_everywhere_is_gone() -> None:
    """Also from its scores."""
    found = profile(plugins={"multiPoint": {"disabled": [{"name": "A"}]}})
    assert at(found, "filter") == at(found, "score") == ["B"]


def test_a_plugin_disabled_at_one_point_stays_at_the_others() -> None:
    """Such as a filter without its score."""
    found = profile(plugins={"score": {"disabled": [{"name": "A"}]}})
    assert at(found, "filter") == ["A", "B"]
    assert at(found, "score") == ["B"]


def test_plugins_named_at_a_point_come_before_the_rest_of_multi_point() -> None:
    """The order that kube-scheduler documents."""
    found = profile(plugins={"filter": {"enabled": [{"name": "C"}, {"name": "B"}]}})
    assert at(found, "filter") == ["B", "A", "C"]
    assert at(found, "score") == ["A", "B"]


def test_a_plugin_takes_part_where_it_insists_on_it() -> None:
    """Files for kube-scheduler name filter and score one by one, and cannot name our points."""
    found = profile(plugins={"filter": {"enabled": [{"name": "Checker"}]}})
    assert at(found, "confirm") == ["Checker"]
    assert "Checker" not in at(found, "score")
    off = {"filter": {"enabled": [{"name": "Checker"}]}, "confirm": {"disabled": [{"name": "*"}]}}
    assert at(profile(plugins=off), "confirm") == ["Checker"]
    assert at(profile(), "confirm") == []


def test_a_star_at_a_point_leaves_only_what_is_named_there() -> None:
    """All defaults off."""
    found = profile(plugins={"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "C"}]}})
    assert at(found, "filter") == ["C"]


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (
            {"plugins": {"multiPoint": {"enabled": [{"name": "Unknown"}]}}},
            "profile numa: there is no plugin Unknown here",
        ),
        (
            {"pluginConfig": [{"name": "A", "args": {"wrong": 1}}]},
            "profile numa: pluginConfig of A: wrong: not allowed",
        ),
        (
            {"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}},
            "profile numa: exactly one plugin must sort the queue",
        ),
        (
            {"plugins": {"bind": {"enabled": [{"name": "A"}]}}},
            "profile numa: plugin A cannot take part at bind",
        ),
        (
            {"plugins": {"multiPoint": {"disabled": [{"name": "Binder"}]}}},
            "profile numa: no plugin binds pods",
        ),
    ],
)
def test_a_profile_that_cannot_work_is_refused_by_name(tree: dict[str, Any], text: str) -> None:
    """A scheduler that starts and does nothing would be worse."""
    with pytest.raises(ConfigError, match=re.escape(text)):
        profile(**tree)


def test_each_profile_has_a_name_of_its_own() -> None:
    """Two profiles for one name could not both be obeyed."""
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}],
    }
    with pytest.raises(ConfigError, match=r"profiles\[1\].schedulerName: a is in another"):
        read_configuration(tree)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"extenders": [{"urlPrefix": "http://x"}]}, "extenders: this scheduler calls none"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: must be greater than 0"),
        ({"podMaxBackoffSeconds": 0}, "podMaxBackoffSeconds: must be greater"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not between 0 and"),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            "profiles[0].percentageOfNodesToScore: -1 is not between 0 and 100",
        ),
        ({"leaderElection": {"leaseDuration": "soon"}}, "leaderElection: "),
        ({"leaderElection": {"leaseDuration": "5s"}}, "leaseDuration must exceed renewDeadline"),
        ({"profiles": "many"}, "profiles"),
        ({"profile": []}, "profile: unknown field (is profiles meant?)"),
        (
            {"profiles": [{"plugins": {"multipoint": {}}}]},
            "profiles[0].plugins.multipoint: unknown field (is multiPoint meant?)",
        ),
    ],
)
def test_a_wrong_setting_is_named(tree: dict[str, Any], text: str) -> None:
    """With the source of the configuration."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **tree,
    }
    with pytest.raises(ConfigError, match=re.escape(text)) as error:
        read_configuration(document, source="config.yaml")
    assert "config.yaml" in str(error.value)


def test_another_kind_of_file_is_refused() -> None:
    """Such as a Deployment given by mistake."""
    with pytest.raises(ConfigError, match="not a KubeSchedulerConfiguration"):
        read_configuration({"apiVersion": "apps/v1", "kind": "Deployment"})


def test_a_profile_config_defaults_to_the_default_scheduler() -> None:
    """As the field's documentation says."""
    assert ProfileConfig().scheduler_name == "default-scheduler"
