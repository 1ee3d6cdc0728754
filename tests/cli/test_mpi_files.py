"""``kubectl numa top pods -o hostfile`` and ``-o rankfile``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map import nodes

from numakube.testing import pod

Run = Callable[..., Ended]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle of three ranks, the tenth of them last by number, and one that waits."""
    names = ("w-10", "w-2", "w-1")
    ranks = [nodes.on("a-1", pod(name, cpu="4", hostname=name, subdomain="w")) for name in names]
    kubelet = nodes.admitted(nodes.kubelet(nodes.SMALL), *ranks)
    waiting = pod("w-3", cpu="4")
    return nodes.bundle(tmp_path / "b.tar.gz", nodes.facts({"a-1": kubelet}, *ranks, waiting))


def test_a_host_is_a_pod_with_as_many_slots_as_cpus(numakube: Run, bundle: Path) -> None:
    ended = numakube("top", "pods", "-o", "hostfile", "--from", bundle)
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [f"w-{number}.w.default.svc slots=4" for number in (1, 2, 10)],
    )


def test_ranks_are_bound_to_the_cpus_of_their_pods(numakube: Run, bundle: Path) -> None:
    ended = numakube("top", "pods", "-o", "rankfile", "--from", bundle)
    lines = ended.out.splitlines()
    assert [line.partition(" slot=")[0] for line in lines] == [
        f"rank {rank}=w-{number}.w.default.svc" for rank, number in enumerate((1, 2, 10))
    ]
    slots = [set(line.partition("=")[2].partition("=")[2].split(",")) for line in lines]
    assert all(slots)
    assert not slots[0] & slots[1]


def test_the_index_of_a_job_counts_before_names(numakube: Run, tmp_path: Path) -> None:
    label = "batch.kubernetes.io/job-completion-index"
    ranks = [
        nodes.on("a-1", pod(name, cpu="2", labels={label: index}))
        for name, index in (("x-aaa", "1"), ("x-zzz", "0"))
    ]
    kubelet = nodes.admitted(nodes.kubelet(nodes.SMALL), *ranks)
    file = nodes.bundle(tmp_path / "b.tar.gz", nodes.facts({"a-1": kubelet}, *ranks))
    ended = numakube("top", "pods", "-o", "hostfile", "--from", file)
    assert ended.out.splitlines() == ["x-zzz slots=2", "x-aaa slots=2"]


def test_a_rank_without_cpus_of_its_own_is_refused_by_name(numakube: Run, tmp_path: Path) -> None:
    shared = nodes.on("a-1", pod("burst", cpu="2", guaranteed=False))
    kubelet = nodes.admitted(nodes.kubelet(nodes.SMALL), shared)
    file = nodes.bundle(tmp_path / "b.tar.gz", nodes.facts({"a-1": kubelet}, shared))
    ended = numakube("top", "pods", "-o", "rankfile", "--from", file)
    assert ended.code == 1
    assert ended.out == ""
    assert "pod default/burst has no CPUs of its own that are known" in ended.err
    assert numakube("top", "pods", "-o", "hostfile", "--from", file).out == "burst slots=1\n"


def test_files_for_mpi_are_about_pods(numakube: Run, bundle: Path) -> None:
    ended = numakube("top", "-o", "hostfile", "--from", bundle)
    assert (ended.code, "top pods -o hostfile" in ended.err) == (2, True)
