"""What native mode decides for one node, by example."""

from __future__ import annotations

from dataclasses import replace

from tests.kubelet.build import container, guaranteed, pod

from numakube.api.pod import Pod
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.numa.native.node_counts import NodeCounts, NodeRules
from numakube.scheduling.numa.native.pod_wants import wants_of
from numakube.scheduling.numa.native.reference_alignment import AlignmentFit, judge
from numakube.topology.topology_view import ZoneView
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

GPU = "vendor.example/gpu"
GIB = 1 << 30
SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED


def node(
    *cpus: int,
    gpus: tuple[int, ...] = (),
    policy: TopologyPolicy = SINGLE,
    total: int = 8,
    **rules: object,
) -> NodeCounts:
    """A node with zones of *total* CPUs, of which *cpus* are free, and of 16 GiB and two GPUs."""
    free = [{"cpu": 1000 * count, "memory": 16 * GIB} for count in cpus]
    for zone, count in zip(free, gpus, strict=False):
        zone[GPU] = count
    whole = {"cpu": 1000 * total, "memory": 16 * GIB, GPU: 2}
    zones = tuple(
        ZoneView(id=zone, name=f"node-{zone}", capacity=whole, allocatable=whole, available=whole)
        for zone in range(len(cpus))
    )
    known = NodeRules(
        zones=len(cpus), policy=policy, reported=frozenset(name for zone in free for name in zone)
    )
    return NodeCounts(
        rules=replace(known, **rules),  # type: ignore[arg-type]
        zones=zones,
        free=tuple(free),
    )


def places(pod: Pod, counts: NodeCounts) -> tuple[tuple[int, ...], ...]:
    """Return where the pod goes; it must fit."""
    verdict = judge(wants_of(pod), counts)
    assert isinstance(verdict, AlignmentFit), verdict
    return verdict.places


def refusal(pod: Pod, counts: NodeCounts) -> str:
    """Return why the pod does not fit."""
    verdict = judge(wants_of(pod), counts)
    assert isinstance(verdict, AlignmentRefusal), verdict
    return verdict.message


def test_a_container_goes_to_the_lowest_zone_that_has_all_it_wants() -> None:
    """CPU, memory and devices have to be in one zone."""
    one = pod(guaranteed("a", "4", gpu="1"))
    assert places(one, node(6, 6, 6, gpus=(0, 1, 1))) == ((1,),)


def test_a_refusal_names_the_zone_that_came_closest() -> None:
    """Zone 1 has the GPU and lacks two CPUs; zone 0 has the CPUs and lacks the GPU."""
    one = pod(guaranteed("a", "8", gpu="1"))
    verdict = judge(wants_of(one), node(8, 6, gpus=(0, 1)))
    assert isinstance(verdict, AlignmentRefusal)
    assert (verdict.container, verdict.resource, verdict.zones) == ("a", "cpu", (1,))
    assert (verdict.wanted, verdict.free, verdict.missing) == (8000, 6000, 2000)
    assert verdict.message == "cannot align container (cpu: best zone has 6 of 8)"


def test_containers_see_what_those_before_them_took() -> None:
    """In order of start, each in the lowest zone with room."""
    two = pod(guaranteed("a", "4"), guaranteed("b", "4"))
    assert places(two, node(4, 4)) == ((0,), (1,))
    assert refusal(two, node(5, 3)) == "cannot align container b (cpu: best zone has 3 of 4)"


def test_c33_a_refusal_names_the_container_where_the_pod_has_others() -> None:
    """An only container needs no name; one beside a container that wants nothing does."""
    only = pod(guaranteed("big", "10"))
    text = "(cpu: best zone has 8 of 10 even if idle)"
    assert refusal(only, node(8, 8)) == f"cannot align container {text}"
    beside = pod(guaranteed("small", "100m"), guaranteed("big", "10"))
    assert refusal(beside, node(8, 8)) == f"cannot align container big {text}"
    after = pod(guaranteed("main", "2"), init=(guaranteed("prepare", "10"),))
    assert refusal(after, node(8, 8)) == f"cannot align init container prepare {text}"


def test_the_kubelet_does_not_look_ahead_and_neither_do_we() -> None:
    """The first container takes the CPUs beside the only GPU."""
    two = pod(guaranteed("a", "4"), guaranteed("b", "4", gpu="1"))
    assert "best zone has 2 of 4" in refusal(two, node(6, 8, gpus=(1, 0)))


def test_in_pod_scope_the_whole_pod_goes_into_one_zone() -> None:
    """What two zones could share, one has to hold."""
    two = pod(guaranteed("a", "4"), guaranteed("b", "4"))
    counts = node(6, 8, scope=TopologyScope.POD)
    assert places(two, counts) == ((1,),)
    tight = node(6, 7, scope=TopologyScope.POD)
    assert refusal(two, tight) == "cannot align pod (cpu: best zone has 7 of 8)"


def test_init_containers_share_with_those_after_them() -> None:
    """An init container as large as the app costs nothing; a sidecar does."""
    init = pod(guaranteed("a", "6"), init=(guaranteed("i", "6"),))
    assert places(init, node(6)) == ((0,), (0,))
    sidecar = pod(guaranteed("a", "6"), init=(guaranteed("s", "2", restart="Always"),))
    assert "all zones have 6 of 8" in refusal(sidecar, node(6))


