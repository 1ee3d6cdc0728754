"""Applies and updates that a real API server performed: the same fields get the same owners.

Each recorded step is taken by itself: the object that the server answered before is the live one.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.patching import merge_patch
from kube_lab_server.patching.field_changes import ApplyConflict
from kube_lab_server.patching.field_sets import reset_fields
from kube_lab_server.patching.json_patch import PatchFailure
from kube_lab_server.patching.server_side_apply import WriteEndpoint, apply, track_update
from kube_lab_server.schema.builtin_types import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_VECTORS = Path(__file__).parents[4] / "tests" / "vectors" / "apiserver.jsonl.gz"
_NOW = "2025-01-01T00:00:00Z"


def _steps() -> Iterator[Any]:
    with gzip.open(_VECTORS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        if case["topic"] == "apply":
            yield from _steps_of(case)


def _steps_of(case: dict[str, Any]) -> Iterator[Any]:
    """Yield each write of a built-in object with the object that it found."""
    live: dict[str, Any] = {}
    for number, step in enumerate(case["steps"]):
        path, body = step["path"].removesuffix("/status"), step.get("body")
        if _is_built_in_write(step, path, live):
            yield pytest.param(step, live.get(path), id=f"{case['id']}-{number}")
        if step["method"] == "POST" and isinstance(body, dict):
            path = f"{path}/{body['metadata'].get('name')}"
            live[path] = None
        if step.get("response") and step["status"] < 300:
            live[path] = _timed(step["response"])


def _is_built_in_write(step: dict[str, Any], path: str, live: dict[str, Any]) -> bool:
    body = step.get("body")
    if step["method"] not in ("PATCH", "PUT") or not isinstance(body, dict) or "$from" in body:
        return False
    # An object whose creation was recorded without the answer is not known.
    seen = path not in live or live[path] is not None
    return seen and "/scale" not in path and GVK.of(live.get(path) or body) in BUILTIN


def _timed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_timed(v) for v in value]
    return _NOW if value == "<time>" else value


def _endpoint(gvk: GVK, path: str) -> WriteEndpoint:
    info = BUILTIN[gvk]
    subresource = "status" if path.endswith("/status") else ""
    empty = info.canonical({"apiVersion": gvk.api_version, "kind": gvk.kind})
    return WriteEndpoint(
        gvk=gvk,
        root=info.root,
        empty=empty,
        subresource=subresource,
        ignored=reset_fields(gvk, subresource),
    )


def _managed_fields(step: dict[str, Any], live: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Perform the step and return who owns what then."""
    body, query = step["body"], step.get("query", {})
    gvk = GVK.of(live or body)
    endpoint = _endpoint(gvk, step["path"])
    manager = query.get("fieldManager", "")
    if step.get("headers", {}).get("Content-Type", "").startswith("application/apply"):
        force = query.get("force") == "true"
        done = apply(live, body, endpoint=endpoint, manager=manager, now=_NOW, force=force)
        return list(done.object["metadata"].get("managedFields") or ())
    new = body if step["method"] == "PUT" else merge_patch(live or {}, body)
    new = BUILTIN[gvk].canonical(new)
    return track_update(live, new, endpoint=endpoint, manager=manager, now=_NOW)


# Refused by the server for reasons that have nothing to do with the fields.
_REFUSED_OTHERWISE = {400, 404, 422}


@pytest.mark.parametrize(("step", "live"), list(_steps()))
def test_a_recorded_write_leaves_the_recorded_owners(
    step: dict[str, Any], live: dict[str, Any] | None
) -> None:
    """Or fails with the recorded message, or with the recorded conflicts."""
    response = step["response"]
    if step["status"] in _REFUSED_OTHERWISE or "object has been modified" in str(response):
        return
    if step["status"] < 300:
        recorded = _timed(response["metadata"].get("managedFields") or [])
        assert _texts(_managed_fields(step, live)) == _texts(recorded)
        return
    with pytest.raises((ApplyConflict, PatchFailure)) as refusal:
        _managed_fields(step, live)
    assert str(refusal.value) == response["message"]
    if isinstance(refusal.value, ApplyConflict):
        causes = [(cause["field"], cause["message"]) for cause in response["details"]["causes"]]
        assert [(c.path, c.message) for c in refusal.value.conflicts] == causes


def _texts(entries: list[dict[str, Any]]) -> list[str]:
    """The entries in a form that can be sorted: the recording has them in another order."""
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries)
