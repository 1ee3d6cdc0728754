"""Objects that a real API server printed: their types know every field of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kube_lab_server.kind_names import GVK, Problems
from kube_lab_server.schema.builtin_types import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_VECTORS = Path(__file__).parents[4] / "tests" / "vectors" / "apiserver.jsonl.gz"
_PLACEHOLDERS = {
    "<time>": "2025-01-01T00:00:00Z",
    "<microtime>": "2025-01-01T00:00:00.000000Z",
    "<port>": 30000,
}


def _recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    with gzip.open(_VECTORS, "rt") as lines:
        for case in map(json.loads, lines):
            for step in case["steps"]:
                if not {"filter", "compare"} & step.keys():
                    yield from ((case["id"], found) for found in _objects(step.get("response")))


def _objects(answer: Any) -> Iterator[dict[str, Any]]:
    if isinstance(answer, dict) and GVK.of(answer) in BUILTIN:
        yield _filled(answer)
    if isinstance(answer, dict) and str(answer.get("kind")).endswith("List"):
        gvk = GVK.of(answer)
        for item in answer.get("items") or ():
            named = {"apiVersion": gvk.api_version, "kind": gvk.kind.removesuffix("List")}
            yield from _objects(named | item)


def _filled(value: Any) -> Any:
    """Put values in the place of what the recording replaced."""
    if isinstance(value, dict):
        return {k: _filled(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v) for v in value]
    return _PLACEHOLDERS.get(value, value) if isinstance(value, str) else value


def test_a_recorded_object_decodes_without_complaint() -> None:
    """No field of it is unknown, none has another type."""
    complaints = {
        case: problems
        for case, found in _recorded()
        if (problems := BUILTIN[GVK.of(found)].check(found, strict=True)) != Problems()
    }
    assert complaints == {}


def test_a_recorded_object_is_in_its_canonical_form() -> None:
    """Printing it again changes nothing: the same fields are written, in the same words."""
    found = list(_recorded())
    changed = [c for c, obj in found if BUILTIN[GVK.of(obj)].canonical(obj) != obj]
    assert changed == []
    assert len(found) > 500
