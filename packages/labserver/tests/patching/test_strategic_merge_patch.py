"""Strategic merge patch: how lists merge, and what the directives do."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.patching import (
    InapplicablePatch,
    MalformedPatch,
    PatchFailure,
    strategic_merge_patch,
)
from kube_lab_server.schema.builtin_types import BUILTIN

_POD = BUILTIN[GVK("", "v1", "Pod")].root
_CONFIG_MAP = BUILTIN[GVK("", "v1", "ConfigMap")].root


def _containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


def _names(pod: dict[str, Any]) -> list[str]:
    return [c["name"] for c in pod["spec"]["containers"]]


def _patched(*containers: str, **patch: Any) -> dict[str, Any]:
    return strategic_merge_patch(
        {"spec": {"containers": _containers(*containers)}}, {"spec": patch}, _POD
    )


def test_an_element_is_merged_by_its_key_and_a_new_one_put_first() -> None:
    """The patch's order leads; what the server alone has follows where it can."""
    pod = _patched("a", "b", containers=[{"name": "n"}, {"name": "b", "image": "b:2"}])
    assert _names(pod) == ["n", "a", "b"]
    assert pod["spec"]["containers"][2] == {"name": "b", "image": "b:2"}


def test_the_order_of_elements_can_be_set_without_changing_them() -> None:
    """``$setElementOrder`` alone sorts."""
    order = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}
    assert _names(_patched("a", "b", **order)) == ["b", "a"]


def test_an_element_can_be_deleted_by_its_key() -> None:
    """And deleting one that is not there is no error."""
    doomed = [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "zz"}]
    assert _names(_patched("a", "b", containers=doomed)) == ["b"]


def test_a_list_can_be_replaced() -> None:
    """By a directive among its elements."""
    pod = _patched("a", "b", containers=[{"$patch": "replace"}, {"name": "c"}])
    assert _names(pod) == ["c"]


def test_a_map_can_be_replaced_or_emptied() -> None:
    """By a directive inside it."""
    document = {"data": {"a": "1"}}
    replace = {"data": {"$patch": "replace", "b": "2"}}
    assert strategic_merge_patch(document, replace, _CONFIG_MAP) == {"data": {"b": "2"}}
    delete = {"data": {"$patch": "delete"}}
    assert strategic_merge_patch(document, delete, _CONFIG_MAP) == {"data": {}}


def test_scalars_can_be_deleted_from_a_list() -> None:
    """``$deleteFromPrimitiveList`` names them."""
    document = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}
    patched = strategic_merge_patch(document, patch, _POD)
    assert patched == {"metadata": {"finalizers": ["a", "c"]}}


def test_a_list_without_a_rule_is_replaced() -> None:
    """Tolerations have no merge key."""
    document = {"spec": {"tolerations": [{"key": "a"}]}}
    patch = {"spec": {"tolerations": [{"key": "b"}]}}
    assert strategic_merge_patch(document, patch, _POD) == patch


def test_nulls_are_dropped_from_what_is_new() -> None:
    """As nothing can be deleted from it."""
    patch: dict[str, Any] = {"spec": {"affinity": {"nodeAffinity": None, "podAffinity": {}}}}
    patched = strategic_merge_patch({"spec": {}}, patch, _POD)
    assert patched == {"spec": {"affinity": {"podAffinity": {}}}}


def test_retained_keys_clear_the_others() -> None:
    """A volume changes its source in one patch."""
    document = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    patched = strategic_merge_patch(document, {"spec": {"volumes": [volume]}}, _POD)
    assert patched["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        ([1], MalformedPatch, "cannot unmarshal array into Go value of type map"),
        ({"spec": {"containers": [{"image": "x"}]}}, PatchFailure, "declared merge key: name"),
        ({"spec": {"containers": ["x"]}}, PatchFailure, "list element types are not identical"),
        ({"spec": {"containers": [[]]}}, PatchFailure, "list element types are not identical"),
        (
            {"spec": {"containers": [{"$patch": "merge", "name": "a"}]}},
            PatchFailure,
            "merging lists cannot yet be specified",
        ),
        (
            {"spec": {"containers": [{"$patch": "x", "name": "a"}]}},
            PatchFailure,
            r"unknown patch type: x in map: map\[\$patch:x name:a\]",
        ),
        ({"spec": {"$patch": "merge"}}, PatchFailure, "unknown patch type: merge"),
        ({"spec": {"$retainKeys": "x"}}, MalformedPatch, "invalid patch format of retainKeys"),
        (
            {"spec": {"$retainKeys": ["a"], "hostname": "x"}},
            MalformedPatch,
            "invalid patch format of retainKeys",
        ),
        ({"spec": {"$setElementOrder": []}}, MalformedPatch, "setElementOrder list"),
        ({"spec": {"$setElementOrder/containers": 1}}, PatchFailure, "but received a int64"),
        ({"spec": {"$setElementOrder/bogus": []}}, PatchFailure, "unable to find api field in"),
        ({"spec": {"$deleteFromPrimitiveList": []}}, MalformedPatch, "primitive list"),
    ],
)
def test_a_patch_that_cannot_be_understood_is_refused(
    patch: Any, error: type[Exception], message: str
) -> None:
    """With the server's words."""
    document = {"spec": {"containers": _containers("a")}}
    with pytest.raises(error, match=message):
        strategic_merge_patch(document, patch, _POD)


def test_lists_of_lists_are_refused() -> None:
    """The server cannot merge them."""
    with pytest.raises(InapplicablePatch, match="lists of lists"):
        strategic_merge_patch(
            {"metadata": {"finalizers": [[]]}}, {"metadata": {"finalizers": [[]]}}, _POD
        )
