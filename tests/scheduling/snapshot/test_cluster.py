"""The cluster's state equals what its events add up to, in whatever order they come."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.conftest import MakeNode

from numakube.api.koordinator import keys
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.scheduling.snapshot.cluster import Cluster, NodePart, Snapshot, StaleSnapshotError
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo


def node(name: str, cpus: int = 8) -> Node:
    """A node with that many CPUs."""
    return Node(
        metadata=ObjectMeta(name=name),
        status=NodeStatus(allocatable={"cpu": str(cpus), "memory": "16Gi", "pods": "110"}),
    )


def pod(uid: str, cpu: str = "1", **more: str) -> PodInfo:
    """A pod that asks for *cpu* and *more*."""
    resources = ResourceRequirements(requests={"cpu": cpu, **more})
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
            spec=PodSpec(containers=(Container(name="c", resources=resources),)),
        )
    )


def test_pods_seen_before_their_node_count_once_it_appears() -> None:
    """Watches of pods and nodes are not ordered."""
    cluster = Cluster()
    cluster.place(pod("a", "2"), "n1")
    info = cluster.set_node(node("n1"))
    assert info.requested["cpu"] == 2000
    assert cluster.snapshot().resources.requested("cpu")[info.row] == 2000


def test_a_pod_placed_elsewhere_leaves_its_first_node() -> None:
    """A pod is on one node at a time."""
    cluster = Cluster()
    first, second = cluster.set_node(node("n1")), cluster.set_node(node("n2"))
    cluster.place(pod("a"), "n1")
    cluster.place(pod("a"), "n2")
    requested = cluster.snapshot().resources.requested("cpu")
    assert (requested[first.row], requested[second.row]) == (0, 1000)


def test_a_node_that_returns_still_has_its_pods() -> None:
    """Pods outlive the node object."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    cluster.place(pod("a", "3"), "n1")
    cluster.remove_node("n1")
    assert cluster.node("n1") is None
    assert cluster.set_node(node("n1")).requested["cpu"] == 3000


def test_a_resource_seen_late_is_counted_for_every_node() -> None:
    """Arrays of a new resource start at zero everywhere."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    late = cluster.set_node(node("n2"))
    cluster.place(pod("a", "1", **{"vendor.example/gpu": "2"}), "n2")
    gpus = cluster.snapshot().resources.requested("vendor.example/gpu")
    assert gpus[late.row] == 2
    assert gpus.sum() == 2


def test_arrays_grow_with_the_nodes() -> None:
    """No row is lost when room is made."""
    cluster = Cluster()
    for number in range(200):
        cluster.set_node(node(f"n{number}", cpus=number))
    table = cluster.snapshot().resources.allocatable("cpu")
    assert [int(table[cluster.row_of[f"n{number}"]]) for number in range(200)] == [
        number * 1000 for number in range(200)
    ]


def test_a_snapshot_does_not_outlive_a_change() -> None:
    """A kept view would mix two states."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    snapshot = cluster.snapshot()
    assert [info.name for info in snapshot.nodes()] == ["n1"]
    cluster.place(pod("a"), "n1")
    with pytest.raises(StaleSnapshotError):
        list(snapshot.nodes())


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 4), st.integers(1, 64)),
        st.tuples(st.just("gone"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("place"), st.integers(0, 9), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just(0)),
    ),
    max_size=40,
)


@given(EVENTS)
def test_arrays_equal_a_cluster_built_afresh(events: list[tuple[str, int, int]]) -> None:
    """Whatever happened, only the last state counts."""
    cluster, nodes, placed = Cluster(), {}, {}
    for kind, one, two in events:
        match kind:
            case "node":
                nodes[f"n{one}"] = node(f"n{one}", two)
                cluster.set_node(nodes[f"n{one}"])
            case "gone":
                nodes.pop(f"n{one}", None)
                cluster.remove_node(f"n{one}")
            case "place":
                placed[f"p{one}"] = f"n{two}"
                cluster.place(pod(f"p{one}", str(one + 1)), f"n{two}")
            case _:
                placed.pop(f"p{one}", None)
                cluster.remove_pod(f"p{one}")
    expected = Snapshot.of(
        NodeInfo(
            nodes[name],
            pods=[pod(uid, str(int(uid[1:]) + 1)) for uid, on in placed.items() if on == name],
        )
        for name in nodes
    )
    snapshot = cluster.snapshot()
    assert {info.name for info in snapshot.nodes()} == nodes.keys()
    for name in nodes:
        ours, theirs = snapshot.row_of[name], expected.row_of[name]
        for table in ("allocatable", "requested"):
            assert (
                getattr(snapshot.resources, table)("cpu")[ours]
                == getattr(expected.resources, table)("cpu")[theirs]
            )
        assert snapshot.resources.pod_count[ours] == expected.resources.pod_count[theirs]


