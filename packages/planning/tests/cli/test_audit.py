"""``kubectl numa check pods`` on a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.cli.printed_pages import check_printed
from tests.insight.claim_world import add_claim, add_slice, claiming, device
from tests.insight.explain.bundling import collected_of

from numakube.apps.anonymising.anonymise import anonymise
from numakube.apps.bundle import pack
from numakube.insight.collected import Collected
from numakube.testing import World, pod

Run = Callable[..., Ended]


def cluster() -> Collected:
    """Return a pod that was spread, one far from its GPU, and some that are aligned."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name, "best-effort")
        add_slice(world, name, [device(f"gpu-{number}", number // 2) for number in range(4)])
    for name in ("web", "store"):
        world.run(pod(name, cpu="5"), "node-a")
    world.run(pod("cache", cpu="4"), "node-a")
    add_claim(world, "one-gpu", "node-b/gpu-3", pods=["train"])
    world.run(claiming("train", "one-gpu", cpu="4"), "node-b")
    return collected_of(world.facts())


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the cluster as a bundle."""
    path = tmp_path / "cluster.tar.gz"
    path.write_bytes(pack(cluster()))
    return path


def test_the_page_shows_what_it_prints(numakube: Run, bundle: Path) -> None:
    """A table and a sentence; it ends with 1."""
    ended = numakube("audit", "--from", bundle)
    assert ended.code == 1
    check_printed("how-to/check-a-cluster.md", "audit", f"$ kubectl numa check pods\n{ended.out}")


def test_pods_are_chosen_by_name_namespace_and_node(numakube: Run, bundle: Path) -> None:
    """Those that are not chosen do not count."""
    named = json.loads(numakube("audit", "pod/train", "--from", bundle, "-o", "json").out)
    assert (named["kind"], named["wanting"]) == ("AlignmentAudit", 1)
    assert [entry["name"] for entry in named["misaligned"]] == ["train"]
    there = numakube("audit", "--node", "node-a", "--from", bundle, "--exit-zero")
    assert there.code == 0
    assert "2 of 3 pods that want alignment have it" in there.out
    assert numakube("audit", "-n", "other", "--from", bundle).out == "No pod wants alignment.\n"


def test_nothing_is_searched_without_moves(numakube: Run, bundle: Path) -> None:
    """And wide tables have what was expected, and what is."""
    ended = numakube("audit", "--no-moves", "--from", bundle, "-o", "wide")
    assert "0 of them would if placed again" in ended.out
    assert "zone 0: cpu 4, memory 1Gi; zone 1: gpu.example 1" in ended.out


def test_a_bundle_without_names_says_the_same(numakube: Run, bundle: Path) -> None:
    """Causes, zones and the number of nodes that would do."""

    def causes(path: Path) -> list[tuple[str, list[int], int]]:
        found = json.loads(numakube("audit", "--from", path, "-o", "json").out)["misaligned"]
        return sorted((entry["cause"], entry["zones"], len(entry["better"])) for entry in found)

    anonymous = bundle.with_name("anonymous.tar.gz")
    anonymous.write_bytes(pack(anonymise(cluster())))
    assert causes(anonymous) == causes(bundle) != []
