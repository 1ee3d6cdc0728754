"""`kubectl numa claim`: what is printed, what is said beside it, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Ended, numakube  # a fixture

__all__ = ["numakube"]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
    - name: main
      image: i
      resources: {limits: {cpu: 4, memory: 1Gi, intel.com/vfs: 1}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: main, image: i, resources: {limits: {cpu: "4", memory: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
"""


@pytest.fixture
def claim(numakube: Callable[..., Ended], tmp_path: Path) -> Callable[..., Ended]:
    """Return how to write claims into a text."""

    def run(text: str, *args: str) -> Ended:
        file = tmp_path / "pod.yaml"
        file.write_text(text)
        return numakube("claim", "-f", file, *args)

    return run


def documents(ended: Ended) -> list[Any]:
    """Return what was printed."""
    return list(yaml.safe_load_all(ended.out))


def test_the_template_stands_before_the_pod_that_uses_it(claim: Callable[..., Ended]) -> None:
    ended = claim(POD, "--class", "numa-cpus", "--class", "vfs=intel.com/vfs")
    assert (ended.code, ended.err) == (0, "")
    template, pod = documents(ended)
    assert template["kind"] == "ResourceClaimTemplate"
    assert template["metadata"]["namespace"] == pod["metadata"]["namespace"] == "shop"
    (claimed,) = pod["spec"]["resourceClaims"]
    assert claimed["resourceClaimTemplateName"] == template["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "numa"}],
        "limits": {"cpu": 4, "memory": "1Gi"},
    }


def test_templates_of_deployments_are_written_and_other_objects_are_left(
    claim: Callable[..., Ended],
) -> None:
    ended = claim(DEPLOYMENT, "--class", "numa-cpus", "-n", "shop")
    template, deployment, service = documents(ended)
    assert template["metadata"]["namespace"] == "shop"
    pod = deployment["spec"]["template"]
    assert pod["spec"]["resourceClaims"]
    assert pod["metadata"]["labels"]["app"] == "web"
    assert "namespace" not in pod["metadata"]
    assert service == {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def test_what_was_written_is_written_again_alike(claim: Callable[..., Ended]) -> None:
    first = claim(DEPLOYMENT, "--class", "numa-cpus")
    again = claim(first.out, "--class", "numa-cpus")
    assert documents(again)[-2:] == documents(first)[-2:]
    assert documents(again).count(documents(first)[0]) == 1


def test_a_pod_that_is_left_alone_is_printed_and_named(claim: Callable[..., Ended]) -> None:
    plain = POD.replace("cpu: 4", "cpu: 500m")
    ended = claim(plain, "--class", "numa-cpus")
    assert (ended.code, documents(ended)) == (1, [yaml.safe_load(plain)])
    assert ended.err == "note: pod/web is left as it is: no container asks for whole CPUs\n"


def test_a_list_is_printed_as_json(claim: Callable[..., Ended]) -> None:
    ended = claim(POD, "--class", "numa-cpus", "-o", "json")
    assert [item["kind"] for item in json.loads(ended.out)["items"]] == [
        "ResourceClaimTemplate",
        "Pod",
    ]
    assert "no DeviceClass serves intel.com/vfs" in ended.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\nspec: 3\n", "spec"),
        ("kind: Deployment\nmetadata: {name: a}\n", "spec.template.spec"),
        ("kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: x}}}]}", "x"),
        ("kind: Pod\nspec: {containers: 3}", "containers"),
        ("{", "not YAML"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, words: str, claim: Callable[..., Ended]) -> None:
    ended = claim(text, "--class", "numa-cpus")
    assert ended.code not in (0, 1) or ended.err.startswith("error:")
    assert ended.err.startswith("error:")
    assert words in ended.err