def test_pods_that_ask_for_exabytes_are_counted() -> None:
    """Anybody may put such pods on a node by name; the scheduler must survive them."""
    cluster = Cluster()
    info = cluster.set_node(node("n1"))
    for number in range(9):
        cluster.place(pod(str(number), "7Ei", memory="7Ei"), "n1")
    requested = cluster.snapshot().resources.requested("memory")
    assert requested[info.row] > 1 << 61
    for number in range(9):
        cluster.remove_pod(str(number))
    assert requested[info.row] == 0


def annotated(name: str, **annotations: str) -> Node:
    """A node with annotations."""
    return Node(metadata=ObjectMeta(name=name, annotations=annotations))


def test_annotations_of_nodes_count_only_if_placement_depends_on_them() -> None:
    """Other people's annotations change every few seconds."""
    cluster = Cluster()
    cluster.set_node(annotated("n1"))
    before = cluster.nodes_generation
    cluster.set_node(annotated("n1", anything="1"))
    assert cluster.nodes_generation == before
    cluster.set_node(annotated("n1", **{keys.NODE_RESERVATION: '{"reservedCPUs":"0"}'}))
    assert cluster.nodes_generation > before


@pytest.mark.parametrize(
    ("after", "frees"),
    [
        (pod("a", "2"), False),
        (pod("a", "3"), False),
        (pod("a", "1"), True),
        (pod("a", "2").annotated({"anything": "1"}), False),
        (pod("a", "2").annotated({keys.RESOURCE_STATUS: '{"cpuset":"1"}'}), True),
    ],
)
def test_a_pod_that_holds_less_or_something_else_lets_others_be_tried(
    after: PodInfo, *, frees: bool
) -> None:
    """It was resized in place, or given other CPUs."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    cluster.place(pod("a", "2").annotated({keys.RESOURCE_STATUS: '{"cpuset":"0"}'}), "n1")
    before = cluster.room_generation
    kept = {keys.RESOURCE_STATUS: '{"cpuset":"0"}', **after.pod.metadata.annotations}
    cluster.place(after.annotated(kept), "n1")
    assert (cluster.room_generation > before) is frees


def test_rows_of_nodes_that_are_gone_are_used_again(make_node: MakeNode) -> None:
    """Nodes of an autoscaler come and go for months."""
    cluster = Cluster()
    cluster.set_node(make_node("stays"))
    for number in range(20):
        cluster.set_node(make_node(f"n{number}"))
        cluster.remove_node(f"n{number}")
    assert len(cluster.by_row) == 2
    cluster.set_node(make_node("another"))
    cluster.set_node(make_node("one-more"))
    rows = {cluster.row_of[name] for name in ("stays", "another", "one-more")}
    assert rows == {0, 1, 2}


HAPPENINGS: dict[str, tuple[Callable[[Cluster], object], set[str] | None, bool, bool]] = {
    "a new pod": (lambda it: it.place(pod("new"), "n1"), {"n1"}, False, False),
    "the same pod again": (lambda it: it.place(pod("a"), "n1"), {"n1"}, False, False),
    "a larger pod": (lambda it: it.place(pod("a", "2"), "n1"), {"n1"}, False, False),
    "a smaller pod": (lambda it: it.place(pod("a", "500m"), "n1"), {"n1"}, True, False),
    "a pod that moves": (lambda it: it.place(pod("a"), "n2"), {"n1", "n2"}, True, False),
    "a pod that goes": (lambda it: it.remove_pod("a"), {"n1"}, True, False),
    "a pod that nobody knows": (lambda it: it.remove_pod("x"), set(), False, False),
    "a pod of no node": (lambda it: it.place(pod("x"), "later"), set(), False, False),
    "the same node again": (lambda it: it.set_node(node("n1")), set(), False, False),
    "a larger node": (lambda it: it.set_node(node("n1", 16)), {"n1"}, True, True),
    "a new node": (lambda it: it.set_node(node("n3")), {"n3"}, True, True),
    "a node that goes": (lambda it: it.remove_node("n1"), None, True, True),
    "a node that nobody knows": (lambda it: it.remove_node("n9"), set(), False, False),
    "a belief": (lambda it: it.suppose("n1", None), {"n1"}, True, False),
    "a belief of no node": (lambda it: it.suppose("later", None), set(), True, False),
    "an object": (lambda it: it.objects_changed(), None, True, False),
    "an object about a node": (lambda it: it.objects_changed("n1"), None, True, False),
    "a judgement": (lambda it: it.judge_again("n1"), None, True, False),
    "a judgement of no node": (lambda it: it.judge_again("n9"), None, True, False),
}


@pytest.mark.parametrize("what", HAPPENINGS)
def test_it_is_known_which_nodes_have_changed_and_whether_room_was_made(what: str) -> None:
    """Pods that fitted nowhere are tried again only then."""
    happens, changed, makes_room, about_nodes = HAPPENINGS[what]
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.set_node(node(name))
    cluster.place(pod("a"), "n1")
    before = cluster.generation, cluster.room_generation, cluster.nodes_generation
    ages = {info.name: info.generation for info in cluster.nodes()}
    happens(cluster)
    found = cluster.changed_since(before[0], most=5)
    assert (None if found is None else {info.name for info in found}) == changed
    assert (cluster.room_generation > before[1]) is makes_room
    assert (cluster.nodes_generation > before[2]) is about_nodes
    for info in cluster.nodes():
        about = what in ("an object about a node", "a judgement") and info.name == "n1"
        touched = info.name in (changed or ()) or about
        assert (info.generation != ages.get(info.name)) is touched
    assert cluster.changed_since(cluster.generation, most=0) == []
    if changed:
        assert cluster.changed_since(before[0], most=len(changed)) is not None
        assert cluster.changed_since(before[0], most=len(changed) - 1) is None


def test_changes_of_too_long_ago_are_not_told() -> None:
    """Then everything may have changed."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    long_ago = cluster.generation
    while (found := cluster.changed_since(long_ago, most=5)) is not None:
        assert [info.name for info in found] in ([], ["n1"])
        assert cluster.generation < long_ago + 1_000_000
        cluster.place(pod("a"), "n1")
    recent = cluster.generation
    cluster.place(pod("a"), "n1")
    assert cluster.changed_since(recent, most=5) is not None


