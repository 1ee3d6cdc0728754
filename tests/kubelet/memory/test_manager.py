"""The Memory Manager: from which NUMA nodes memory and hugepages come."""

from __future__ import annotations

import msgspec
import pytest
from tests.kubelet.build import admit, container, guaranteed, pod, reject, start
from tests.kubelet.conftest import GIB, build_machine

from numakube.api.codec import ResourceList
from numakube.kubelet.admission_outcome import Admitted, MemoryBlock, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import HugePages, Machine
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.memory.memory_tables import empty_books
from numakube.kubelet.topology_hints import Hint
from numakube.values.numamask import mask_of


def machine(numa_count: int, gib: int = 8, hugepages: int = 0) -> Machine:
    """A machine of *numa_count* nodes of two CPUs with 1 GiB pages."""
    pools = (HugePages(GIB, hugepages),) if hugepages else ()
    cores = [(node, node, (2 * node, 2 * node + 1)) for node in range(numa_count)]
    return build_machine(cores, memory_bytes=gib * GIB, hugepages=pools)


def memory_node(
    numa_count: int = 2,
    policy: str = "restricted",
    *,
    scope: str = "container",
    hugepages: int = 0,
    kubernetes: str = "1.35",
    gates: dict[str, bool] | None = None,
) -> KubeletNode:
    """A node with static memory and 1 GiB reserved on node 0."""
    settings = KubeletSettings(
        topology_policy=policy,
        topology_scope=scope,
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
        feature_gates=gates or {},
    )
    return start(machine(numa_count, hugepages=hugepages), settings, kubernetes=kubernetes)


def gib(outcome: Admitted) -> dict[str, float]:
    """Return the memory of each container in GiB."""
    return {
        name: sum(block.size_bytes for block in placement.memory if block.type == "memory") / GIB
        for name, placement in outcome.containers.items()
    }


@pytest.mark.parametrize(
    ("init", "apps", "blocks", "reserved"),
    [
        ((1, 2), (3, 4), (0, 0, 3, 4), 7),
        ((4, 3), (2, 1), (0, 1, 2, 1), 4),
        ((7, 4), (4, 3), (0, 0, 4, 3), 7),
        ((7, 4), (5, 2), (0, 0, 5, 2), 7),
    ],
)
def test_apps_use_the_memory_of_finished_init_containers_again(
    init: tuple[int, int], apps: tuple[int, int], blocks: tuple[int, ...], reserved: int
) -> None:
    """The blocks of a pod add up to what is booked for it."""
    node = memory_node(1)
    outcome = admit(
        node,
        pod(
            *(guaranteed(f"a{n}", memory=f"{size}Gi") for n, size in enumerate(apps)),
            init=tuple(guaranteed(f"i{n}", memory=f"{size}Gi") for n, size in enumerate(init)),
        ),
    )
    assert node.memory is not None
    assert node.memory.books[0].tables["memory"].reserved == reserved * GIB
    assert tuple(gib(outcome).values()) == blocks
    assert node.memory.books[0].assignments == 4


def test_memory_that_no_node_has_spills_over_a_group_and_binds_it() -> None:
    """A group is used as a whole: its members cannot be used alone any more."""
    node = memory_node(3, "best-effort")
    wide = admit(node, pod(guaranteed("c", memory="10Gi"), uid="wide"))
    assert wide.containers["c"].memory == (MemoryBlock((0, 1), "memory", 10 * GIB),)
    assert node.memory is not None
    assert [books.cells for books in node.memory.books.values()] == [(0, 1), (0, 1), (2,)]
    small = admit(node, pod(guaranteed("c", memory="1Gi"), uid="small"))
    assert small.containers["c"].memory[0].numa_nodes == (2,)
    node.remove("wide")
    node.collect_garbage()
    assert [books.cells for books in node.memory.books.values()] == [(0,), (1,), (2,)]


def test_nothing_that_fits_reads_as_no_preference_and_fails_when_allocating() -> None:
    """The hints merge without memory; then the memory manager has to say no."""
    node = memory_node(2)
    admit(node, pod(guaranteed("c", memory="6Gi"), uid="one"))
    admit(node, pod(guaranteed("c", memory="6Gi"), uid="two"))
    refused = reject(node, pod(guaranteed("c", memory="7Gi"), uid="three"))
    assert refused.reason == "UnexpectedAdmissionError"
    assert refused.message == (
        "Allocate failed due to [memorymanager] failed to find NUMA nodes to extend the current "
        "topology hint, which is unexpected"
    )


