"""``kubectl numa fits``: how many more, where, what limits the next, and which node would help."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map.nodes import bundle

from numakube.testing import GPU, World, pod

Run = Callable[..., Ended]

POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: train}}
spec:
  containers:
  - name: main
    image: train
    resources: {{limits: {{cpu: 4, memory: 8Gi, {GPU}: 1}}}}
"""
SMALL = "2 sockets, 8 cores, 64Gi, gpu 2"
LARGE = "2 sockets, 16 cores, 64Gi, gpu 4"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a bundle of two small nodes, one of them partly used, and a large one."""
    made = World()
    made.add_node("small-0", machine=SMALL)
    made.add_node("small-1", machine=SMALL)
    made.add_node("large", machine=LARGE, labels={"node.kubernetes.io/instance-type": "x32"})
    made.run(pod("busy", cpu="6", memory="1Gi"), "small-1")
    return bundle(tmp_path / "world.tar.gz", made.facts())


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Return a file with a pod that asks for four CPUs and a GPU."""
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    return file


def test_pods_like_one_that_is_there_are_counted(numakube: Run, world: Path) -> None:
    """As many as of its shape; a name alone is a pod's."""
    by_shape = numakube("fits", "--shape", "cpu=6,memory=1Gi", "--from", world, "-o", "json")
    expected = json.loads(by_shape.out)["nodes"]
    for words in (("pod/busy",), ("pod", "busy"), ("busy",)):
        ended = numakube("fits", *words, "--from", world, "-o", "json")
        assert json.loads(ended.out)["nodes"] == expected
    assert numakube("fits", "busy", "--shape", "cpu=6", "--from", world).code == 2
    assert "there is no pod idle" in numakube("fits", "pod/idle", "--from", world).err


def test_nodes_that_do_not_exist_can_be_counted_on(
    numakube: Run, world: Path, manifest: Path
) -> None:
    """As an autoscaler would add them; a kind that cannot be read is named."""
    where = ("-f", manifest, "--from", world, "-o", "json")
    ended = numakube("fits", *where, "--nodes", f"2x {LARGE}")
    answer = json.loads(ended.out)
    assert answer["nodes"] == {
        "large": 7,
        "small-0": 3,
        "small-1": 2,
        "new-a-000": 7,
        "new-a-001": 7,
    }
    ended = numakube("fits", *where, "--nodes", "many")
    assert ended.code == 1
    assert ended.err.startswith("error: 'many': ")


def test_nodes_like_those_that_are_there_can_be_counted_on(
    numakube: Run, world: Path, manifest: Path
) -> None:
    """Idle ones, whatever runs on that one; the kind of another node is found all the same."""
    where = ("-f", manifest, "--from", world, "-o", "json")
    ended = numakube("fits", *where, "--nodes", "2x like small-1", "--nodes", "small-1")
    answer = json.loads(ended.out)
    new = {f"small-1-new-{number}": 3 for number in (1, 2, 3)}
    assert answer["nodes"] == {"large": 7, "small-0": 3, "small-1": 2, **new}
    assert [(kind["like"], kind["nodes"], kind["fits"]) for kind in answer["kinds"]] == [
        ("large", 1, 7), ("small-0", 5, 3),
    ]  # fmt: skip
    for kind, told in {
        "like small-9": "there is no node 'small-9'; did you mean small-",
        "small-0; policy=none": "these have the kubelet of small-0",
    }.items():
        assert told in numakube("fits", *where, "--nodes", kind).err


def test_it_says_how_many_where_and_what_another_node_takes(
    numakube: Run, world: Path, manifest: Path
) -> None:
    """A zone of eight cores, one of them reserved, takes one or two such pods; one of 16 three."""
    ended = numakube("fits", "-f", manifest, "--from", world, "-o", "json")
    answer = json.loads(ended.out)
    assert ended.code == 0
    assert answer["pod"] == "default/train"
    assert answer["nodes"] == {"large": 7, "small-0": 3, "small-1": 2}
    assert answer["fits"] == 12
    kinds = [(kind["like"], kind["nodes"], kind["fits"]) for kind in answer["kinds"]]
    assert kinds == [("large", 1, 7), ("small-0", 2, 3)]


def test_it_says_what_limits_the_next_one(numakube: Run, world: Path, manifest: Path) -> None:
    """The reasons are those of the full cluster, with the nodes that give them."""
    answer = json.loads(numakube("fits", "-f", manifest, "--from", world, "-o", "json").out)
    named = [name for limit in answer["limits"] for name in limit["nodes"]]
    assert sorted(named) == ["large", "small-0", "small-1"]
    assert all(limit["reason"] for limit in answer["limits"])


def test_people_get_tables_and_reasons(numakube: Run, world: Path, manifest: Path) -> None:
    """The text has the number first, then nodes, reasons and kinds of nodes."""
    lines = numakube("fits", "-f", manifest, "--from", world).out.splitlines()
    assert lines[0] == "12 more pods like default/train fit."
    assert "  large    7" in lines
    assert "The next one:" in lines
    assert lines[-2].split() == ["large", "x32", "1", "7"]


def test_a_pod_that_fits_nowhere_ends_with_1(numakube: Run, world: Path) -> None:
    """Sixty CPUs fit nowhere, and no kind of node would take them."""
    ended = numakube("fits", "--shape", "cpu=60,memory=1Gi", "--from", world)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0] == "No pod like default/shape fits."
    assert "Why:" in lines
    assert {line.split()[-1] for line in lines[-2:]} == {"0"}


def test_pods_that_mind_their_like_are_counted_together(
    numakube: Run, world: Path, manifest: Path
) -> None:
    """With one pod a node at most, another node of any kind takes one."""
    rule = """
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app: train}}
"""
    text = POD.replace("{name: train}", "{name: train, labels: {app: train}}")
    manifest.write_text(text.rstrip() + rule)
    answer = json.loads(numakube("fits", "-f", manifest, "--from", world, "-o", "json").out)
    assert (answer["fits"], {kind["fits"] for kind in answer["kinds"]}) == (3, {1})


def test_it_must_be_told_which_pods(numakube: Run, world: Path, manifest: Path) -> None:
    """Neither no kind of pod nor two can be asked about."""
    none = numakube("fits", "--from", world)
    assert none.code == 2
    assert "Say which pods: KIND/NAME, -f FILE or --shape RESOURCES." in none.err
    both = numakube("fits", "-f", manifest, "--shape", "cpu=1", "--from", world)
    assert "Give --shape or -f, not both." in both.err
