"""The versioned store, against a model that keeps every version of everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.store.store import (
    HISTORY_BYTES,
    Key,
    StoreChange,
    VersionCompacted,
    VersionedStore,
)

SHELF = "configmaps"
NAMES = st.sampled_from("abc")
NAMESPACES = st.sampled_from(("n", "n-1", "n0"))


def obj(data: str) -> dict[str, Any]:
    """An object."""
    return {"metadata": {}, "data": data}


@dataclass
class Model:
    """Every state that a store went through."""

    store: VersionedStore = field(default_factory=VersionedStore)
    states: dict[int, dict[str, str]] = field(default_factory=dict)
    now: dict[str, str] = field(default_factory=dict)

    def act(self, action: tuple[str, str, str, str]) -> None:
        """Do something to the store and to the model."""
        kind, namespace, name, data = action
        key = Key(SHELF, namespace, name)
        if kind == "put":
            self.store.put(key, obj(data))
            self.now[key.path] = data
        elif kind == "remove" and key.path in self.now:
            self.store.remove(key)
            del self.now[key.path]
        elif kind == "other":
            self.store.put(Key("pods", namespace, name), obj(data))
        elif kind == "compact":
            self.store.compact()
            self.states.clear()
        self.states[self.store.version] = dict(self.now)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "put", "remove", "other", "compact")),
        NAMESPACES,
        NAMES,
        st.sampled_from("xyz"),
    ),
    max_size=40,
)


def run(actions: list[tuple[str, str, str, str]]) -> Model:
    """Do *actions*."""
    model = Model()
    for action in actions:
        model.act(action)
    return model


@given(ACTIONS)
def test_a_list_shows_the_objects_in_the_order_of_their_keys(
    actions: list[tuple[str, str, str, str]],
) -> None:
    """Namespaces whose names begin alike are told apart."""
    model = run(actions)
    for namespace in ("", "n", "n-1", "n0"):
        listed = model.store.listed(SHELF, namespace)
        paths = sorted(p for p in model.now if not namespace or p.startswith(f"{namespace}/"))

        assert [stored.key.path for stored in listed] == paths


@given(ACTIONS)
def test_every_version_that_was_not_compacted_can_be_listed(
    actions: list[tuple[str, str, str, str]],
) -> None:
    """The past is shown as it was; what was compacted is expired."""
    model = run(actions)
    for version, state in model.states.items():
        found = model.store.list_at(SHELF, "", version)

        assert not isinstance(found, VersionCompacted)
        assert {stored.key.path: stored.obj["data"] for stored in found} == state


@given(ACTIONS, ACTIONS)
def test_changes_since_a_version_lead_from_its_state_to_the_present(
    before: list[tuple[str, str, str, str]], after: list[tuple[str, str, str, str]]
) -> None:
    """A watcher that resumes misses nothing and sees nothing twice."""
    model = run(before)
    version, state = model.store.version, dict(model.now)
    for action in after:
        model.act(action)
    changes = model.store.changes_since(SHELF, version)
    if isinstance(changes, VersionCompacted):
        assert any(action[0] == "compact" for action in after)
        return
    for change in changes:
        if change.type == "DELETED":
            del state[change.now.key.path]
        else:
            assert (change.now.key.path in state) == (change.type == "MODIFIED")
            state[change.now.key.path] = change.now.obj["data"]

    assert state == model.now
    assert [c.version for c in changes] == sorted({c.version for c in changes})


def test_a_listener_hears_of_changes_of_its_resource_until_it_stops() -> None:
    """Subscriptions are by resource."""
    store, heard = VersionedStore(), list[StoreChange]()
    stop = store.subscribe(SHELF, heard.append)
    store.put(Key(SHELF, "n", "a"), obj("x"))
    store.put(Key("pods", "n", "a"), obj("x"))
    stop()
    store.put(Key(SHELF, "n", "a"), obj("y"))

    assert [(change.type, change.now.obj["data"]) for change in heard] == [("ADDED", "x")]


def test_a_full_history_forgets_the_oldest_changes() -> None:
    """A version before the oldest known change is expired."""
    store = VersionedStore(history=3)
    versions = [store.put(Key(SHELF, "n", "a"), obj(str(n))).version for n in range(5)]

    assert isinstance(store.changes_since(SHELF, versions[0]), VersionCompacted)
    recent = store.changes_since(SHELF, versions[1])
    assert not isinstance(recent, VersionCompacted)
    assert [change.version for change in recent] == versions[2:]


def test_a_history_of_large_objects_is_shorter() -> None:
    """What it takes is bounded, however large the objects are."""
    store, large = VersionedStore(), "x" * (HISTORY_BYTES // 4)
    versions = [store.put(Key(SHELF, "n", "a"), obj(f"{large}{n}")).version for n in range(8)]

    assert isinstance(store.changes_since(SHELF, versions[1]), VersionCompacted)
    recent = store.changes_since(SHELF, versions[6])
    assert not isinstance(recent, VersionCompacted)
    assert [change.before.obj["data"][-1] for change in recent if change.before] == ["6"]


def test_the_text_of_a_version_is_made_once_for_each_form() -> None:
    """Watchers share the bytes."""
    stored, calls = VersionedStore().put(Key(SHELF, "n", "a"), obj("x")), list[int]()

    def read() -> dict[str, Any]:
        calls.append(1)
        return stored.obj

    first, again = stored.tail(None, read), stored.tail(None, read)

    assert first is again
    assert len(calls) == 1
    assert first.endswith(b'"data":"x"}')
