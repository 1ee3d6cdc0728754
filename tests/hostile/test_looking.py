"""Whatever a cluster holds, looking at it ends with an answer, and no terminal obeys it."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.pieces import EXAMPLES, damaged, marked
from tests.insight.doctor.documents import healthy, pod

from numakube.apps.bundle import pack
from numakube.cli.main import run

COMMANDS = (
    ("top", "nodes", "-o", "wide"),
    ("top", "zones"),
    ("top", "pods"),
    ("doctor",),
    ("explain", "pod", "waiting"),
    ("map", "node-0"),
    ("top", "nodes", "-o", "json"),
    ("doctor", "-o", "yaml"),
)


def _hostile_bundle(rng: random.Random) -> bytes:
    """Return a cluster in which much makes no sense."""
    world = healthy()
    world.pods.append(pod("waiting"))
    for trees in (world.nodes, world.topologies, world.configz):
        for name in trees:
            if rng.random() < 0.6:
                spoiled = damaged(rng, trees[name])
                trees[name] = marked(rng, spoiled) if _has_meta(spoiled) else spoiled
    for members in (world.pods, world.leases, world.daemonsets, world.deployments):
        for place, one in enumerate(members):
            if rng.random() < 0.4:
                members[place] = damaged(rng, one)
    return pack(world.collected())


def _has_meta(tree: object) -> bool:
    meta = tree.get("metadata") if isinstance(tree, dict) else None
    return isinstance(meta, dict) and all(
        isinstance(meta.get(key, {}), dict) for key in ("annotations", "labels")
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@settings(max_examples=max(EXAMPLES // 4, 5))
@given(seed=st.integers(0, 2**32))
def test_a_command_tells_what_it_found(command: tuple[str, ...], seed: int) -> None:
    """Or what is wrong with what it found."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.tar.gz"
        bundle.write_bytes(_hostile_bundle(random.Random(seed)))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run([*command, "--from", str(bundle)], program="numakube")

    assert code in (0, 1), said.getvalue()
    assert "this is a bug" not in said.getvalue()
    assert all(line.isprintable() for line in said.getvalue().split("\n"))