def test_under_policy_none_the_best_group_is_chosen_by_itself() -> None:
    """Without a hint the narrowest preferred group serves, or the error says there is none."""
    node = memory_node(2, "none")
    outcome = admit(node, pod(guaranteed("c", memory="8Gi")))
    assert outcome.containers["c"].memory == (MemoryBlock((1,), "memory", 8 * GIB),)
    refused = reject(node, pod(guaranteed("c", memory="20Gi"), uid="large"))
    assert "failed to get the default NUMA affinity" in refused.message


def test_hugepages_and_memory_come_from_the_same_nodes() -> None:
    """All memory types of a request are placed together."""
    node = memory_node(2, hugepages=2)
    outcome = admit(node, pod(guaranteed("c", memory="1Gi", huge="2Gi")))
    assert outcome.containers["c"].memory == (
        MemoryBlock((0,), "hugepages-1Gi", 2 * GIB),
        MemoryBlock((0,), "memory", GIB),
    )
    second = admit(node, pod(guaranteed("c", memory="1Gi", huge="1Gi"), uid="second"))
    assert {block.numa_nodes for block in second.containers["c"].memory} == {(1,)}


def test_a_page_size_that_the_machine_does_not_have_fits_nowhere() -> None:
    """The kubelet would crash here; the model says that it does not fit."""
    node = memory_node(2)
    refused = reject(node, pod(guaranteed("c", memory="1Gi", **{"hugepages-2Mi": "2Mi"})))
    assert "failed to find NUMA nodes" in refused.message or "default NUMA" in refused.message


def test_a_multi_node_hint_may_not_tear_a_group_apart_since_1_32() -> None:
    """Earlier kubelets allowed it."""
    node = memory_node(2, "best-effort")
    assert node.memory is not None
    demand = node.demand_of(pod(guaranteed("c", memory="1Gi"), uid="one"))
    node.memory.allocate(demand, demand.containers[0], Hint(1, True))
    other = node.demand_of(pod(guaranteed("c", memory="1Gi"), uid="two"))
    both = Hint(mask_of((0, 1)), False)
    failure = node.memory.allocate(other, other.containers[0], both)
    assert failure is not None
    assert "preferred hint violates NUMA node allocation" in failure.message
    old = memory_node(2, "best-effort", kubernetes="1.31")
    assert old.memory is not None
    old.memory.allocate(demand, demand.containers[0], Hint(1, True))
    assert old.memory.allocate(other, other.containers[0], both) is None


def test_resources_of_init_containers_alone_do_not_count_for_the_pod() -> None:
    """In pod scope only memory types that an app container requests are aligned."""
    node = memory_node(2, scope="pod", hugepages=2)
    one = pod(guaranteed("app", memory="1Gi"), init=(guaranteed("init", memory="2Gi", huge="1Gi"),))
    assert node.demand_of(one).memory == {"memory": 2 * GIB}


def test_a_bubble_is_charged_once_and_parted_among_its_containers() -> None:
    """Shared containers hold what sidecars and exclusive containers leave."""
    node = memory_node(2, scope="pod", kubernetes="1.37", gates={"PodLevelResourceManagers": True})
    side = guaranteed("side", "500m", "1Gi", restart="Always")
    outcome = admit(
        node,
        pod(
            guaranteed("app", "500m", "1Gi"),
            container("shared"),
            init=(container("i0"), side, container("i1")),
            level={"cpu": "2", "memory": "3Gi"},
        ),
    )
    assert gib(outcome) == {"i0": 3, "side": 1, "i1": 2, "app": 1, "shared": 1}
    assert node.memory is not None
    assert node.memory.books[0].tables["memory"].reserved == 3 * GIB
    node.remove("uid")
    node.collect_garbage()
    assert node.memory.books[0].tables["memory"].reserved == 0


def test_more_hugepages_than_memory_wrap_around_as_in_the_kubelet() -> None:
    """Unsigned arithmetic makes such a node look almost infinite."""
    settings = KubeletSettings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = start(machine(1, gib=1, hugepages=4), settings)
    assert node.memory is not None
    assert node.memory.books[0].tables["memory"].allocatable == (1 << 64) - 4 * GIB


def test_sums_over_a_group_wrap_around_when_memory_is_allocated_too() -> None:
    """A node with more reserved than it has eats the memory of the others in its group."""
    settings = KubeletSettings(memory_policy="Static", reserved_memory={0: {"memory": 12 * GIB}})
    node = start(machine(2), settings)
    both = Hint(mask_of([0, 1]), preferred=False)
    assert node.memory is not None
    large = node.demand_of(pod(guaranteed("app", memory="5Gi")))
    refused = node.memory.allocate(large, large.containers[0], both)
    assert refused is not None
    assert "extend the current topology hint" in refused.message
    small = node.demand_of(pod(guaranteed("app", memory="4Gi")))
    assert node.memory.allocate(small, small.containers[0], both) is None


