"""What containers may run on: koordlet's vectors, container entries, and what is left alone."""

from collections.abc import Mapping
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuMask, CpuSet
from numakube_placement.enforcer.allowed_cpus import (
    NO_POOL,
    OVERLAP,
    PINNED,
    UNREADABLE,
    Confinement,
    NodeState,
    PodState,
    decide,
)
from numakube_placement.koordinator.read_cpus import layout_of

NODE = NodeState(layout=layout_of(from_shape("2 sockets, 8 cores, 16Gi")), memory_nodes=0b11)
CONTAINERS = {"1": "app", "2": "side"}


def bits(text: str) -> CpuMask:
    """Return a CPU list as bits."""
    return CpuSet.parse(text).mask


def share(cpus: str = "", **zones: dict[str, int]) -> Share:
    """Return a share with amounts of NUMA nodes ``n0``, ``n1``."""
    return Share(cpus=bits(cpus), zones={int(name[1:]): amounts for name, amounts in zones.items()})


def pod(
    uid: str,
    total: Share | None = None,
    own: Mapping[str, Share] = MappingProxyType({}),
    *,
    qos: str = "",
) -> PodState:
    """Return a pod with two containers."""
    given_to = None if total is None else Allotment(total=total, containers=own)
    return PodState(uid=uid, name=f"ns/{uid}", qos=qos, containers=CONTAINERS, allotment=given_to)


def cpus_of(*pods: PodState, node: NodeState = NODE, container: str = "app") -> dict[str, str]:
    """Return the CPUs of a container of each pod that something was decided about."""
    decided = decide(pods, node).pods
    return {uid: str(CpuSet(one.containers[container].cpus)) for uid, one in decided.items()}


BOUND = pod("bound", share("2-3", n0={"cpu": 2000}), qos="LSR")


def test_pods_without_an_allotment_are_left_alone_if_nobody_has_cpus() -> None:
    """Nothing needs to be written on a node without bound pods."""
    assert cpus_of(pod("a"), pod("b", qos="LS"), pod("c", qos="BE")) == {}


def test_a_bound_pod_gets_its_cpus_and_others_the_rest() -> None:
    """Shared pools are off exclusive CPUs."""
    assert cpus_of(BOUND, pod("other")) == {"bound": "2-3", "other": "0-1,4-15"}


def test_bound_containers_are_not_throttled() -> None:
    """Their CPUs are limit enough."""
    decided = decide([BOUND, pod("other")], NODE).pods
    assert decided["bound"].whole.bound
    assert not decided["other"].whole.bound


def test_a_pod_on_one_numa_node_runs_in_its_pool() -> None:
    """The vector of a burstable pod without a QoS class."""
    assert cpus_of(pod("a", share(n0={"cpu": 4000}))) == {"a": "0-7"}
    assert cpus_of(BOUND, pod("a", share(n0={"cpu": 4000})))["a"] == "0-1,4-7"


def test_hugepages_alone_choose_no_pool() -> None:
    """The vector of an LS pod that only takes hugepages; its memory is bound all the same."""
    a = pod("a", share(n0={"hugepages-2Mi": 1 << 21}), qos="LS")
    assert cpus_of(a) == {"a": "0-15"}
    assert decide([a], NODE).pods["a"].containers["app"].mems == 0b01


def test_pods_of_class_be_share_the_cpus_of_lsr_pods_only() -> None:
    """LSE pods share with nobody."""
    near = pod("be", share(n0={"kubernetes.io/batch-cpu": 1000}), qos="BE")
    exclusive = pod("lse", share("0-1", n0={"cpu": 2000}), qos="LSE")
    assert cpus_of(BOUND, exclusive, near)["be"] == "2-7"
    assert cpus_of(BOUND, exclusive, pod("be", qos="BE"))["be"] == "2-15"


def test_memory_follows_where_it_was_taken_from() -> None:
    """Memory nodes are set only if memory was allotted."""
    a = pod("a", share("2-3", n0={"cpu": 2000, "memory": 1 << 30}))
    assert decide([a], NODE).pods["a"].whole.mems == 0b01
    assert decide([BOUND], NODE).pods["bound"].whole.mems is None


def test_a_containers_own_entry_comes_first() -> None:
    """Each container gets its own, the pod's group and the sandbox the union."""
    total = share("2-3,8-9", n0={"cpu": 2000}, n1={"cpu": 2000})
    own = {"app": share("2-3", n0={"cpu": 2000}), "side": share("8-9", n1={"cpu": 2000})}
    decided = decide([pod("a", total, own)], NODE).pods["a"]
    assert decided.containers["app"] == Confinement(cpus=bits("2-3"), bound=True)
    assert decided.containers["side"] == Confinement(cpus=bits("8-9"), bound=True)
    assert decided.rest.cpus == decided.whole.cpus == bits("2-3,8-9")


def test_an_unaligned_container_runs_in_the_pool_near_the_others() -> None:
    """It never runs on the CPUs that another container has for itself."""
    total = share("2-3", n0={"cpu": 2000, "memory": 1 << 30})
    decided = decide([pod("a", total, {"app": total})], NODE).pods["a"]
    assert decided.containers["side"] == Confinement(cpus=bits("0-1,4-7"))
    assert decided.whole == Confinement(cpus=bits("0-7"), bound=True)


