"""The Memory Manager: from which NUMA nodes memory and hugepages come, and how pods share it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import admit, container, guaranteed, pod, reject, start
from tests.kubelet.conftest import GIB, build_machine

from numakube.api.codec import ResourceList
from numakube.api.pod import Container
from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import Admitted, MemoryBlock, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import HugePages, Machine
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.memory_hints import empty_books
from numakube.kubelet.memory_manager import MemoryManager, partition, shared_pool_problem
from numakube.kubelet.pod_demand import ContainerDemand, ContainerRole, PodDemand, PodLevelDemand
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
    configured = KubeletSettings(
        topology_policy=policy,
        topology_scope=scope,
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
        feature_gates=gates or {},
    )
    return start(machine(numa_count, hugepages=hugepages), configured, kubernetes=kubernetes)


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
    configured = KubeletSettings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = start(machine(1, gib=1, hugepages=4), configured)
    assert node.memory is not None
    assert node.memory.books[0].tables["memory"].allocatable == (1 << 64) - 4 * GIB


def test_sums_over_a_group_wrap_around_when_memory_is_allocated_too() -> None:
    """A node with more reserved than it has eats the memory of the others in its group."""
    configured = KubeletSettings(memory_policy="Static", reserved_memory={0: {"memory": 12 * GIB}})
    node = start(machine(2), configured)
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
    blocks = {block.type: block.size_bytes for block in outcome.containers["shared"].memory}
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
        assert [block.size_bytes for block in outcome.containers["app"].memory] == [bytes_]


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


def bubble_node(policy: str = "best-effort") -> KubeletNode:
    """A node that manages the memory of a pod as a whole."""
    gates = {"PodLevelResourceManagers": True}
    return memory_node(2, policy, scope="pod", kubernetes="1.37", gates=gates)


def manager_of(node: KubeletNode) -> MemoryManager:
    """Return the Memory Manager of a node, which must have one."""
    assert node.memory is not None
    return node.memory


def test_a_copy_between_two_containers_knows_what_the_first_left() -> None:
    """The app uses the memory of its init container again, in the copy as in the original."""
    node = memory_node(1)
    demand = node.demand_of(pod(guaranteed("app", memory="2Gi"), init=(guaranteed("init"),)))
    manager = manager_of(node)
    manager.allocate(demand, demand.containers[0], Hint(1, True))
    copy = manager.clone()
    for other in (manager, copy):
        other.allocate(demand, demand.containers[1], Hint(1, True))
        assert other.books[0].tables["memory"].reserved == 2 * GIB


def test_a_bubble_without_memory_for_its_shared_containers_fits_nowhere() -> None:
    """Other pods may have containers that ask for nothing."""
    level: ResourceList = {"cpu": "2", "memory": "3Gi"}
    node = bubble_node()
    full = pod(guaranteed("app", "500m", "3Gi"), container("shared"), level=level)
    assert manager_of(node).pod_hints(node.demand_of(full)) == {"memory": ()}
    assert reject(node, full).reason == "EmptyPodSharedPoolError"
    burstable = pod(container("app", memory="3Gi"), container("other"))
    assert manager_of(node).pod_hints(node.demand_of(burstable)) is None


def test_a_bubble_too_large_for_the_machine_is_refused() -> None:
    """As a container would be."""
    node = bubble_node()
    refused = reject(node, pod(container("app"), level={"cpu": "2", "memory": "20Gi"}))
    assert "failed to find NUMA nodes to extend the current topology hint" in refused.message


def test_a_bubble_of_no_whole_bytes_gets_no_memory() -> None:
    """Its pod is admitted all the same."""
    node = bubble_node()
    one = pod(container("app"), level={"cpu": "2", "memory": "1000000500m"})
    assert admit(node, one).containers["app"].memory == ()
    assert manager_of(node).books == manager_of(bubble_node()).books


@pytest.mark.parametrize(("kubernetes", "refused"), [("1.36", True), ("1.37", False)])
def test_a_container_that_asks_for_no_memory_gets_none_since_1_37(
    kubernetes: str, *, refused: bool
) -> None:
    """Before, no default could be found for it."""
    manager = manager_of(memory_node(kubernetes=kubernetes))
    empty = ContainerDemand("app", ContainerRole.APP, 1, {}, {})
    demand = PodDemand("uid", guaranteed=True, managed=True, containers=(empty,))
    failure = manager.allocate(demand, empty, Hint(None, False))
    assert (failure is not None and "default NUMA affinity" in failure.message) == refused
    assert list(manager.pods()) == []


def test_a_pod_whose_init_containers_gave_all_back_holds_nothing() -> None:
    """Their memory is free when the next container starts."""
    node = memory_node(1)
    demand = node.demand_of(pod(guaranteed("app", memory="2Gi"), init=(guaranteed("init"),)))
    manager = manager_of(node)
    manager.allocate(demand, demand.containers[0], Hint(1, True))
    assert list(manager.pods()) == ["uid"]
    assert manager.start_container(demand, demand.containers[1])
    assert list(manager.pods()) == []
    assert manager.books == manager_of(memory_node(1)).books


def test_containers_that_a_pod_still_has_keep_their_memory() -> None:
    """Only what the others held is free again."""
    node = memory_node(1)
    admit(node, pod(guaranteed("a", memory="1Gi"), guaranteed("b", memory="2Gi")))
    manager = manager_of(node)
    manager.forget_others("uid", {"a", "c"})
    assert manager.held_by("uid", "a") == (MemoryBlock((0,), "memory", GIB),)
    assert manager.held_by("uid", "b") == ()
    assert manager.books[0].tables["memory"].reserved == GIB


@pytest.mark.parametrize(
    ("guaranteed_", "managed", "memory", "asked"),
    [
        (True, True, {"memory": GIB}, {"memory": GIB}),
        (False, True, {"memory": GIB}, {}),
        (True, False, {"memory": GIB}, {}),
        (True, True, None, {}),
        (True, True, {}, {}),
    ],
)
def test_only_guaranteed_pods_that_are_managed_ask_for_memory(
    memory: dict[str, int] | None, asked: dict[str, int], *, guaranteed_: bool, managed: bool
) -> None:
    """The others have no hints; and nothing is booked for them."""
    manager = manager_of(memory_node())
    one = ContainerDemand("app", ContainerRole.APP, 1, memory, {})
    demand = PodDemand("uid", guaranteed=guaranteed_, managed=managed, containers=(one,))
    assert manager.wanted(demand, one) == manager.wanted(demand, None) == asked
    assert (manager.container_hints(demand, one) is not None) == bool(asked)
    assert (manager.pod_hints(demand) is not None) == bool(asked)


@pytest.mark.parametrize(("size", "masks"), [("3Gi", [1, 2]), ("10Gi", [3])])
def test_nodes_alone_are_enough_where_one_can_hold_all(size: str, masks: list[int]) -> None:
    """Where none can, wider groups say that it fits, if not there."""
    node = memory_node(2)
    demand = node.demand_of(pod(guaranteed("app", memory=size)))
    hints = manager_of(node).container_hints(demand, demand.containers[0], alone=True)
    assert hints is not None
    found = hints["memory"]
    assert isinstance(found, list)
    assert [hint.mask for hint in found] == masks


def test_a_preferred_hint_without_nodes_asks_for_a_preferred_group() -> None:
    """Both nodes are used together, though one of them would have been large enough."""
    node = memory_node(2, "best-effort")
    admit(node, pod(guaranteed("c", memory="10Gi"), uid="wide"))
    demand = node.demand_of(pod(guaranteed("c", memory="3Gi")))
    manager = manager_of(node)
    failure = manager.allocate(demand, demand.containers[0], Hint(None, True))
    assert failure is not None
    assert "failed to find the default preferred hint" in failure.message
    assert manager.allocate(demand, demand.containers[0], Hint(None, False)) is None
    assert manager.held_by("uid", "c") == (MemoryBlock((0, 1), "memory", 3 * GIB),)


@pytest.mark.parametrize(
    ("size", "message"), [("14Gi", "violates NUMA node allocation"), ("15Gi", "to extend")]
)
def test_a_hint_with_just_enough_memory_is_not_extended(size: str, message: str) -> None:
    """What is left of a node in use and all of the other are 14 GiB, which may not be joined."""
    node = memory_node(2, "best-effort")
    admit(node, pod(guaranteed("c", memory="1Gi"), uid="other"))
    demand = node.demand_of(pod(guaranteed("c", memory=size)))
    both = Hint(mask_of((0, 1)), False)
    failure = manager_of(node).allocate(demand, demand.containers[0], both)
    assert failure is not None
    assert message in failure.message


@pytest.mark.parametrize(
    ("memory", "regenerated"),
    [
        ({"memory": GIB}, {"memory": (Hint(1, True),)}),
        ({"memory": 2 * GIB}, None),
        ({"memory": GIB, "hugepages-1Gi": GIB}, None),
    ],
)
def test_hints_of_memory_already_held_name_its_nodes(
    memory: dict[str, int], regenerated: dict[str, tuple[Hint, ...]] | None
) -> None:
    """A request that differs from what is held reads as no preference."""
    node = memory_node(2, hugepages=2)
    admit(node, pod(guaranteed("app", memory="1Gi")))
    one = ContainerDemand("app", ContainerRole.APP, 1, memory, {})
    demand = PodDemand("uid", guaranteed=True, managed=True, containers=(one,))
    assert manager_of(node).container_hints(demand, one) == regenerated


@pytest.mark.parametrize(
    ("reserved", "node_allocatable", "message"),
    [
        ({"memory": GIB}, {}, 'amount "1073741824" of type "memory" is not equal to the value "0"'),
        (
            {"memory": GIB},
            {"memory": GIB, "hugepages-1Gi": GIB},
            'amount "0" of type "hugepages-1Gi" is not equal to the value "1073741824"',
        ),
    ],
)
def test_reservations_of_one_side_alone_are_told_as_nothing_on_the_other(
    reserved: dict[str, int], node_allocatable: dict[str, int], message: str
) -> None:
    """What NUMA nodes reserve is what the node reserves, or the kubelet does not start."""
    wrong = KubeletSettings(
        memory_policy="Static", reserved_memory={0: reserved}, memory_reservation=node_allocatable
    )
    with pytest.raises(KubeletStartError, match=message):
        start(machine(2, hugepages=2), wrong)


SIZES = st.fixed_dictionaries({"memory": st.integers(1, 4), "huge": st.integers(0, 3)})


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, max_size=3), st.lists(SIZES, min_size=1, max_size=3), st.booleans())
def test_blocks_of_a_pod_add_up_to_what_is_booked(
    init: list[dict[str, int]], apps: list[dict[str, int]], same: bool
) -> None:
    """Also of a pod that comes back with other app containers, after another was admitted.

    With several init containers such a pod loses what the larger ones left: a kubelet knows the
    largest of what they left, and takes from all of them.
    """
    node = memory_node(1, hugepages=2)
    lasting = init if same else init[:1]
    first = tuple(sized(f"i{number}", sizes) for number, sizes in enumerate(lasting))
    for prefix, uid in (("a", "uid"), ("x", "other"), ("a" if same else "b", "uid")):
        members = [sized(f"{prefix}{number}", sizes) for number, sizes in enumerate(apps)]
        node.admit(pod(*members, init=first if uid == "uid" else (), uid=uid))
        node.collect_garbage()
        assert_adds_up(manager_of(node))
    node.remove("uid")
    node.remove("other")
    node.collect_garbage()
    assert manager_of(node).books == manager_of(memory_node(1, hugepages=2)).books


def test_a_container_that_stays_takes_what_an_init_container_left_from_a_new_one() -> None:
    """As in kubelets: its memory counts as used again once more, and the new one books its own."""
    node = memory_node(1)
    first = (sized("init", {"memory": 2}),)
    for uid, app in (("uid", "a"), ("other", "x"), ("uid", "b")):
        apps = (sized("stays", {"memory": 1}), *([sized("b", {"memory": 1})] if app == "b" else []))
        node.admit(pod(*apps, init=first if uid == "uid" else (), uid=uid))
        node.remove("other")
        node.collect_garbage()
    manager = manager_of(node)
    held = manager.assignments["uid"]
    assert {name: sum(block.size_bytes for block in blocks) for name, blocks in held.items()} == {
        "init": 0,
        "stays": GIB,
        "b": GIB,
    }
    assert manager.books[0].tables["memory"].reserved == 3 * GIB


def sized(name: str, sizes: dict[str, int]) -> Container:
    """Return a container that asks for so many GiB."""
    return guaranteed(name, "10m", **{kind: f"{size}Gi" for kind, size in sizes.items()})


def assert_adds_up(manager: MemoryManager) -> None:
    """Compare the blocks of all containers with the books."""
    for kind, table in manager.books[0].tables.items():
        held = [
            block.size_bytes
            for containers in manager.assignments.values()
            for blocks in containers.values()
            for block in blocks
            if block.type == kind
        ]
        assert sum(held) == table.reserved, kind


# How containers share the memory that their pod asks for as a whole.


ROLES = {"i": ContainerRole.INIT, "s": ContainerRole.SIDECAR, "a": ContainerRole.APP}
SHARED_INIT = "pod rejected, pod has shared init containers but no {} available for them"
SHARED = (
    "pod rejected, sum of exclusive container {} requests equals pod budget, leaving no memory for "
    "shared containers"
)


def demand(budget: dict[str, int], *containers: tuple[str, dict[str, int] | None]) -> PodDemand:
    """Return a pod; the first letter of a container's name says what it is."""
    return PodDemand(
        uid="uid",
        guaranteed=True,
        managed=True,
        containers=tuple(
            ContainerDemand(name, ROLES[name[0]], exclusive_cpus=0, memory=memory, limits={})
            for name, memory in containers
        ),
        pod_level=PodLevelDemand(0, budget),
    )


