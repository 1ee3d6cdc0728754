"""``kubectl numa top`` on a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map import nodes

from numakube.api.yaml_text import load_yaml
from numakube.testing import World, pod

Run = Callable[..., Ended]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of a busy node, an empty one, and one without data."""
    web = nodes.on("a-1", nodes.named("web", cpu="6", memory="4Gi"))
    job = nodes.on("a-1", nodes.named("job", cpu="7", memory="30Gi", gpu="1"))
    waiting = nodes.named("waiting", cpu="8", memory="4Gi")
    busy = nodes.admitted(nodes.kubelet(nodes.SMALL), web, job)
    empty = nodes.kubelet(nodes.SMALL)
    facts = nodes.facts({"a-1": busy, "a-2": empty, "b-1": empty}, web, job, waiting)
    known = {name: nrt for name, nrt in facts.topologies.items() if name != "b-1"}
    cluster = facts.__class__(
        taken_at=facts.taken_at, nodes=facts.nodes, pods=facts.pods, topologies=known
    )
    return nodes.bundle(tmp_path / "bundle.tar.gz", cluster)


def cells(line: str) -> list[str]:
    """Return the cells of a line, which have at least three blanks between them."""
    return [cell.strip() for cell in line.split("   ") if cell.strip()]


def test_nodes_are_listed_with_a_total(numakube: Run, bundle: Path) -> None:
    """Free of allocatable, what is stranded and what fits."""
    ended = numakube("top", "--from", bundle)
    assert ended.code == 0
    lines = [cells(line) for line in ended.out.splitlines()]
    assert lines[0][:6] == ["NODE", "POLICY", "ZONES", "CPU", "MEMORY", "DEVICES"]
    assert lines[1] == [
        "a-1", "single-numa-node", "2", "2/15", "28Gi/62Gi", "gpu 3/4",
        "9.2Gi", "1 CPU + 4.4Gi", "CPU 50%, memory 4%",
    ]  # fmt: skip
    assert lines[2][3:] == ["15/15", "62Gi/62Gi", "gpu 4/4", "-", "8 CPU + 31Gi", "-"]
    assert "no NodeResourceTopology" in lines[3]
    assert lines[4][0] == "*"
    assert "8 CPU + 31Gi on a-2" in lines[4]


def test_zones_are_listed_in_the_order_asked_for(numakube: Run, bundle: Path) -> None:
    """Numbers go from large to small."""
    ended = numakube("top", "zones", "--from", bundle, "--sort-by", "cpu", "--no-headers")
    assert [cells(line)[:3] for line in ended.out.splitlines()] == [
        ["a-2", "1", "8/8"],
        ["a-2", "0", "7/7"],
        ["a-1", "0", "1/7"],
        ["a-1", "1", "1/8"],
    ]


def test_zones_without_cpus_that_are_alike_share_a_row(numakube: Run, tmp_path: Path) -> None:
    """A GPU server has 32 of them."""
    facts = nodes.facts({"tray": nodes.kubelet("gb200-nvl4", policy="none")})
    wide = nodes.bundle(tmp_path / "wide.tar.gz", facts)
    lines = numakube("top", "zones", "--from", wide, "--no-headers").out.splitlines()
    assert [cells(line)[1] for line in lines] == ["0", "1", "2,10,18,26", "3-9,11-17,19-25,27-33"]


def test_pods_are_listed_with_their_zones(numakube: Run, bundle: Path) -> None:
    """Those of one namespace, or all."""
    ended = numakube("top", "pods", "-n", "team", "--from", bundle)
    lines = [cells(line) for line in ended.out.splitlines()]
    assert lines[1] == ["team", "job", "a-1", "aligned", "1", "4-7,12-14", "30Gi", "1 gpu"]
    assert lines[2] == ["team", "waiting", "-", "pending", "-", "-", "-", "-"]
    assert numakube("top", "pods", "--from", bundle, "--no-headers").out == ""
    every = numakube("top", "pods", "-A", "--from", bundle, "--sort-by", "memory", "-o", "name")
    assert every.out.split() == ["pod/job", "pod/web", "pod/waiting"]