def test_an_entry_without_cpus_is_a_place_near_the_others() -> None:
    """Its own memory nodes count, and never the others' CPUs."""
    total = share("2-3", n0={"cpu": 2000})
    decided = decide([pod("a", total, {"app": total, "side": share(n1={"memory": 1})})], NODE)
    assert decided.pods["a"].containers["side"] == Confinement(cpus=bits("0-1,4-7"), mems=0b10)


def test_memory_can_be_left_alone() -> None:
    """For nodes whose memory is not to be bound."""
    node = NodeState(layout=NODE.layout, memory_nodes=0b11, binds_memory=False)
    a = pod("a", share("2-3", n0={"memory": 1}))
    assert decide([a], node).pods["a"].whole.mems is None


def test_system_pods_run_where_their_node_says() -> None:
    """Others keep off unless they may share."""
    node = NodeState(layout=NODE.layout, system_cpus=bits("0-1"), kept=bits("0-1"))
    assert cpus_of(pod("sys", qos="SYSTEM"), pod("a"), node=node) == {"sys": "0-1", "a": "2-15"}
    shared = NodeState(layout=NODE.layout, system_cpus=bits("0-1"))
    assert cpus_of(pod("sys", qos="SYSTEM"), pod("a"), node=shared) == {"sys": "0-1"}
    silent = NodeState(layout=NODE.layout, kept=bits("0"))
    assert cpus_of(pod("sys", qos="SYSTEM"), node=silent) == {"sys": "1-15"}


def test_cpus_that_an_owner_keeps_back_are_in_no_pool() -> None:
    """Whatever pods there are."""
    node = NodeState(layout=NODE.layout, kept=bits("0"))
    assert cpus_of(pod("a"), node=node) == {"a": "1-15"}


def test_the_kubelets_pods_are_left_alone() -> None:
    """Neither pinned pods nor pods in the pool of a static CPU Manager are touched."""
    node = NodeState(layout=NODE.layout, static=True, pinned={"pinned": bits("4-5")})
    decided = decide([pod("pinned"), pod("other"), BOUND], node)
    assert set(decided.pods) == {"bound"}
    assert decided.pools.shared[0] == bits("0-1,6-7")


def test_an_allotment_of_a_pinned_pod_is_a_problem() -> None:
    """The kubelet's choice stays, and somebody hears of it."""
    node = NodeState(layout=NODE.layout, static=True, pinned={"bound": bits("4-5")})
    decided = decide([BOUND], node)
    assert decided.pods == {}
    assert [problem.reason for problem in decided.problems] == [PINNED]
    assert "CPUs 2-3" in decided.problems[0].message
    assert "4-5" in decided.problems[0].message


def test_what_cannot_be_read_leaves_the_pod_alone() -> None:
    """The problem names the pod and the field."""
    bad = PodState(uid="a", name="ns/a", containers=CONTAINERS, problems=("cpuset: bad",))
    decided = decide([bad, BOUND], NODE)
    assert set(decided.pods) == {"bound"}
    assert [(problem.pod, problem.reason, problem.message) for problem in decided.problems] == [
        ("ns/a", UNREADABLE, "cpuset: bad")
    ]


def test_cpus_of_another_machine_leave_the_pod_alone() -> None:
    """A pod that was moved, or an annotation copied from elsewhere, does no harm."""
    decided = decide([pod("a", share("14-17"))], NODE)
    assert decided.pods == {}
    assert decided.problems[0].message.endswith("this node has no CPUs 16-17")
    far = decide([pod("a", share("1", n5={"memory": 1}))], NODE)
    assert far.problems[0].message.endswith("no memory on NUMA nodes 5")


def test_cpus_given_twice_are_told_and_obeyed() -> None:
    """The annotation is the contract; its writer must mend it."""
    decided = decide([BOUND, pod("b", share("3-4"))], NODE)
    assert set(decided.pods) == {"bound", "b"}
    assert [(problem.pod, problem.reason) for problem in decided.problems] == [("ns/b", OVERLAP)]
    assert decided.problems[0].message == "CPUs 3 also belong to pod ns/bound"


def test_a_node_without_shared_cpus_leaves_others_alone() -> None:
    """No pod can be left without a CPU."""
    decided = decide([pod("all", share("0-15")), pod("a")], NODE)
    assert set(decided.pods) == {"all"}
    assert [(problem.pod, problem.reason) for problem in decided.problems] == [("ns/a", NO_POOL)]


@given(
    taken=st.lists(st.integers(1, NODE.layout.all), max_size=4),
    others=st.integers(0, 3),
)
def test_nobody_runs_on_cpus_of_a_pod_that_has_them_for_itself(
    taken: list[int], others: int
) -> None:
    """Unless there is no other CPU."""
    bound = [pod(f"b{index}", Share(cpus=CpuMask(cpus))) for index, cpus in enumerate(taken)]
    shared = [pod(f"s{index}") for index in range(others)]
    decided = decide([*bound, *shared], NODE)
    exclusive = 0
    for cpus in taken:
        exclusive |= cpus
    for state in shared:
        if state.uid in decided.pods:
            assert decided.pods[state.uid].whole.cpus == NODE.layout.all & ~exclusive != 0