def test_hugepages_that_a_bubble_has_not_wrap_around_in_its_shared_pool() -> None:
    """The kubelet subtracts what an app container asks for from nothing."""
    gates = {"PodLevelResourceManagers": True}
    node = memory_node(2, scope="pod", hugepages=2, kubernetes="1.37", gates=gates)
    level: ResourceList = {"cpu": "2", "memory": "3Gi"}
    asking = guaranteed("app", "500m", "1Gi", huge="1Gi")
    outcome = admit(node, pod(asking, container("shared"), level=level))
    blocks = {one.type: one.size_bytes for one in outcome.containers["shared"].memory}
    assert blocks == {"hugepages-1Gi": (1 << 64) - GIB, "memory": 2 * GIB}


@pytest.mark.parametrize(
    ("memory", "source", "bytes_"),
    [
        ("1536Mi", "file", 1536 << 20),
        ("1.5G", "file", 1_500_000_000),
        ("1.5Gi", "", 1536 << 20),
        ("1.5Gi", "api", 1536 << 20),
        ("1.5Gi", "file", None),
        ("1000000000m", "http", None),
    ],
)
def test_static_pods_need_quantities_that_an_api_server_would_have_written(
    memory: str, source: str, bytes_: int | None
) -> None:
    """The kubelet reads them as they are, and takes no factors out of them."""
    node = memory_node()
    one = pod(guaranteed("app", memory=memory))
    annotations = {"kubernetes.io/config.source": source} if source else {}
    metadata = msgspec.structs.replace(one.metadata, annotations=annotations)
    outcome = node.admit(msgspec.structs.replace(one, metadata=metadata))
    if bytes_ is None:
        assert outcome == Rejected(
            "UnexpectedAdmissionError",
            "Allocate failed due to [memorymanager] failed to represent quantity as int64, which is"
            " unexpected",
            "app",
        )
    else:
        assert isinstance(outcome, Admitted)
        assert [one.size_bytes for one in outcome.containers["app"].memory] == [bytes_]


def test_a_node_without_a_page_size_has_nothing_of_it() -> None:
    """Free or allocatable; of what it has, the reserved part is neither."""
    books = empty_books(machine(1, gib=8, hugepages=2), {0: {"memory": GIB}})
    assert (books[0].free("hugepages-2Mi"), books[0].allocatable("hugepages-2Mi")) == (0, 0)
    assert (books[0].free("hugepages-1Gi"), books[0].allocatable("hugepages-1Gi")) == (
        2 * GIB,
        2 * GIB,
    )
    assert (books[0].free("memory"), books[0].allocatable("memory")) == (5 * GIB, 5 * GIB)


@pytest.mark.parametrize("whole", [True, False])
def test_a_pod_with_other_containers_has_given_back_what_the_old_ones_held(*, whole: bool) -> None:
    """As a static pod whose file was changed; also what it held as a whole."""
    level: ResourceList | None = {"cpu": "2", "memory": "3Gi"} if whole else None

    def booted() -> KubeletNode:
        return memory_node(scope="pod", kubernetes="1.36", gates={"PodLevelResourceManagers": True})

    node, fresh, empty = booted(), booted(), booted()
    admit(node, pod(guaranteed("old", "1", "2Gi"), level=level))
    changed = pod(guaranteed("new", "1", "1Gi"), uid="uid", level=level)
    admit(node, changed)
    admit(fresh, changed)
    assert node.memory is not None
    assert fresh.memory is not None
    assert empty.memory is not None
    assert node.memory.books == fresh.memory.books
    assert node.memory.bubbles == fresh.memory.bubbles
    node.remove("uid")
    node.collect_garbage()
    assert node.memory.books == empty.memory.books


def test_hugepages_and_memory_of_init_containers_are_used_again_each_by_itself() -> None:
    """What an app takes of one does not come out of the other."""
    node = memory_node(1, hugepages=3)
    init = guaranteed("init", memory="3Gi", huge="3Gi")
    outcome = admit(node, pod(guaranteed("app", memory="2Gi", huge="1Gi"), init=(init,)))
    sizes = {
        name: {block.type: block.size_bytes // GIB for block in placement.memory}
        for name, placement in outcome.containers.items()
    }
    assert sizes == {
        "init": {"memory": 1, "hugepages-1Gi": 2},
        "app": {"memory": 2, "hugepages-1Gi": 1},
    }
