"""``kubectl numa top --shape``, ``-f`` and ``--group-by``: what the scheduler would place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map.nodes import bundle

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import Node, NodeCondition
from numakube.apps.bundle import unpack
from numakube.insight.facts import facts_of
from numakube.kube.clock import SystemClock
from numakube.testing import GPU, World, pod
from numakube_pages.explain_view import Explainer
from numakube_pages.process import source_of_facts

Run = Callable[..., Ended]

TAINT = Taint(key="team", value="x", effect="NoSchedule")

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: web
        resources: {limits: {cpu: 4, memory: 1Gi}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a bundle of two good nodes, a cordoned, a tainted and a dead one.

    Each has 7 and 8 CPUs in its zones, and a daemon that has a share of two of them.
    """
    world = World()
    for name, pool, spec in (
        ("a", "old", {}),
        ("b", "new", {}),
        ("cordoned", "new", {"unschedulable": True}),
        (
            "dead",
            "",
            {"taints": (Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"),)},
        ),
        ("tainted", "new", {"taints": (TAINT,)}),
    ):
        world.add_node(name, labels={"pool": pool} if pool else {}, **spec)
        world.run(pod(f"daemon-{name}", cpu="2", memory="100Mi", guaranteed=False), name)
    world.nodes["dead"] = not_ready(world.nodes["dead"])
    return bundle(tmp_path / "world.tar.gz", world.facts())


def not_ready(node: Node) -> Node:
    """Return a node whose kubelet is not heard of any more."""
    status = msgspec.structs.replace(
        node.status, conditions=(NodeCondition(type="Ready", status="Unknown"),)
    )
    return msgspec.structs.replace(node, status=status)


def last_cells(text: str, count: int = 2) -> dict[str, list[str]]:
    """Return the last cells of each line by the first."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[-count:] for row in rows}


def test_shares_cordons_and_taints_count(numakube: Run, world: Path) -> None:
    """Each zone has room for a pod of seven CPUs, but the daemon's share is of the node."""
    ended = numakube("top", "--from", world, "--shape", "cpu=4,memory=1Gi")
    assert ended.code == 0
    assert last_cells(ended.out) == {
        "NODE": ["FITS", "STATUS"],
        "a": ["3", "Ready"],
        "b": ["3", "Ready"],
        "cordoned": ["0", "SchedulingDisabled"],
        "dead": ["0", "NotReady"],
        "tainted": ["0", "Ready"],
        "*": ["NotReady,1", "SchedulingDisabled"],
    }
    seven = numakube("top", "nodes", "a", "--from", world, "--shape", "cpu=7,memory=1Gi")
    assert last_cells(seven.out, 1)["a"] == ["1"]


def test_no_more_pods_fit_than_a_kubelet_takes(numakube: Run, world: Path) -> None:
    """110 by default, the daemon among them."""
    ended = numakube(
        "top", "nodes", "a", "--from", world, "--shape", "cpu=10m,memory=1Mi", "-o", "json"
    )
    assert json.loads(ended.out)["items"][0]["fits"] == 109


def test_pods_that_need_several_zones_count_where_the_policy_takes_them(
    numakube: Run, tmp_path: Path
) -> None:
    """All GPUs of eight zones fit once under restricted, never under single-numa-node."""
    made = World()
    for policy in ("restricted", "single-numa-node"):
        made.add_node(policy, policy, machine="2 sockets, 4 numa each, 24 cores, 200Gi, gpu 1")
    file = bundle(tmp_path / "hgx.tar.gz", made.facts())
    shape = f"cpu=170,memory=1410Gi,{GPU}=8"
    document = json.loads(numakube("top", "--from", file, "--shape", shape, "-o", "json").out)
    assert {entry["node"]: entry["fits"] for entry in document["items"]} == {
        "restricted": 1, "single-numa-node": 0,
    }  # fmt: skip


def test_the_replicas_of_a_manifest_are_counted(numakube: Run, world: Path, tmp_path: Path) -> None:
    """How many of those that are wanted fit."""
    file = tmp_path / "web.yaml"
    file.write_text(DEPLOYMENT)
    ended = numakube("top", "--from", world, "-f", file)
    assert ended.out.splitlines()[-1] == "5 of 5 pods of deployment/web fit."
    file.write_text(DEPLOYMENT.replace("replicas: 5", "replicas: 9"))
    assert "6 of 9 pods of deployment/web fit." in numakube("top", "--from", world, "-f", file).out
    document = json.loads(numakube("top", "--from", world, "-f", file, "-o", "json").out)
    assert document["total"]["fits"] == 6
    assert document["replicas"] == {"of": "deployment/web", "wanted": 9, "fit": 6}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{DEPLOYMENT}---{DEPLOYMENT}", "deployment/web, deployment/web: one kind"),
        (DEPLOYMENT.replace("replicas: 5", "replicas: many"), "spec.replicas: 'many' is no count"),
        ("kind: Service", "no pod, nor a template"),
    ],
)
def test_manifests_that_cannot_be_counted_are_refused(
    numakube: Run, world: Path, tmp_path: Path, text: str, words: str
) -> None:
    """With what is wrong."""
    file = tmp_path / "web.yaml"
    file.write_text(text)
    ended = numakube("top", "--from", world, "-f", file)
    assert ended.code != 0
    assert words in ended.err


def test_nodes_are_added_up_by_a_label(numakube: Run, world: Path) -> None:
    """Which group should be expanded?"""
    arguments = ("top", "--from", world, "--group-by", "pool", "--shape", "cpu=4,memory=1Gi")
    ended = numakube(*arguments, "--sort-by", "fits")
    rows = [line.split() for line in ended.out.splitlines()]
    assert rows[0][:3] == ["pool", "NODES", "ZONES"]
    assert [row[:3] for row in rows[1:]] == [
        ["new", "3", "6"],
        ["old", "1", "2"],
        ["<none>", "1", "2"],
        ["*", "5", "10"],
    ]
    document = json.loads(numakube(*arguments, "-o", "json").out)
    assert document["kind"] == "NodeGroupUsageList"
    assert {entry["group"]: entry["fits"] for entry in document["items"]} == {
        "<none>": 0, "new": 3, "old": 3,
    }  # fmt: skip
    assert numakube(*arguments, "-o", "name").out.split()[1] == "pool=new"


def test_a_drawing_says_that_a_node_is_cordoned(numakube: Run, world: Path) -> None:
    """Or not ready."""
    drawn = numakube("map", "cordoned", "dead", "a", "--from", world).out
    assert "the node is SchedulingDisabled" in drawn
    assert "the node is NotReady" in drawn
    assert drawn.count("the node is") == 2


@pytest.mark.parametrize(
    "shape", ["cpu=4,memory=1Gi", "cpu=7", f"{GPU}=1", "cpu=10m,memory=1Mi", "gpu=1"]
)
def test_the_dashboard_answers_the_same(numakube: Run, world: Path, shape: str) -> None:
    """Node by node: both run the scheduler's cycles."""
    ended = numakube("top", "--from", world, "--shape", shape, "-o", "json")
    document = json.loads(ended.out)
    source = source_of_facts(facts_of(unpack(world.read_bytes(), name="world")), SystemClock())
    room = asyncio.run(Explainer(source).room_for(shape))
    assert room.nodes == {
        entry["node"]: entry["fits"] for entry in document["items"] if entry["fits"]
    }
    assert room.total == document["total"]["fits"]
