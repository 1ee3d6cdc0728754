"""The store: what its subscribers are told is what happened."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, PodSpec
from numakube.kube.resource_types import ObjectKey, key_of
from numakube.kube.store import Added, Change, Removed, Store, Updated


def pod(name: str, version: int = 1, *, uid: str = "", node: str = "") -> Pod:
    """Return a pod in namespace ``ns``."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid or name,
            resource_version=str(version),
            labels={"node": node} if node else {},
        )
    )


def key(name: str) -> ObjectKey:
    """Return the key of a pod in namespace ``ns``."""
    return ObjectKey("ns", name)


def by_node(pod: Pod) -> Iterable[str]:
    """Index pods by the node in their label."""
    return [pod.metadata.labels["node"]] if pod.metadata.labels else []


def recorded(store: Store[Pod]) -> list[Change[Pod]]:
    """Return the list that will hold all changes."""
    changes: list[Change[Pod]] = []
    store.subscribe(changes.append)
    return changes


def test_changes_are_told_with_the_old_state() -> None:
    """Added, updated, removed."""
    store: Store[Pod] = Store()
    changes = recorded(store)

    store.put(pod("a", 1))
    store.put(pod("a", 2))
    store.remove(key("a"), last=pod("a", 3))
    store.remove(key("a"))

    assert changes == [
        Added(pod("a", 1)),
        Updated(pod("a", 1), pod("a", 2)),
        Removed(pod("a", 3)),
    ]
    assert len(store) == 0


def test_the_same_state_again_is_no_change() -> None:
    """A new list shows mostly what is known."""
    store: Store[Pod] = Store()
    store.put(pod("a", 1))
    changes = recorded(store)

    store.put(pod("a", 1))
    store.replace([pod("a", 1)])

    assert changes == [Added(pod("a", 1))]


def test_an_object_that_was_replaced_by_another_of_its_name_has_gone() -> None:
    """Another uid is another object."""
    store: Store[Pod] = Store()
    store.put(pod("a", 1, uid="old"))
    changes = recorded(store)

    store.put(pod("a", 5, uid="new"))

    assert changes[1:] == [
        Removed(pod("a", 1, uid="old"), unseen=True),
        Added(pod("a", 5, uid="new")),
    ]


def test_a_new_list_tells_what_went_unseen() -> None:
    """And what came and changed."""
    store: Store[Pod] = Store()
    store.replace([pod("a", 1), pod("b", 1), pod("c", 1)])
    changes = recorded(store)[:]
    store.subscribe(changes.append, replay=False)

    store.replace([pod("b", 2), pod("c", 1), pod("d", 9)])

    assert changes[3:] == [
        Removed(pod("a", 1), unseen=True),
        Updated(pod("b", 1), pod("b", 2)),
        Added(pod("d", 9)),
    ]
    assert sorted(each.metadata.name for each in store) == ["b", "c", "d"]
    assert key("d") in store
    assert list(store.keys()) == [key_of(each) for each in store.values()]


def test_a_late_subscriber_is_told_of_what_is_there() -> None:
    """Unless it does not want to know; and none after it has left."""
    store: Store[Pod] = Store()
    store.put(pod("a"))
    all_changes: list[Change[Pod]] = []
    new_changes: list[Change[Pod]] = []
    leave = store.subscribe(all_changes.append)
    store.subscribe(new_changes.append, replay=False)

    store.put(pod("b"))
    leave()
    leave()
    store.put(pod("c"))

    assert all_changes == [Added(pod("a")), Added(pod("b"))]
    assert new_changes == [Added(pod("b")), Added(pod("c"))]


def test_a_handler_that_raises_harms_nobody() -> None:
    """It is reported; the others are called and the store changes."""
    reported: list[Exception] = []
    store: Store[Pod] = Store(on_failure=reported.append)

    def broken(_: Change[Pod]) -> None:
        raise RuntimeError("oops")

    store.subscribe(broken)
    changes = recorded(store)
    store.put(pod("a"))

    assert changes == [Added(pod("a"))]
    assert store.get(key("a")) == pod("a")
    assert [str(each) for each in reported] == ["oops"]
    assert store.failures == 1


def test_handlers_see_the_store_as_it_is_after_the_change() -> None:
    """Also through an index."""
    store: Store[Pod] = Store()
    store.add_index("node", by_node)
    seen: list[tuple[bool, int]] = []
    store.subscribe(lambda _: seen.append((key("a") in store, len(store.select("node", "n")))))

    store.put(pod("a", node="n"))
    store.remove(key("a"))

    assert seen == [(True, 1), (False, 0)]


def test_indexes_follow_every_change() -> None:
    """Added to a store that is not empty, too."""
    store: Store[Pod] = Store()
    store.put(pod("a", 1, node="n1"))
    store.add_index("node", by_node)
    store.put(pod("b", 1, node="n1"))
    store.put(pod("c", 1))
    assert [each.metadata.name for each in store.select("node", "n1")] == ["a", "b"]

    store.put(pod("a", 2, node="n2"))
    store.remove(key("b"))

    assert store.select("node", "n1") == ()
    assert store.select("node", "n2") == (pod("a", 2, node="n2"),)
    with pytest.raises(ValueError, match="already has an index 'node'"):
        store.add_index("node", by_node)


def test_an_index_function_that_raises_leaves_the_object_unindexed() -> None:
    """The object itself is kept."""
    store: Store[Pod] = Store()
    store.add_index("broken", lambda pod: [pod.metadata.labels["missing"]])

    store.put(pod("a"))

    assert key("a") in store
    assert store.failures == 1


pods = st.builds(
    pod,
    st.sampled_from("abcde"),
    st.integers(1, 5),
    uid=st.sampled_from("xy"),
    node=st.sampled_from(["", "n1", "n2"]),
)
operations = st.one_of(
    st.tuples(st.just("put"), pods),
    st.tuples(st.just("remove"), st.sampled_from("abcde")),
    st.tuples(st.just("replace"), st.lists(pods, max_size=5)),
)


@given(st.lists(operations, max_size=20))
def test_what_is_told_gives_the_content(steps: list[tuple[str, object]]) -> None:
    """Applied to an empty mapping, always; and an index equals a search."""
    store: Store[Pod] = Store()
    store.add_index("node", by_node)
    mirror: dict[ObjectKey, Pod] = {}
    store.subscribe(lambda change: apply(change, mirror))

    for name, argument in steps:
        target = key(argument) if isinstance(argument, str) else argument
        getattr(store, name)(target)

        assert mirror == dict(zip(store.keys(), store.values(), strict=True))
        for node in ("n1", "n2"):
            found = {key_of(each) for each in store.select("node", node)}
            assert found == {key_of(each) for each in store if node in by_node(each)}


def apply(change: Change[Pod], mirror: dict[ObjectKey, Pod]) -> None:
    """Apply *change* to *mirror*, which it must fit."""
    where = key_of(change.object)
    match change:
        case Added(obj):
            assert where not in mirror
            mirror[where] = obj
        case Updated(old, obj):
            assert mirror[where] == old
            mirror[where] = obj
        case Removed():
            del mirror[where]


def test_objects_can_be_made_smaller_before_they_are_kept() -> None:
    """Handlers and readers see what is kept; the same state again is still no change."""
    store: Store[Pod] = Store(transform=lambda one: Pod(metadata=one.metadata))
    changes = recorded(store)
    whole = Pod(metadata=pod("a").metadata, spec=PodSpec(node_name="n"))
    store.put(whole)
    store.put(whole)
    assert changes == [Added(pod("a"))]
    assert store.get(key("a")) == pod("a")
