"""The demo tells its story and ends well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from numakube_lab.cli.demo import command


@pytest.mark.timeout(180)
def test_the_demo_shows_what_numa_blindness_costs() -> None:
    """Rejections without us, none with us, and a reason for the pod that cannot run."""
    ended = CliRunner().invoke(command)
    assert ended.exit_code == 0, ended.output
    rejected = re.search(r"(\d+) pods were rejected by kubelets", ended.output)
    assert rejected is not None
    assert int(rejected[1]) >= 2
    assert "TopologyAffinityError: Pod was rejected: Resources cannot be" in ended.output
    assert "6 run, 2 wait, 0 were rejected by kubelets." in ended.output
    assert "NUMA zone 0" in ended.output
    assert "3 cannot align container (cpu: best zone has 16 of 20 even if idle)" in ended.output
    assert "It fits on none of 3 nodes." in ended.output
    assert "Ask for 16 CPUs instead of 20 in container main" in ended.output
    drawn = re.search(r"as a map: (\S+)", ended.output)
    assert drawn is not None
    path = Path(drawn[1])
    assert path.read_text(encoding="utf-8").startswith("<svg")
    path.unlink()
