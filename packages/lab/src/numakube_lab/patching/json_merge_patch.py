"""JSON merge patch (RFC 7386) as kube-apiserver applies it.

It departs from the standard in one point: nulls are also dropped from objects inside an array that
the patch adds or puts in the place of something that is no object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_lab.patching.patch_errors import MalformedPatch
from numakube_lab.schema.scalars import json_type

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue


def merge_patch(document: dict[str, Any], patch: JsonValue) -> dict[str, Any]:
    """Return *document* with *patch* merged in: null removes, objects merge, the rest replaces."""
    if patch is None:
        raise MalformedPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        wanted = "map[string]interface {}"
        raise MalformedPatch(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} "
            f"into Go value of type {wanted}"
        )
    return _merge_objects(document, patch)


def _merge_objects(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _merge(current: JsonValue, patch: JsonValue) -> JsonValue:
    if not isinstance(current, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    return _merge_objects(current, patch)


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
