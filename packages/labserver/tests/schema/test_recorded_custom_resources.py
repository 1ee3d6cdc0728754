"""Custom resources that a real API server took or refused: their types say the same.

Each recorded write is taken by itself: the object that the server answered before is the old one.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kube_lab_server import GVK, Json
from kube_lab_server.patching import json_patch, merge_patch
from kube_lab_server.schema.custom.custom_type import CustomType
from kube_lab_server.schema.custom.schema_checks import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.field_errors import FieldError

_VECTORS = Path(__file__).parents[4] / "tests" / "vectors" / "apiserver.jsonl.gz"
_TIME = "2025-01-01T00:00:00Z"
Types = dict[tuple[str, str], CustomType]


def _cases() -> list[dict[str, Any]]:
    with gzip.open(_VECTORS, "rt") as lines:
        cases = [json.loads(line.replace("<time>", _TIME)) for line in lines]
    return [case for case in cases if case["topic"] in ("crd", "fieldvalidation", "mergepatch")]


def _writes() -> Iterator[Any]:
    for case in _cases():
        types: Types = {}
        live: dict[str, Json] = {}
        for number, step in enumerate(case["steps"]):
            if "customresourcedefinitions" in step["path"]:
                _define(types, step)
            elif (write := _write(types, live, step)) is not None:
                yield pytest.param(*write, id=f"{case['id']}-{number}")


def _define(types: Types, step: dict[str, Any]) -> None:
    if step["method"] == "POST" and step["status"] < 300:
        spec = step["body"]["spec"]
        for version in spec["versions"]:
            gvk = GVK(spec["group"], version["name"], spec["names"]["kind"])
            schema = version["schema"]["openAPIV3Schema"]
            types[gvk.group, gvk.version] = CustomType.of(gvk, schema)
    elif step["method"] == "PATCH" and isinstance(step["body"], list) and len(types) == 1:
        key, old = next(iter(types.items()))
        spec = {"versions": [{"schema": {"openAPIV3Schema": dict(old.schema.source)}}]}
        spec = json_patch({"spec": spec}, step["body"])["spec"]
        types[key] = CustomType.of(old.gvk, spec["versions"][0]["schema"]["openAPIV3Schema"])


def _write(types: Types, live: dict[str, Json], step: dict[str, Any]) -> Any:
    parts = step["path"].split("/")
    info = types.get((parts[2], parts[3])) if len(parts) > 3 else None
    body, path = step.get("body"), step["path"]
    if info is None or step["method"] not in ("POST", "PATCH") or body is None:
        return None
    old = live.get(path)
    if step["method"] == "POST":
        new, path = body, f"{path}/{body['metadata'].get('name')}"
    elif old is None:
        return None
    else:
        new = json_patch(old, body) if isinstance(body, list) else merge_patch(old, body)
    if step.get("response") and step["status"] < 300:
        live[path] = step["response"]
    return (info, new, old, step) if GVK.of(new) == info.gvk else None


@pytest.mark.parametrize(("info", "new", "old", "step"), list(_writes()))
def test_a_recorded_write_is_taken_or_refused_as_recorded(
    info: CustomType, new: Json, old: Json | None, step: dict[str, Any]
) -> None:
    """What is stored, what is warned of and what is wrong are the same."""
    response = step.get("response") or {}
    problems = info.check(new, strict=step.get("query", {}).get("fieldValidation") != "Ignore")
    if step["status"] == 400:
        assert response["message"].endswith(problems.fatal or ", ".join(problems.strict))
        return
    assert list(problems.strict) == step.get("warnings", [])
    stored = info.default(info.prune(new))
    errors = info.validate(stored, old)
    if step["status"] < 300:
        assert errors == []
        if response:
            assert _content(stored) == _content(response)
    elif response and "metadata.name" not in response["message"]:
        assert [_cause(error) for error in errors] == response["details"]["causes"]


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _cause(error: FieldError) -> dict[str, str]:
    return {"field": error.field, "message": error.body, "reason": error.type.value}


def _definitions() -> list[Any]:
    return [
        pytest.param(step["body"]["spec"], step, id=case["id"])
        for case in _cases()
        for step in case["steps"]
        if step["method"] == "POST" and "customresourcedefinitions" in step["path"]
    ]


@pytest.mark.parametrize(("spec", "step"), _definitions())
def test_a_recorded_schema_is_taken_or_refused_as_recorded(
    spec: dict[str, Any], step: dict[str, Any]
) -> None:
    """A schema that the server found wrong is wrong in the same words; any other is in order."""
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in spec["versions"]]
    found = [
        error
        for schema in schemas
        if schema
        for error in check_schema(schema, "spec.validation.openAPIV3Schema", status=False)
    ]
    causes = ((step.get("response") or {}).get("details") or {}).get("causes") or []
    recorded = [cause for cause in causes if cause["field"].startswith("spec.validation.")]
    assert len(found) == len(recorded)
    for error, cause in zip(found, recorded, strict=True):
        assert (error.field, error.type.value) == (cause["field"], cause["reason"])
        assert error.body.endswith(cause["message"].rpartition("<dump>: ")[2])
