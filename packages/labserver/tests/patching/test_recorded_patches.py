"""Patches that a real API server applied, applied again.

The recorded answer has defaults that the patched document lacks, so ours must be part of it: every
field the same, every list of the same length and order.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.patching import PatchFailure, json_patch, merge_patch, strategic_merge_patch
from kube_lab_server.schema.builtin_types import BUILTIN

_VECTORS = Path(__file__).parents[4] / "tests" / "vectors" / "apiserver.jsonl.gz"
_TOPICS = ("jsonpatch", "mergepatch", "strategicpatch")


def _cases() -> list[Any]:
    with gzip.open(_VECTORS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [_first_patch(case) for case in cases if case["topic"] in _TOPICS]


def _first_patch(case: dict[str, Any]) -> Any:
    """Return the document that the case creates, its first patch and what came of it."""
    patch = next(s for s in case["steps"] if s["method"] == "PATCH")
    collection = patch["path"].removesuffix("/status").rpartition("/")[0]
    created = [s for s in case["steps"] if s["method"] == "POST" and s["path"] == collection]
    return pytest.param(created[-1]["body"] if created else None, patch, id=case["id"])


def _apply(document: dict[str, Any], step: dict[str, Any]) -> Any:
    patched = _patched(document, step)
    known = BUILTIN.get(GVK.of(document))
    return known.canonical(patched) if known else patched


def _patched(document: dict[str, Any], step: dict[str, Any]) -> Any:
    kind = step["headers"]["Content-Type"]
    if kind.startswith("application/json-patch"):
        return json_patch(document, step["body"])
    if kind.startswith("application/merge-patch"):
        return merge_patch(document, step["body"])
    return strategic_merge_patch(document, step["body"], BUILTIN[GVK.of(document)].root)


def _missing(ours: Any, recorded: Any, path: str = "") -> list[str]:
    """Return where *ours* is not part of *recorded*."""
    if isinstance(ours, dict) and isinstance(recorded, dict):
        parts = ((k, v, recorded.get(k)) for k, v in ours.items())
        return [m for k, v, r in parts for m in _missing(v, r, f"{path}.{k}")]
    if isinstance(ours, list) and isinstance(recorded, list) and len(ours) == len(recorded):
        pairs = enumerate(zip(ours, recorded, strict=True))
        return [m for i, (v, r) in pairs for m in _missing(v, r, f"{path}[{i}]")]
    return [] if ours == recorded or not ours else [path]


# The server's own rules undo these: a status is not written here, a patch cannot set a version.
_SERVER_RULES = {
    "mergepatch-node-status-on-main",
    "mergepatch-rv-in-patch-current",
    "strategicpatch-crd-object",
}


@pytest.mark.parametrize(("document", "step"), _cases())
def test_a_recorded_patch_gives_the_recorded_document(
    document: dict[str, Any] | None, step: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """What the server made of the document, we make of it too."""
    if step["status"] != 200 or document is None or request.node.callspec.id in _SERVER_RULES:
        assert step["status"] >= 400 or request.node.callspec.id in _SERVER_RULES
        return
    assert _missing(_apply(document, step), step["response"]) == []


@pytest.mark.parametrize(("document", "step"), _cases())
def test_a_recorded_failure_has_its_recorded_message(
    document: dict[str, Any] | None, step: dict[str, Any]
) -> None:
    """A strategic patch that the server fails on fails with the same words."""
    if step["status"] != 500:
        return
    assert document is not None
    with pytest.raises(PatchFailure) as failure:
        _apply(document, step)
    assert str(failure.value) == step["response"]["message"]
