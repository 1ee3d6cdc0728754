"""The plugin: upstream's name and arguments in front of any engine and any cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone, ZoneResource
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.api.scheduler_config import PluginRef, numa_configuration
from numakube.api.yaml_text import load_yaml
from numakube.errors import ConfigError
from numakube.scheduling.config.read_configuration import Defaults, make_runtime, read_configuration
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    Bind,
    Confirm,
    Filter,
    PostBind,
    PreFilter,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.registry import Handle, Services
from numakube.scheduling.framework.status import SKIP, Status
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.topology_match import (
    NAME,
    REGISTRY,
    NodeResourceTopologyMatch,
    make_plugin,
)
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.plugins.default_plugins import default_registry
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound
from numakube.testing import pod as plain_pod
from numakube.testing.reported_nodes import reported

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


def report(*free: int, policy: str = "single-numa-node") -> NodeResourceTopology:
    """A report of zones with that many free CPUs of eight, and plenty of memory."""
    return NodeResourceTopology(
        metadata=ObjectMeta(name="n"),
        attributes=(Attribute(name="topologyManagerPolicy", value=policy),),
        zones=tuple(
            Zone(
                name=f"node-{zone}",
                type="Node",
                resources=(
                    ZoneResource(name="cpu", capacity="8", allocatable="8", available=str(cpus)),
                    ZoneResource(
                        name="memory", capacity="64Gi", allocatable="64Gi", available="64Gi"
                    ),
                ),
            )
            for zone, cpus in enumerate(free)
        ),
    )


def pod(cpus: int, uid: str = "p") -> PodInfo:
    """A Guaranteed pod."""
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
            spec=PodSpec(containers=(Container(name="c", resources=resources),)),
        )
    )


def scheduler(
    nrt: NodeResourceTopology, **args: object
) -> tuple[NodeResourceTopologyMatch, Handle]:
    """A plugin with one node that has reported."""
    handle = Handle()
    plugin = make_plugin(args, handle)
    allocatable = {"cpu": "16", "memory": "128Gi", "pods": "110"}
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable=allocatable))
    handle.cluster.set_node(node)
    handle.cluster.take(plugin.cache.set_report(nrt), plugin.cache)
    return plugin, handle


def only_node(handle: Handle) -> NodeInfo:
    """The node."""
    node = handle.cluster.node("n")
    assert node is not None
    return node


def test_it_has_upstreams_name_and_every_point_that_upstream_has() -> None:
    """Files written for upstream name it at any of these points."""
    assert set(REGISTRY) == {"NodeResourceTopologyMatch"}
    for point in (PreFilter, Filter, VectorFilter, Score, VectorScore, Confirm, Reserve, PostBind):
        assert issubclass(NodeResourceTopologyMatch, point)


def test_native_mode_and_prediction_are_the_defaults() -> None:
    """Upstream's decisions have to be asked for."""
    plugin = make_plugin({}, Handle())
    assert isinstance(plugin.engine, NativeEngine)
    assert isinstance(plugin.cache, Predict)


