"""A bundle has what a running scheduler told of itself, and tools tell it again from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_inside import Numakube, ask, world

from numakube.apps.bundle import unpack
from numakube.insight.facts import facts_of
from numakube.insight.scheduler_engine import configuration_in
from numakube_lab.testing import LabCluster

pytestmark = pytest.mark.timeout(240)

__all__ = ["ask", "world"]  # fixtures


async def test_a_bundle_remembers_what_the_scheduler_knew(
    world: LabCluster,
    ask: Numakube,
    tmp_path: Path,
    numakube: object,
) -> None:
    """Attempts, cache, queue, configuration; and its verdicts are found again offline."""
    file = tmp_path / "bundle.tgz"
    made = await ask("bundle", "-o", str(file))
    assert (made.code, made.err) == (0, "")
    facts = facts_of(unpack(file.read_bytes()))
    (scheduler,) = facts.schedulers.values()
    assert set(scheduler.documents) == {"cache", "queue", "reservations", "attempts", "configz"}
    config = configuration_in(facts)
    assert config is not None
    assert [profile.scheduler_name for profile in config.profiles] == ["numakube-scheduler"]
    assert callable(numakube)
    told = numakube("debug", "trace", "pod", "late", "--from", file)
    assert "cannot align container (cpu: best zone has 3 of 4)" in told.out
    checked = numakube("replay", "bundle", file, "--check")
    assert checked.out == "1 passed, 0 failed\n"
    explained = numakube("explain", "pod", "late", "--from", file)
    assert "Ask for 3 CPUs instead of 4 in container main: fits on node-0." in explained.out
