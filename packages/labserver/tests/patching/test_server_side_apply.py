"""Server-side apply: who owns what, and what follows from it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server import GVK
from kube_lab_server.patching.field_changes import ANNOTATION, ApplyConflict, field_set
from kube_lab_server.patching.field_sets import from_wire, reset_fields
from kube_lab_server.patching.json_patch import MalformedPatch, PatchFailure
from kube_lab_server.patching.managed_fields import to_parent, to_scale
from kube_lab_server.patching.server_side_apply import (
    Applied,
    WriteEndpoint,
    apply,
    keep_times,
    track_update,
)
from kube_lab_server.schema.builtin_types import BUILTIN

_NOW = "2025-01-01T00:00:00Z"
_LATER = "2025-01-01T00:00:01Z"


def _endpoint(gvk: GVK, subresource: str = "", **changes: Any) -> WriteEndpoint:
    info = BUILTIN[gvk]
    empty = info.canonical({"apiVersion": gvk.api_version, "kind": gvk.kind})
    values: dict[str, Any] = {
        "gvk": gvk,
        "root": info.root,
        "empty": empty,
        "subresource": subresource,
        "ignored": reset_fields(gvk, subresource),
    }
    return WriteEndpoint(**(values | changes))


_CONFIG_MAP = GVK("", "v1", "ConfigMap")
_SERVICE = GVK("", "v1", "Service")
_POD = GVK("", "v1", "Pod")
_ENDPOINT = _endpoint(_CONFIG_MAP)


def _config(**data: str | None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def _apply(
    live: dict[str, Any] | None, config: dict[str, Any], manager: str = "m", **options: Any
) -> Applied:
    given: dict[str, Any] = {"endpoint": _ENDPOINT, "now": _NOW} | options
    return apply(live, config, manager=manager, **given)


def _stored(applied: Applied) -> dict[str, Any]:
    return BUILTIN[_CONFIG_MAP].canonical(applied.object)


def _owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {e["manager"]: e["fieldsV1"] for e in obj["metadata"].get("managedFields", ())}


_DATA = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xy"), max_size=4)


@given(_DATA, _DATA)
def test_applying_the_same_again_changes_nothing(
    first: dict[str, str], second: dict[str, str]
) -> None:
    """Neither the object, once it is in its canonical form, nor who owns it, nor a time."""
    live = _stored(_apply(_stored(_apply(None, _config(**first))), _config(**second)))
    again = _stored(_apply(live, _config(**second), now=_LATER))
    assert keep_times(live, again) == live


@given(_DATA, _DATA)
def test_a_manager_owns_exactly_the_leaves_of_what_it_applied_last(
    first: dict[str, str], second: dict[str, str]
) -> None:
    """And the object holds just them, as nobody else has a share in it."""
    live = _apply(_apply(None, _config(**first)).object, _config(**second)).object
    assert (live.get("data") or {}) == second
    leaves = field_set(_ENDPOINT.root, {"data": second})
    assert from_wire(_owners(live).get("m", {})) == leaves


@given(_DATA, _DATA)
def test_a_forced_apply_wins_and_an_unforced_one_conflicts_just_over_differences(
    mine: dict[str, str], theirs: dict[str, str]
) -> None:
    """Equal values are shared."""
    live = _apply(None, _config(**theirs), "them").object
    differing = sorted(k for k in mine.keys() & theirs.keys() if mine[k] != theirs[k])
    if differing:
        with pytest.raises(ApplyConflict) as refusal:
            _apply(live, _config(**mine), "me")
        assert [c.path for c in refusal.value.conflicts] == [f".data.{k}" for k in differing]
    forced = _apply(live, _config(**mine), "me", force=True).object
    assert (forced.get("data") or {}) == theirs | mine
    theirs_now = _owners(forced).get("them", {}).get("f:data", {})
    assert {k for k in theirs_now if k != "."} == {
        f"f:{k}" for k in theirs if k not in differing
    } - ({"."} if theirs else set())


@given(_DATA, _DATA)
def test_an_update_takes_over_what_it_changes(
    first: dict[str, str], second: dict[str, str]
) -> None:
    """And nothing else; the arguments stay as they are."""
    live = _apply(None, _config(**first), "applier").object
    new = _config(**second)
    before = copy.deepcopy((live, new))
    entries = track_update(live, new, endpoint=_ENDPOINT, manager="editor", now=_LATER)
    assert (live, new) == before
    owned = {e["manager"]: set(e["fieldsV1"].get("f:data", {})) - {"."} for e in entries}
    changed = {f"f:{k}" for k, v in second.items() if first.get(k) != v}
    unchanged = {f"f:{k}" for k, v in second.items() if first.get(k) == v}
    assert owned.get("editor", set()) == changed
    assert owned.get("applier", set()) == unchanged


def test_two_appliers_share_a_value_and_the_last_one_removes_it() -> None:
    """A field goes only when nobody applies it any more."""
    live = _apply(_apply(None, _config(a="1"), "one").object, _config(a="1"), "two").object
    live = _apply(live, _config(), "one").object
    assert live["data"] == {"a": "1"}
    assert "data" not in _stored(_apply(live, _config(), "two"))


def test_a_share_in_an_unchanged_object_has_no_time() -> None:
    """The object was not written for it, as far as the server sees."""
    live = _apply(_apply(None, _config(a="1"), "one").object, _config(a="1"), "two").object
    times = {e["manager"]: e.get("time") for e in live["metadata"]["managedFields"]}
    assert times == {"one": _NOW, "two": None}


def test_what_was_there_before_the_first_apply_belongs_to_a_manager_of_its_own() -> None:
    """So that the apply conflicts with it, and does not remove it later."""
    stored = _config(a="1", b="2")
    with pytest.raises(ApplyConflict, match=r'"before-first-apply" using v1: \.data\.a'):
        _apply(stored, _config(a="9"))
    live = _apply(stored, _config(a="1")).object
    live = _apply(live, _config()).object
    assert live["data"] == {"a": "1", "b": "2"}


def test_elements_of_a_list_are_told_apart_by_their_keys() -> None:
    """Defaults of keys included."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]},
    }
    done = apply(None, service, endpoint=_endpoint(_SERVICE), manager="m", now=_NOW)
    ports = _owners(done.object)["m"]["f:spec"]["f:ports"]
    assert set(ports) == {'k:{"port":80,"protocol":"TCP"}', 'k:{"port":80,"protocol":"UDP"}'}