def test_upstream_mode_uses_the_strategy_and_the_weights() -> None:
    """They are upstream's fields."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}
    plugin = make_plugin({"mode": "upstream", "scoringStrategy": strategy}, Handle())
    assert isinstance(plugin.engine, UpstreamEngine)
    assert plugin.engine == UpstreamEngine("MostAllocated", {"cpu": 3})
    assert isinstance(plugin.cache, Passthrough)


@pytest.mark.parametrize("mode", ["native", "upstream"])
def test_one_node_and_all_nodes_are_judged_and_rated_alike(mode: str) -> None:
    """Five CPUs are free, but not in one zone."""
    plugin, handle = scheduler(report(3, 2), mode=mode)
    snapshot, state = handle.cluster.snapshot(), CycleState()
    for cpus, fits in ((3, True), (4, False)):
        wanted = pod(cpus)
        assert plugin.pre_filter(state, wanted, snapshot).status.ok
        assert plugin.filter(state, wanted, only_node(handle)).ok is fits
        verdicts = plugin.filter_all(state, wanted, snapshot, snapshot.rows)
        assert (verdicts is None or verdicts.status(0).ok) is fits
    scores = plugin.score_all(CycleState(), pod(3), snapshot, snapshot.rows)
    assert scores[0] == plugin.score(CycleState(), pod(3), only_node(handle))
    assert plugin.confirm(CycleState(), pod(3), only_node(handle)).ok


def test_a_booking_is_seen_at_once_and_can_be_taken_back() -> None:
    """The next cycle must not use the same zone again."""
    plugin, handle = scheduler(report(8, 8), mode="upstream", cacheResyncPeriodSeconds=5)
    state, first = CycleState(), pod(6, "first")
    booking = plugin.reserve(state, first, only_node(handle))
    assert booking.ok
    assert plugin.filter(state, pod(6), only_node(handle)).ok
    assert taken(plugin, handle, booking.changes).freed == ()
    assert not plugin.filter(state, pod(6), only_node(handle)).ok
    assert handle.cluster.zones.available("cpu")[:2, 0].tolist() == [2000, 2000]
    changes = plugin.unreserve(state, first, "n")
    assert taken(plugin, handle, changes).freed == ("n",)
    assert plugin.filter(state, pod(6), only_node(handle)).ok


def taken(
    plugin: NodeResourceTopologyMatch, handle: Handle, changes: BeliefChanges
) -> BeliefChanges:
    """Put what has changed into the cluster, as the scheduler does."""
    handle.cluster.take(changes, plugin.cache)
    return changes


def test_what_is_booked_and_taken_back_before_anybody_looks_changes_nothing() -> None:
    """Another plugin may refuse after this one has reserved."""
    plugin, handle = scheduler(report(8, 8), mode="upstream", cacheResyncPeriodSeconds=5)
    state, first = CycleState(), pod(6, "first")
    changes = plugin.reserve(state, first, only_node(handle)).changes
    taken(plugin, handle, changes + plugin.unreserve(state, first, "n"))
    assert handle.cluster.zones.available("cpu")[:2, 0].tolist() == [8000, 8000]


def test_a_booking_outlasts_the_binding() -> None:
    """Until a report has the pod."""
    plugin, handle = scheduler(report(8, 8), mode="upstream", cacheResyncPeriodSeconds=5)
    state, first = CycleState(), pod(6, "first")
    changes = plugin.reserve(state, first, only_node(handle)).changes
    taken(plugin, handle, changes + plugin.post_bind(state, first, "n"))
    assert not plugin.filter(state, pod(6), only_node(handle)).ok


def test_profiles_share_one_cache_and_must_agree_on_it() -> None:
    """Otherwise one would not see the bookings of the other."""
    handle = Handle()
    args: dict[str, object] = {"mode": "upstream", "cacheResyncPeriodSeconds": 5}
    first = make_plugin(args, handle)
    second = make_plugin({**args, "scoringStrategy": {"type": "LeastNUMANodes"}}, handle)
    assert first.cache is second.cache
    assert isinstance(first.cache, OverReserve)
    with pytest.raises(ConfigError, match=r"cache\.kind is passthrough here and overreserve in"):
        make_plugin({"mode": "upstream"}, handle)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"cacheResyncPeriodSeconds": 9}, "cacheResyncPeriodSeconds is 9 here and 5 in"),
        ({"discardReservedNodes": True}, "cache.kind is discardreserved here and predict in"),
        ({"cache": {"kind": "overreserve"}}, "cache.kind is overreserve here and predict in"),
        ({"cache": {"foreignPodsDetect": "None"}}, "cache.foreignPodsDetect is None here and All"),
        (
            {"cache": {"resyncMethod": "OnlyExclusiveResources"}},
            "cache.resyncMethod is OnlyExclusiveResources here and Autodetect in",
        ),
        ({"cache": {"resyncScope": "OnlyResources"}}, "cache.resyncScope is OnlyResources here"),
    ],
)
def test_the_refusal_of_profiles_with_different_caches_says_what_to_do(
    args: dict[str, object], told: str
) -> None:
    """Which argument differs from that of which profile, and the two ways out."""
    services = Services()
    make_plugin({}, Handle(services=services, profile="topo-a"))
    with pytest.raises(ConfigError) as refused:
        make_plugin(args, Handle(services=services, profile="topo-b"))
    assert told in str(refused.value)
    assert "in profile topo-a; all profiles of a scheduler share one cache" in str(refused.value)
    assert "give them equal values, or run a scheduler of its own" in str(refused.value)


@pytest.mark.parametrize(("preemption", "fits"), [("Enabled", True), ("Disabled", False)])
def test_what_ifs_of_preemption_count_only_if_they_are_enabled(preemption: str, fits: bool) -> None:
    """Upstream leaves the zones of victims taken unless told otherwise."""
    plugin, handle = scheduler(report(2, 2), mode="upstream", preemptionMode=preemption)
    without_victims = only_node(handle).clone()
    without_victims.numa = reported(report(8, 2))
    assert plugin.filter(CycleState(), pod(6), without_victims).ok is fits
    assert plugin.confirm(CycleState(), pod(6), without_victims).ok


def test_notes_about_settings_are_kept_for_the_log() -> None:
    """The process writes them once."""
    plugin = make_plugin({"cache": {"informerMode": "Shared"}}, Handle())
    assert plugin.notes == ("cache.informerMode: has no effect; every watch here is our own",)


def test_in_doubt_a_node_takes_no_pod_that_needs_zones() -> None:
    """Upstream says so with the same words."""
    plugin, handle = scheduler(report(8, 8), mode="upstream")
    handle.cluster.suppose("n", replace(reported(report(8, 8)), blocked="foreign pod"))
    status = plugin.filter(CycleState(), pod(1), only_node(handle))
    assert status.reasons == ("invalid node topology data",)
    assert plugin.score(CycleState(), pod(1), only_node(handle)) == 0


class Binder(Bind):
    """Binds nothing."""

    name = "Binder"

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Leave it to nobody."""
        return SKIP


