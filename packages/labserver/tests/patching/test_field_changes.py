"""A new object is compared with an empty one as any two objects are, equal specs only once."""

from __future__ import annotations

from typing import Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.patching.field_changes import compare, compare_created
from kube_lab_server.schema.builtin_types import BUILTIN

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"app": "a"}},
    "spec": {
        "containers": [{"name": "main", "image": "app", "ports": [{"containerPort": 80}]}],
        "tolerations": [{"operator": "Exists"}],
    },
}
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}


@pytest.mark.parametrize("sent", [POD, CLAIM, MAP], ids=lambda sent: str(sent["kind"]))
def test_a_creation_is_compared_as_any_two_objects_are(sent: dict[str, Any]) -> None:
    """Once without and once with what is remembered of its spec."""
    info = BUILTIN[GVK.of(sent)]
    empty, new = info.canonical({}), info.canonical(sent)
    for _ in range(2):
        assert compare_created(info.root, empty, new) == compare(info.root, empty, new)
