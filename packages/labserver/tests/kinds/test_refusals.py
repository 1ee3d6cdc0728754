"""Objects of all kinds that are refused, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json
from kube_lab_server.kinds.all_kinds import rules_of
from kube_lab_server.kinds.kind_rules import AdmissionRefused
from kube_lab_server.schema.builtin_types import BUILTIN

CASES = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))


class EmptyCluster:
    """A cluster without any objects."""

    def get(self, group: str, kind: str, name: str, namespace: str = "") -> None:
        """Find one object."""

    def list(self, group: str, kind: str, namespace: str = "") -> Iterator[Json]:
        """Find all objects of a kind."""
        return iter(())


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_an_object_is_refused_for_every_field_that_is_wrong(case: Json) -> None:
    """Every problem is reported, with its field, and in order."""
    kind = GVK.of(case["object"])
    obj = BUILTIN[kind].canonical(case["object"])
    if rules_of(kind).namespaced:
        obj["metadata"]["namespace"] = "n"
    admitted = rules(kind).admit_create(rules(kind).default(obj), EmptyCluster())
    assert not isinstance(admitted, AdmissionRefused)
    errors = rules(kind).validate_create(rules(kind).prepare_create(admitted))
    assert [f"{error.type.name.lower()} {error.field}" for error in errors] == case["wrong"]
