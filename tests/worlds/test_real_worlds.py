"""What holds in worlds holds on a real control plane too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.worlds.__main__ import commands_of
from tests.worlds.real_cluster import real_cluster
from tests.worlds.real_worlds import lacking, played_on, played_together
from tests.worlds.script import listed

WORLDS = (3, 40)
"""Few, for each takes seconds; ``make worlds ASSETS=...`` plays any number."""

needs_control_plane = pytest.mark.skipif(
    bool(lacking()), reason=f"a real control plane: {lacking()}"
)


@needs_control_plane
@pytest.mark.timeout(900)
async def test_everything_holds_in_worlds_on_a_real_control_plane(tmp_path: Path) -> None:
    """With stock controllers and a stock scheduler beside ours; each leaves nothing behind."""
    async with real_cluster(tmp_path) as cluster:
        for number in WORLDS:
            commands = commands_of(number, 1)
            world = await played_on(cluster, number, commands)
            assert not world.findings, f"{listed(commands)}\n" + "\n".join(map(str, world.findings))
            assert world.pods


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, and how to say where they are."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert lacking().startswith("set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver")
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert lacking() == f"{tmp_path} lacks kube-controller-manager, kube-scheduler"


def test_without_a_control_plane_no_world_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its worlds say so; those of other control planes go on."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    worlds = played_together([(number, commands_of(number, 1)) for number in (1, 2)])
    assert [world.number for world in worlds] == [1, 2]
    for world in worlds:
        (finding,) = world.findings
        assert "there is no control plane: FileNotFoundError" in str(finding)