def test_what_is_told_of_nodes_is_read_again_when_a_node_is_judged_again() -> None:
    """What it depends on may be elsewhere."""
    cluster, open_to = Cluster(), set[str]()
    for name in ("n1", "n2"):
        cluster.set_node(node(name))

    def told() -> list[bool]:
        column = cluster.snapshot().column("open", lambda info: info.name in open_to or None)
        return [bool(one) for one in column.present(cluster.snapshot().rows)]

    assert told() == [False, False]
    open_to.update(("n1", "n2"))
    assert told() == [False, False]
    cluster.judge_again("n2")
    assert told() == [False, True]


def test_a_node_is_set_aside_until_the_part_changes_that_could_not_be_read() -> None:
    """Its object, or what is believed of its zones."""
    cluster = Cluster()
    cluster.set_node(node("n1"))
    for part in NodePart:
        cluster.set_aside("n1", part, ValueError("odd"))
    assert cluster.snapshot().aside.keys() == {("n1", part) for part in NodePart}
    assert set(cluster.snapshot().aside.values()) == {"ValueError: odd"}
    cluster.set_node(node("n1", 9))
    assert cluster.aside.keys() == {("n1", NodePart.ZONES)}
    cluster.suppose("n1", None)
    assert cluster.aside == {}
    cluster.snapshot().set_aside("n1", ValueError("odd"))
    cluster.set_aside("n1", NodePart.OBJECT, ValueError("odd"))
    assert len(cluster.aside) == 2
    cluster.remove_node("n1")
    assert cluster.aside == {}


def test_a_pod_is_found_wherever_it_is() -> None:
    """Also while its node is not there."""
    cluster = Cluster()
    one = pod("a")
    assert (cluster.pod("a"), cluster.node_of("a")) == (None, None)
    cluster.place(one, "later")
    assert (cluster.pod("a"), cluster.node_of("a")) == (one, "later")
    assert cluster.snapshot().has_placed("a")
    cluster.set_node(node("later"))
    assert cluster.pod("a") is one
    cluster.remove_node("later")
    assert cluster.pod("a") is one
    assert cluster.remove_pod("a") is one
    assert (cluster.pod("a"), cluster.node_of("a")) == (None, None)
    assert not cluster.snapshot().has_placed("a")
    cluster.set_node(node("later"))
    assert cluster.pod("a") is None