def test_restricted_takes_as_few_zones_as_an_idle_machine_would() -> None:
    """Ten CPUs need two zones of eight; that one zone is free entirely does not matter."""
    large = pod(guaranteed("a", "10", memory="20Gi"))
    assert places(large, node(8, 8, 8, policy=RESTRICTED)) == ((0, 1),)
    assert places(large, node(1, 8, 8, policy=RESTRICTED)) == ((1, 2),)
    tight = node(4, 4, 4, policy=RESTRICTED)
    assert refusal(large, tight) == "cannot align container (cpu: best 2 zones have 8 of 10)"


def test_restricted_refuses_resources_that_need_different_numbers_of_zones() -> None:
    """Two zones for the CPUs, one for memory: no set of zones is right for both."""
    lopsided = pod(guaranteed("a", "10", memory="1Gi"))
    message = refusal(lopsided, node(8, 8, policy=RESTRICTED))
    assert message == "cannot align container (cpu needs 2 zones, memory 1)"


def test_with_align_by_socket_cpus_need_no_certain_number_of_zones() -> None:
    """They come from any zone of a socket; devices still say how many zones there are."""
    one = pod(guaranteed("a", "10", gpu="1"))
    counts = node(8, 8, gpus=(2, 2), policy=RESTRICTED)
    verdict = judge(wants_of(one), counts)
    assert isinstance(verdict, AlignmentRefusal)
    assert verdict.kind is Kind.SIZES
    verdict = judge(wants_of(one), node(8, 8, gpus=(2, 2), policy=RESTRICTED, by_socket=True))
    assert isinstance(verdict, AlignmentRefusal)
    assert verdict.kind is Kind.ALIGN


def test_best_effort_refuses_only_what_is_nowhere() -> None:
    """It is placed on the fewest zones there are."""
    one = pod(guaranteed("a", "6"))
    assert places(one, node(4, 4, 6, policy=TopologyPolicy.BEST_EFFORT)) == ((2,),)
    assert places(one, node(4, 4, 4, policy=TopologyPolicy.BEST_EFFORT)) == ((0, 1),)
    nowhere = node(2, 2, policy=TopologyPolicy.BEST_EFFORT)
    assert "all zones have 4 of 6" in refusal(one, nowhere)


def test_without_policy_nothing_is_said_about_the_place() -> None:
    """But CPUs that do not exist cannot be had."""
    one = pod(guaranteed("a", "6"))
    assert places(one, node(4, 4, policy=TopologyPolicy.NONE)) == ()
    assert "all zones have 4 of 6" in refusal(one, node(2, 2, policy=TopologyPolicy.NONE))


def test_a_manager_that_is_off_requires_no_alignment() -> None:
    """Without the static CPU policy, CPUs come from anywhere."""
    one = pod(guaranteed("a", "6", gpu="1"))
    assert places(one, node(2, 2, gpus=(0, 1), manages_cpu=False)) == ((1,),)


def test_fractions_of_cpus_and_burstable_pods_need_no_zone() -> None:
    """They run in the shared pool; only devices have a place."""
    assert not wants_of(pod(container("a", cpu="6"))).steps
    fraction = pod(guaranteed("a", "6500m"))
    assert places(fraction, node(0, 0)) == ((0,),)


def test_devices_that_no_zone_reports_are_not_aligned() -> None:
    """They have no NUMA node, or are no devices."""
    one = pod(guaranteed("a", "4", gpu="1"))
    assert places(one, node(4, 4)) == ((0,),)


def test_what_a_node_aligns_but_does_not_report_is_not_guessed() -> None:
    """Unless the kubelet model can be asked."""
    one = pod(guaranteed("a", "4"))
    counts = node(8, reported=frozenset({"cpu"}))
    verdict = judge(wants_of(one), counts)
    assert isinstance(verdict, AlignmentRefusal)
    assert verdict.kind is Kind.UNREPORTED
    assert verdict.message == "no zone reports memory"
    exact = node(8, reported=frozenset({"cpu"}), exact=True)
    assert places(one, exact) == ((0,),)


def test_with_whole_cores_only_an_odd_number_of_cpus_is_refused() -> None:
    """Whatever is free, and whatever the policy."""
    one = pod(guaranteed("a", "3"))
    counts = node(8, 8, cpus_per_core=2, policy=TopologyPolicy.NONE)
    assert refusal(one, counts) == "cannot align container (cpu: 3 do not make whole cores)"
    assert places(one, node(8, 8, cpus_per_core=2, manages_cpu=False)) == ((0,),)


def test_what_an_idle_node_refuses_no_eviction_cures() -> None:
    """The numbers are those of the idle node then."""
    one = pod(guaranteed("a", "10"))
    verdict = judge(wants_of(one), node(4, 2))
    assert isinstance(verdict, AlignmentRefusal)
    assert verdict.hopeless
    assert verdict.message == "cannot align container (cpu: best zone has 8 of 10 even if idle)"
    small = judge(wants_of(pod(guaranteed("a", "6"))), node(4, 2))
    assert isinstance(small, AlignmentRefusal)
    assert not small.hopeless


def test_a_fuller_node_may_take_what_an_idle_one_does_not() -> None:
    """The first container must not take the CPUs beside the GPU, and does not if they are few."""
    two = pod(guaranteed("a", "6"), guaranteed("b", "4", gpu="1"))
    idle = judge(wants_of(two), node(8, 8, gpus=(1, 0)))
    assert isinstance(idle, AlignmentRefusal)
    assert not idle.hopeless
    assert places(two, node(5, 8, gpus=(1, 0))) == ((1,), (0,))


def test_a_refusal_tells_that_managers_are_assumed_to_be_on() -> None:
    """The report of another exporter may not say."""
    verdict = judge(wants_of(pod(guaranteed("a", "6"))), node(4, 2, told=False))
    assert isinstance(verdict, AlignmentRefusal)
    assert "does not tell which" in verdict.detail