M, H = "memory", "hugepages-1Gi"


@pytest.mark.parametrize(
    ("budget", "containers", "problem", "parts"),
    [
        ({M: 3}, [("a0", {M: 2}), ("a1", {})], None, {"a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("a0", {M: 2}), ("a1", None)], None, {"a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("a0", {M: 3}), ("a1", {})], SHARED.format(M), {"a0": {M: 3}, "a1": {}}),
        ({M: 3}, [("a0", {M: 1}), ("a1", {M: 1}), ("a2", {})], None,
         {"a0": {M: 1}, "a1": {M: 1}, "a2": {M: 1}}),
        ({M: 3}, [("a0", {M: 1}), ("a1", {M: 2}), ("a2", {})], SHARED.format(M),
         {"a0": {M: 1}, "a1": {M: 2}, "a2": {}}),
        ({M: 3}, [("a0", {M: 3})], None, {"a0": {M: 3}}),
        ({M: 3, H: 1}, [("a0", {M: 2}), ("a1", {})], None, {"a0": {M: 2}, "a1": {M: 1, H: 1}}),
        ({M: 3, H: 1}, [("a0", {H: 1}), ("a1", {})], SHARED.format(H),
         {"a0": {H: 1}, "a1": {M: 3}}),
        ({M: 1}, [("a0", {}), ("a1", {})], None, {"a0": {M: 1}, "a1": {M: 1}}),
        ({M: 3}, [("i0", {M: 3}), ("a0", {M: 2}), ("a1", {})], None,
         {"i0": {M: 3}, "a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("i0", {}), ("s0", {M: 2}), ("i1", {}), ("a0", {M: 1})], None,
         {"i0": {M: 3}, "s0": {M: 2}, "i1": {M: 1}, "a0": {M: 1}}),
        ({M: 3}, [("s0", {M: 3}), ("i0", {}), ("a0", {M: 1})], SHARED_INIT.format(M), None),
        ({M: 3}, [("s0", {M: 3}), ("i0", {M: 1}), ("a0", {M: 1})], None, None),
        ({M: 3}, [("s0", {M: 1, H: 2}), ("a0", {})], None, {"s0": {M: 1, H: 2}, "a0": {M: 2}}),
    ],
)  # fmt: skip
def test_each_container_has_its_own_or_what_is_left(
    budget: dict[str, int],
    containers: list[tuple[str, dict[str, int] | None]],
    problem: str | None,
    parts: dict[str, dict[str, int]] | None,
) -> None:
    """Init containers without memory of their own share what sidecars before them leave."""
    pod = demand(budget, *containers)
    assert shared_pool_problem(pod) == problem
    if parts is not None:
        assert partition(pod, (0, 1)) == {
            name: tuple(MemoryBlock((0, 1), kind, size) for kind, size in sizes.items())
            for name, sizes in parts.items()
        }
