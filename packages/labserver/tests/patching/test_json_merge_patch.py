"""Merge patch: its laws, and where the server is stricter than the standard."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.patching import MalformedPatch, merge_patch

_LEAVES = st.booleans() | st.integers() | st.text("xyz", max_size=3)
_KEYS = st.sampled_from(["a", "b", "c", "d/e"])
_DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    _KEYS,
    st.recursive(_LEAVES | st.lists(_LEAVES), lambda v: st.dictionaries(_KEYS, v), max_leaves=6),
)
_PATCHES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    _KEYS,
    st.recursive(
        st.none() | _LEAVES | st.lists(_LEAVES),
        lambda v: st.dictionaries(_KEYS, v),
        max_leaves=6,
    ),
)


@given(_DOCUMENTS, _PATCHES)
def test_applying_a_patch_twice_changes_nothing_more(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    """A merge patch says how things shall be, not what to do."""
    before = copy.deepcopy((document, patch))
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once
    assert (document, patch) == before


@given(_DOCUMENTS)
def test_an_empty_patch_changes_nothing(document: dict[str, Any]) -> None:
    """Nothing said, nothing done."""
    assert merge_patch(document, {}) == document


@given(_DOCUMENTS)
def test_a_document_is_a_patch_that_makes_itself(document: dict[str, Any]) -> None:
    """Merged into nothing, a document without nulls is reproduced."""
    assert merge_patch({}, document) == document


@given(_DOCUMENTS, _PATCHES)
def test_a_key_that_the_patch_nulls_is_gone_and_one_it_omits_stays(
    document: dict[str, Any], patch: dict[str, Any]
) -> None:
    """At every key of the top level."""
    merged = merge_patch(document, patch)
    for key in document.keys() | patch.keys():
        if key not in patch:
            assert merged[key] == document[key]
        else:
            assert (key in merged) == (patch[key] is not None)


def test_nulls_inside_a_new_array_are_dropped_from_its_objects() -> None:
    """The standard would keep them."""
    patch = {"new": [{"x": None, "y": 1}, None]}
    assert merge_patch({"new": [1]}, patch) == {"new": [{"y": 1}, None]}


def test_nulls_inside_an_array_in_the_place_of_an_object_stay() -> None:
    """As they stand in the patch."""
    assert merge_patch({"old": {"a": 1}}, {"old": [{"x": None}]}) == {"old": [{"x": None}]}


@pytest.mark.parametrize("patch", [[1], "text", None])
def test_a_patch_that_is_no_object_is_refused(patch: Any) -> None:
    """There is nothing it could be merged into."""
    with pytest.raises(MalformedPatch):
        merge_patch({}, patch)