def test_a_live_list_keeps_its_order_where_the_applied_one_allows_it() -> None:
    """New elements stand before those that follow them in what was applied."""
    spec = {"containers": [{"name": n} for n in ("a", "b", "c")]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    endpoint = _endpoint(_POD)
    live = apply(None, pod, endpoint=endpoint, manager="one", now=_NOW).object
    other = copy.deepcopy(pod)
    other["spec"] = {"containers": [{"name": n} for n in ("n", "c", "a")]}
    merged = apply(live, other, endpoint=endpoint, manager="two", now=_NOW).object
    assert [c["name"] for c in merged["spec"]["containers"]] == ["b", "n", "c", "a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bogus": 1}, r"\(/x; /v1, Kind=ConfigMap\): \.bogus: field not declared in schema"),
        ({"data": []}, r"\.data: expected map, got &\{\[\]\}"),
        (
            {"data": {"a": 1}},
            r"\.data\.a: expected string, got &value\.valueUnstructured\{Value:1\}",
        ),
        ({"immutable": "x"}, r"\.immutable: expected boolean, got &\{x\}"),
        (
            {"metadata": {"name": "x", "generation": "x"}},
            r"\.metadata\.generation: expected numeric \(int or float\), got string",
        ),
        (
            {"metadata": {"name": "x", "finalizers": ["a", "a"]}},
            r'\.metadata\.finalizers: duplicate entries for key \[="a"\]',
        ),
        (
            {"metadata": {"name": "x", "ownerReferences": [None]}},
            r"ownerReferences: element 0: associative list with keys may not have a null element",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    """With the place and the reason."""
    with pytest.raises(PatchFailure, match=message):
        _apply(None, _config() | change)


def test_live_elements_with_the_same_key_all_stay_unless_one_is_applied() -> None:
    """They cannot be told apart, but nobody asked to remove them."""
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    live = {**pod, "spec": {"containers": [{"name": "c", "env": env}]}}

    def applied(name: str) -> Any:
        variables = [{"name": name, "value": "9"}]
        config = {**pod, "spec": {"containers": [{"name": "c", "env": variables}]}}
        endpoint = _endpoint(_POD)
        done = apply(live, config, endpoint=endpoint, manager="m", now=_NOW, force=True)
        return [item["value"] for item in done.object["spec"]["containers"][0]["env"]]

    assert applied("B") == ["1", "2", "9"]
    assert applied("A") == ["9"]


def test_a_value_that_its_go_type_cannot_take_is_refused() -> None:
    """What the schema leaves open, the type does not."""
    limits = {"cpu": "many"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    message = (
        r"failed to convert new object \(/p; /v1, Kind=Pod\) to proper version: "
        r"unable to convert unstructured object to /v1, Kind=Pod: quantities must"
    )
    with pytest.raises(PatchFailure, match=message):
        apply(None, pod, endpoint=_endpoint(_POD), manager="m", now=_NOW)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({"metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(
    change: dict[str, Any], message: str
) -> None:
    """Before anything else is looked at."""
    with pytest.raises(MalformedPatch, match=message):
        _apply(None, _config() | change)


@pytest.mark.parametrize("entries", [[], [{}]])
def test_a_client_can_have_all_owners_forgotten(entries: list[dict[str, Any]]) -> None:
    """By sending an empty list of them, or an empty entry; its own change is not tracked then."""
    live = _apply(None, _config(a="1")).object
    new = _config(a="2")
    new["metadata"] = {"name": "x", "managedFields": entries}
    assert track_update(live, new, endpoint=_ENDPOINT, manager="z", now=_NOW) == []


def test_a_subresource_does_not_take_owners_from_the_client() -> None:
    """Only a write to the object itself may set them."""
    live = _apply(None, _config(a="1")).object
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = []
    endpoint = _endpoint(_CONFIG_MAP, "status")
    entries = track_update(live, new, endpoint=endpoint, manager="z", now=_NOW)
    assert entries == live["metadata"]["managedFields"]


def test_the_status_belongs_to_nobody_on_the_main_endpoint() -> None:
    """As the server drops it there."""
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    entries = track_update(None, pod, endpoint=_endpoint(_POD), manager="m", now=_NOW)
    assert [set(e["fieldsV1"]) for e in entries] == [{"f:spec"}]
    entries = track_update(
        pod | {"metadata": {"managedFields": entries}},
        pod | {"status": {"phase": "Failed"}, "spec": {}},
        endpoint=_endpoint(_POD, "status"),
        manager="kubelet",
        now=_NOW,
    )
    kubelet = next(e for e in entries if e["manager"] == "kubelet")
    assert kubelet["fieldsV1"] == {"f:status": {"f:phase": {}}}
    assert kubelet["subresource"] == "status"


def test_the_oldest_of_many_updaters_are_put_together() -> None:
    """So that the list does not grow for ever."""
    live: dict[str, Any] | None = None
    data: dict[str, str | None] = {}
    for number in range(14):
        data[f"k{number:02}"] = "v"
        new = _config(**data)
        now = f"2025-01-01T00:00:{number:02}Z"
        entries = track_update(live, new, endpoint=_ENDPOINT, manager=f"m{number:02}", now=now)
        new["metadata"] = {"name": "x", "managedFields": entries}
        live = new
    assert live is not None
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{number:02}" for number in range(5, 14))]


def test_entries_of_a_version_that_is_no_longer_served_are_dropped() -> None:
    """Nobody could make sense of them."""
    live = _apply(None, _config(a="1")).object
    live["metadata"]["managedFields"][0]["apiVersion"] = "v0"
    endpoint = _endpoint(_CONFIG_MAP, versions={"v1"})
    done = apply(live, _config(b="1"), endpoint=endpoint, manager="n", now=_NOW)
    assert set(_owners(done.object)) == {"n"}


def test_a_write_that_changes_nothing_keeps_its_times() -> None:
    """So that the object keeps its resource version."""
    live = _config(a="1")
    entries = track_update(None, live, endpoint=_ENDPOINT, manager="m", now=_NOW)
    live["metadata"] = {"name": "x", "managedFields": entries}
    again = copy.deepcopy(live)
    again["metadata"]["managedFields"][0]["time"] = _LATER
    assert keep_times(live, again) == live
    changed = again | {"data": {"a": "2"}}
    assert keep_times(live, changed) == changed


def test_kubectl_may_take_over_what_its_annotation_proves_to_be_its_own() -> None:
    """And the annotation follows."""
    stored = _config(a="1")
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}'
    stored["metadata"] = {"name": "x", "annotations": {ANNOTATION: last}}
    with pytest.raises(ApplyConflict):
        _apply(stored, _config(a="2"), "other")
    done = _apply(stored, _config(a="2"), "kubectl").object
    assert done["data"] == {"a": "2"}
    renewed = done["metadata"]["annotations"][ANNOTATION]
    assert '"data":{"a":"2"}' in renewed
    assert "annotations" not in renewed


def test_owners_of_the_replicas_are_seen_through_the_scale() -> None:
    """And one who comes to own them there appears in the parent, without a time."""
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:paused": {}}}
    entry = {
        "manager": "m1",
        "operation": "Apply",
        "apiVersion": "apps/v1",
        "time": _NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    seen = to_scale([entry])
    assert seen == [
        entry | {"apiVersion": "autoscaling/v1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    ]
    taken = [seen[0] | {"manager": "m2", "subresource": "scale"}]
    parent = to_parent([entry], taken, api_version="apps/v1")
    assert {e["manager"]: (e["fieldsV1"], e.get("time")) for e in parent} == {
        "m1": ({"f:spec": {"f:paused": {}}}, _NOW),
        "m2": ({"f:spec": {"f:replicas": {}}}, None),
    }
    assert to_parent([entry], seen, api_version="apps/v1") == [entry]