UPSTREAM_EXAMPLE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: topo-aware-scheduler
    plugins:
      multiPoint:
        enabled: [{name: NodeResourceTopologyMatch}]
      reserve:
        disabled: [{name: NodeResourceTopologyMatch}]
    pluginConfig:
      - name: NodeResourceTopologyMatch
        args: {scoringStrategy: {type: LeastAllocated}}
"""


@pytest.mark.parametrize("kind", ["passthrough", "discardreserved", "overreserve", "predict"])
def test_a_profile_like_upstreams_example_works_with_every_cache(kind: str) -> None:
    """It disables reserve, which is right for passthrough and would lose bookings otherwise."""
    tree = cast("dict[str, Any]", load_yaml(UPSTREAM_EXAMPLE, "example"))
    tree["profiles"][0]["pluginConfig"][0]["args"]["cache"] = {"kind": kind}
    config = read_configuration(tree)
    registry = {**default_registry(), **REGISTRY, Binder.name: lambda args, handle: Binder()}
    names = ("PrioritySort", "NodeResourcesFit", Binder.name)
    runtime = make_runtime(
        config.profiles[0],
        defaults=Defaults(tuple(PluginRef(name=name) for name in names)),
        registry=registry,
        handle=Handle(),
    )
    points = runtime.profile.points
    for point in ("preFilter", "filter", "score", "confirm", "postBind"):
        assert NAME in [plugin.name for plugin in points[point]], point
    assert (NAME in [plugin.name for plugin in points["reserve"]]) is (kind != "passthrough")


@pytest.mark.parametrize(("name", "foreign"), [("first", False), ("second", False), ("they", True)])
def test_pods_of_all_profiles_are_ours_and_those_of_others_raise_doubts(
    name: str, foreign: bool
) -> None:
    """Their places are unknown until a report has them: the node takes nobody meanwhile."""
    args = {"cache": {"kind": "overreserve"}, "mode": "upstream"}
    world = World()
    world.add_node("n0")
    deciding = world.scheduler(numa_configuration(("first", "second"), args))
    deciding.see(bound(plain_pod("seen", "1", scheduler_name=name), "n0"))
    asked = plain_pod("asked", "1", scheduler_name="first")
    assert isinstance(deciding.decide(asked), Refused if foreign else Chosen)
    node = deciding.engine.cluster.node("n0")
    assert node is not None
    assert isinstance(node.numa, CountsBelief)
    assert ("default/seen" in node.numa.blocked) is foreign