def test_wide_rows_of_pods_tell_how_close_their_devices_are(numakube: Run, tmp_path: Path) -> None:
    """In the words of ``nvidia-smi topo -m``; JSON has them too."""
    pod = nodes.on("a-1", nodes.named("train", cpu="2", memory="1Gi", gpu="1", nic="1"))
    node = nodes.admitted(nodes.kubelet("1 socket, 8 cores, 32Gi, gpu 1, nic 1, 1 switch"), pod)
    bundle = nodes.bundle(tmp_path / "bundle.tar.gz", nodes.facts({"a-1": node}, pod))
    arguments = ("top", "pods", "-A", "--from", bundle, "-o")
    titles, row = (cells(line) for line in numakube(*arguments, "wide").out.splitlines())
    assert row[titles.index("CLOSENESS")] == "PIX"
    assert json.loads(numakube(*arguments, "json").out)["items"][0]["closeness"] == "PIX"


def test_wide_rows_tell_how_many_close_pairs_are_left(numakube: Run, tmp_path: Path) -> None:
    """Of nodes, of all together, and of zones; where no devices share a switch, the best pair."""
    shape = "2 sockets, 8 cores, 32Gi, gpu 2, nic 2, 2 switches"
    pod = nodes.on("a-1", nodes.named("train", cpu="2", memory="1Gi", gpu="1", nic="1"))
    facts = nodes.facts(
        {
            "a-1": nodes.admitted(nodes.kubelet(shape), pod),
            "a-2": nodes.kubelet(shape),
            "b-1": nodes.kubelet("telco-2s"),
            "b-2": nodes.kubelet(nodes.SMALL),
        },
        pod,
    )
    bundle = nodes.bundle(tmp_path / "bundle.tar.gz", facts)

    def column(what: str, *names: str) -> list[str]:
        ended = numakube("top", what, *names, "--from", bundle, "-o", "wide")
        titles, *rows = (cells(line) for line in ended.out.splitlines())
        return [row[titles.index("CLOSE PAIRS")] for row in rows]

    assert column("nodes") == [
        "gpu+nic 3/4 PIX", "gpu+nic 4/4 PIX", "acc100+sriov NODE", "-", "gpu+nic 7/8 PIX",
    ]  # fmt: skip
    assert column("zones", "a-1") == ["gpu+nic 1/2 PIX", "gpu+nic 2/2 PIX"]
    assert column("zones", "b-1") == ["acc100+sriov NODE", "-"]


@pytest.mark.parametrize("what", ["nodes", "zones", "pods"])
def test_json_and_yaml_are_the_same(numakube: Run, bundle: Path, what: str) -> None:
    """With everything."""
    arguments = ("top", what, "-A", "--from", bundle, "-o")
    document = json.loads(numakube(*arguments, "json").out)
    assert document["kind"] == f"{what.capitalize()[:-1]}UsageList"
    assert document == load_yaml(numakube(*arguments, "yaml").out, "yaml")
    assert numakube(*arguments, "wide").code == 0


