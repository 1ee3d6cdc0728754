"""``numakube explain deployment`` and ``explain -f`` with replicas, on a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.cli.test_explain import written
from tests.insight.explain.bundling import collected_of
from tests.insight.explain.test_workload import owned

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, PodSchedulingGate
from numakube.api.pod_groups import MemberGroup, MemberGroupSpec
from numakube.apps.anonymising import anonymise
from numakube.apps.bundle import pack
from numakube.insight.collected import Collected
from numakube.insight.facts import facts_of
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    MIN_LABEL,
    NAME_LABEL,
    REQUIRED_TOPOLOGY,
)
from numakube.testing import World, pod

Run = Callable[..., Ended]

RACK = "example.com/rack"
ONE_POD = "1 socket, 8 cores, smt 1, 16Gi"
"""A machine for one pod of seven CPUs."""

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


def member(name: str) -> Pod:
    """Return a pod of a gang of coscheduling."""
    return pod(name, cpu="7", labels={COSCHEDULING_LABEL: "team"})


@pytest.fixture
def gang(tmp_path: Path) -> Collected:
    """Return two racks with one node and two, and a gang of three that has to be in one rack."""
    world = World()
    for node, rack in (("node-a", "r1"), ("node-b", "r2"), ("node-c", "r2")):
        world.add_node(node, machine=ONE_POD, labels={RACK: rack})
    world.pods += [member(f"team-{number}") for number in range(3)]
    meta = ObjectMeta(name="team", namespace="default", annotations={REQUIRED_TOPOLOGY: RACK})
    world.objects.coscheduling_groups["default/team"] = MemberGroup(
        metadata=meta, spec=MemberGroupSpec(min_member=3)
    )
    return collected_of(world.facts())


def test_a_gang_is_explained_in_the_domain_with_the_most_room(
    numakube: Run, gang: Collected, tmp_path: Path
) -> None:
    """How many members fit, which one does not, and what makes all of them fit."""
    file = tmp_path / "bundle.tar.gz"
    file.write_bytes(pack(gang))
    ended = numakube("explain", "podgroup", "team", "--from", file)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0] == "PodGroup default/team (3 pods)"
    assert lines[1] == (
        "2 of the 3 pods fit: 1 on node-b, 1 on node-c. Number 3 does not. "
        "The gang needs 3 at a time, so none is bound: 3 pods have to fit in one example.com/rack; "
        "the best, r2, takes 2 (3 in all domains of example.com/rack)."
    )
    assert "Add a node like node-b: all of them then fit." in ended.out
    assert "Pod default/team-2 (waiting" in ended.out
    pointer = "It belongs to gang default/team, whose pods run together: kubectl numa explain "
    assert pointer not in ended.out
    ended = numakube("explain", "pod", "team-2", "--from", file)
    assert f"{pointer}podgroup team -n default" in ended.out


def test_a_gang_that_waits_for_a_gate_is_explained_as_it_would_be_without(
    numakube: Run, tmp_path: Path
) -> None:
    """One whose pod group does not exist waits for that."""
    world = World()
    world.add_node("node-a", machine=ONE_POD)
    gate = PodSchedulingGate(name="numakube.dev/fits")
    labels = {NAME_LABEL: "pair", MIN_LABEL: "2"}
    world.pods += [
        pod(f"pair-{number}", cpu="7", labels=labels, scheduling_gates=(gate,))
        for number in range(2)
    ]
    world.pods.append(member("alone"))
    file = tmp_path / "bundle.tar.gz"
    file.write_bytes(pack(collected_of(world.facts())))
    ended = numakube("explain", "podgroup", "pair", "--from", file)
    assert "1 of the 2 pods fits: 1 on node-a. Number 2 does not." in ended.out
    assert "gates (numakube.dev/fits). Without them, it does not fit on the only node" in ended.out
    ended = numakube("explain", "podgroup", "team", "--from", file)
    assert "It is not tried: waiting for pod group default/team to be created" in ended.out


def test_a_gang_without_names_is_explained_alike(
    numakube: Run, gang: Collected, tmp_path: Path
) -> None:
    """Its group, its label and its domain are renamed together."""
    file = tmp_path / "bundle.tar.gz"
    file.write_bytes(pack(anonymise(gang)))
    text = b"".join(anonymise(gang).files.values())
    assert b'"team"' not in text
    assert RACK.encode() not in text
    group = next(iter(facts_of(anonymise(gang)).objects.coscheduling_groups.values()))
    ended = numakube("explain", "podgroup", group.metadata.name, "--from", file)
    assert "Number 3 does not. The gang needs 3 at a time" in ended.out


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
