"""``numakube explain deployment`` and ``explain -f`` with replicas, on a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.cli.test_explain import written
from tests.insight.explain.test_workload import owned

from numakube.testing import World, pod

Run = Callable[..., Ended]

MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: COUNT
  completions: 20
  template:
    spec:
      schedulerName: numakube-scheduler
      containers:
      - name: main
        resources: {limits: {cpu: 7, memory: 1Gi}}
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of a node with a Job of three pods, of which two fit."""
    world = World()
    world.add_node("node-a")
    world.run(owned(pod("train-0", cpu="7"), "Job", "train"), "node-a")
    for number in (1, 2):
        world.pods.append(owned(pod(f"train-{number}", cpu="7"), "Job", "train"))
    return written(world.facts(), tmp_path)


@pytest.mark.parametrize("words", [("job", "train"), ("job/train",), ("jobs", "train")])
def test_a_workload_is_explained_by_kind_and_name(
    numakube: Run, bundle: Path, words: tuple[str, ...]
) -> None:
    """As kubectl names it; the exit code is 1 if not all of it fits."""
    ended = numakube("explain", *words, "--from", bundle)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0] == "Job default/train (3 pods)"
    assert lines[1].startswith("1 of 3 have a node. 1 of the 2 others fits: 1 on node-a. Number 3")
    assert "Pod default/train-2 (waiting" in ended.out


def test_a_workload_without_pods_is_told(numakube: Run, bundle: Path) -> None:
    """With what to do instead."""
    ended = numakube("explain", "deploy/web", "--from", bundle)
    assert ended.code == 1
    assert "no pod of deployment web is in namespace default" in ended.err


def test_a_manifest_is_explained_with_its_replicas(
    numakube: Run, bundle: Path, tmp_path: Path
) -> None:
    """Of a Job those that run at the same time; one alone is explained as a pod."""
    file = tmp_path / "job.yaml"
    file.write_text(MANIFEST.replace("COUNT", "4"))
    ended = numakube("explain", "-f", file, "--from", bundle, "-o", "json")
    document = json.loads(ended.out)
    assert (document["kind"], document["fit"]) == ("WorkloadExplanation", 1)
    assert document["workload"]["replicas"] == 4
    assert document["firstRefused"]["verdict"] == "refused"
    file.write_text(MANIFEST.replace("COUNT", "1"))
    one = numakube("explain", "pod", "-f", file, "--from", bundle)
    assert (one.code, one.out.splitlines()[0][:25]) == (0, "Pod default/train-new (pl")