def test_a_shape_is_counted(numakube: Run, bundle: Path) -> None:
    """By the scheduler's word; of a node without known zones nobody can say."""
    shape = "cpu=4,memory=2Gi,vendor.example/gpu=1"
    ended = numakube("top", "--from", bundle, "--shape", shape, "--sort-by", "fits")
    rows = [cells(line) for line in ended.out.splitlines()]
    assert [(row[0], row[-1]) for row in rows] == [
        ("NODE", "FITS"),
        ("a-2", "3"),
        ("a-1", "0"),
        ("b-1", "unknown"),
        ("*", "3"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nowhere",), 1, "no node 'nowhere'"),
        (("--sort-by", "beauty"), 2, "there are stranded, largest, fragmentation, fits, name, cpu"),
        (("-w",), 2, "live cluster"),
        (("--shape", "cpu"), 2, "--shape"),
        (("--shape", "cpu=many"), 2, "--shape"),
        (("--shape", "cpu=8cores"), 2, "is not an amount like 8 or 32Gi; write 8."),
        (("--shape", "memory=64GB"), 2, "is not an amount like 8 or 32Gi; write 64Gi, or 64G."),
        (("--shape", ""), 2, "nothing is asked for"),
        (("--shape", "cpu=1", "-f", "-"), 2, "not both"),
    ],
)
def test_what_cannot_be_listed_is_told(
    numakube: Run, bundle: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    """In one line."""
    ended = numakube("top", "nodes", *arguments, "--from", bundle)
    assert ended.code == code
    assert words in ended.err


def test_shapes_and_groups_are_about_nodes(numakube: Run, bundle: Path) -> None:
    """A scheduler places pods on nodes; zones are the kubelet's choice."""
    ended = numakube("top", "zones", "--shape", "cpu=1", "--from", bundle)
    assert (ended.code, "about nodes" in ended.err) == (2, True)


def test_hugepages_are_shown_and_a_table_is_no_wider_than_the_terminal(
    numakube: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What says least is left out first; what rows are sorted by stays."""
    made, shape = World(), "2 sockets, 16 cores, smt 2, 96Gi, hugepages-1Gi 16, sriov_netdevice 4"
    for number in range(2):
        name = f"worker-{number}.cluster.example.org"
        made.add_node(name, machine=shape)
        made.run(pod(f"p{number}", cpu="30", memory="70Gi"), name)
    file = nodes.bundle(tmp_path / "telco.tar.gz", made.facts())

    def top(*more: str) -> list[str]:
        out = numakube("top", *more, "--from", file).out.splitlines()
        assert "-o" in more or max(map(len, out)) <= 120
        return cells(out[0])

    monkeypatch.delenv("COLUMNS", raising=False)
    assert {"HUGEPAGES", "CPU", "MEMORY", "LARGEST"} <= set(top())
    assert {"FRAGMENTED", "POLICY", "STRANDED"} & set(top()) != {"FRAGMENTED", "POLICY", "STRANDED"}
    assert "FRAGMENTED" in top("--sort-by", "fragmentation")
    assert "HUGEPAGES" in top("zones")
    assert {"FRAGMENTED", "POLICY", "HUGEPAGES"} <= set(top("-o", "wide"))
    monkeypatch.setenv("COLUMNS", "200")
    assert {"FRAGMENTED", "POLICY", "HUGEPAGES"} <= set(
        cells(numakube("top", "--from", file).out.splitlines()[0])
    )


def test_namespaces_are_listed_with_what_they_hold_and_strand(numakube: Run, bundle: Path) -> None:
    """By name or by what is stranded; `-o name` can be given to kubectl."""
    ended = numakube("top", "namespaces", "--from", bundle, "--sort-by", "strands")
    titles, *rows = [cells(line) for line in ended.out.splitlines()]
    assert titles == [
        "NAMESPACE", "PODS", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "STRANDS", "UNKNOWN",
    ]  # fmt: skip
    assert rows == [["team", "2", "13", "34Gi", "1 gpu", "2 of 2", "9.2Gi", "-"]]
    assert numakube("top", "ns", "--from", bundle, "-o", "name").out == "namespace/team\n"
    document = json.loads(numakube("top", "ns/team", "--from", bundle, "-o", "json").out)
    assert document["items"][0]["devices"] == {"vendor.example/gpu": 1}
    wrong = numakube("top", "namespaces", "--from", bundle, "--sort-by", "colour")
    assert (wrong.code, "namespaces are sorted by name, strands" in wrong.err) == (2, True)
    assert numakube("top", "ns/nobody", "--from", bundle, "--no-headers").out == ""
