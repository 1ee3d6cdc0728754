"""The scoreboard: its rows are what the API takes, its figures are true, its page says them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from benchmarks.lab_api import SERVER
from benchmarks.scheduler_throughput import kubeconfig_of, server_process
from benchmarks.scoreboard.__main__ import main
from benchmarks.scoreboard.page import page
from benchmarks.scoreboard.rivals import absent, go_profile, rivals
from benchmarks.scoreboard.rows import NUMA_GROUP, ROWS, Row, aligned
from benchmarks.scoreboard.turns import Site, Turn, play, rejections

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod

TURN = Turn(
    row="", rival="numakube", version="1", turn=0, wanted=10, bound=10, bound_per_second=500.0,
    told_per_second=400.0, median_seconds=0.5, slowest_seconds=1.0, scheduler_milliseconds=1.0,
    server_milliseconds=4.0, memory_mb=100, cores=2,
)  # fmt: skip


def row(name: str) -> Row:
    return next(each for each in ROWS if each.title.startswith(name))


def turn(case: Row, **figures: object) -> Turn:
    return msgspec.structs.replace(TURN, row=case.title, **figures)


def bound(name: str, node: str, cpus: int) -> Pod:
    document = aligned(0, sizes=(cpus,))
    document["metadata"] = {"name": name, "namespace": "default", "uid": name}
    document["spec"]["nodeName"] = node
    return convert(Pod, document)


def test_no_two_rows_are_called_alike_and_all_of_them_make_pods() -> None:
    assert max(Counter(case.title for case in ROWS).values()) == 1
    for case in ROWS:
        for number in range(6):
            for make in (case.pod, case.first or case.pod):
                made = convert(Pod, make(number))
                assert made.spec.scheduler_name == "numakube-scheduler"
        for resource, document in case.scaled(0.001).beside(case.scaled(0.001)):
            assert document["metadata"]["name"], resource


def test_a_scaled_row_keeps_what_it_has_none_of() -> None:
    small = row("basic: 500").scaled(0.01)
    assert (small.nodes, small.initial, small.pods, small.gated) == (5, 5, 10, 0)


def test_kubelets_reject_what_no_zone_has_room_for() -> None:
    case = row("one zone: 1,000").scaled(0.001)
    pods = [bound(f"p{number}", "node-0", 40) for number in range(3)]
    assert rejections(case, pods[:2], {}) == 0
    assert rejections(case, pods, {"p0": 3.0, "p1": 1.0, "p2": 2.0}) == 1


async def test_ours_plays_a_row_and_no_kubelet_rejects_a_pod(tmp_path: Path) -> None:
    case = next(each for each in ROWS if each.group == NUMA_GROUP and "until full" in each.name)
    ours = rivals(tmp_path)[0]
    with server_process(SERVER) as (url, pid):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        played = await play(
            case.scaled(0.02), ours, Site(kubeconfig, (pid,)), turn=0, cores=os.cpu_count() or 1
        )
    assert (played.bound, played.wanted, played.rejected) == (17, 17, 0)
    assert played.bound_per_second > 0
    assert played.told_per_second is not None
    assert played.told_per_second <= played.bound_per_second
    assert played.memory_mb > 20


def test_the_page_compares_turns_that_were_played_one_after_the_other() -> None:
    case = row("basic: 500")
    turns = [
        turn(case, turn=0),
        turn(case, turn=0, rival="kube-scheduler", bound_per_second=400.0),
        turn(case, turn=1, bound_per_second=300.0),
        turn(case, turn=1, rival="kube-scheduler", bound_per_second=200.0, told_per_second=None),
    ]
    text = page(ROWS, turns, ["nrt-scheduler"])
    assert "Not there, so not measured: nrt-scheduler." in text
    assert "1.38 times as many pods a second as kube-scheduler." in text
    # API server and etcd need 4 ms a pod, and there are two cores.
    assert (
        "| numakube | 400 (300 to 500) | 400 | 0.50 s | 1.00 s | 1.00 ms | 4.00 ms | 500 |" in text
    )
    assert "topology spreading" not in text


def test_the_page_says_who_bound_nothing_and_who_was_alone() -> None:
    gangs = next(each for each in ROWS if each.only_ours)
    basic = row("basic: 500")
    none = {"bound": 0, "bound_per_second": 0.0, "rival": "kube-scheduler"}
    text = page(ROWS, [turn(gangs), turn(basic), turn(basic, **none)], [])
    assert "No other scheduler takes part: " in text
    assert "kube-scheduler bound none." in text
    assert page(ROWS, [turn(basic)], []).count("Nobody else was there.") == 1


def test_rivals_are_what_stands_in_the_folder(tmp_path: Path) -> None:
    assert [rival.name for rival in rivals(tmp_path)] == ["numakube"]
    assert absent(tmp_path) == ("kube-scheduler", "nrt-scheduler")
    for name in ("kube-scheduler", "kube-scheduler-1.35", "nrt-scheduler"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho Kubernetes v1.37.0-rc.1\n", encoding="utf-8")
        program.chmod(0o755)
    found = {rival.name: (rival.version, rival.aligns) for rival in rivals(tmp_path)[1:]}
    assert found == {
        "kube-scheduler": ("1.37.0-rc.1", False),
        "kube-scheduler-1.35": ("1.37.0-rc.1", False),
        "nrt-scheduler": ("1.37.0-rc.1", True),
    }
    assert go_profile()["pluginConfig"][0]["args"]["cacheResyncPeriodSeconds"] > 0


def test_without_a_control_plane_it_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert main(["--out", str(tmp_path)]) == 2
    assert "that has etcd, kube-apiserver" in capsys.readouterr().err
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch()
    assert main(["no such row", "--out", str(tmp_path)]) == 2
    assert "basic: 500 nodes" in capsys.readouterr().err


def test_nodes_of_plain_rows_are_ready() -> None:
    from benchmarks.scoreboard.rows import plain_node

    node = convert(Node, plain_node("n", {"a": "b"}))
    assert node.status.allocatable["cpu"] == "4"
    assert node.metadata.labels["kubernetes.io/hostname"] == "n"
