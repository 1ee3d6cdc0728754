"""The demo tells its story and ends well."""

from __future__ import annotations

import re

from click.testing import CliRunner

from numakube.cli.demo import command


def test_the_demo_shows_what_fits_and_what_cannot() -> None:
    """Four pods run in their zones; the impossible one is refused again and again."""
    ended = CliRunner().invoke(command)
    assert ended.exit_code == 0, ended.output
    assert len(re.findall(r"aligned-\S+ Running on node-\d", ended.output)) == 4
    assert "NUMA node 0" in ended.output
    assert "TopologyAffinityError: Pod was rejected: Resources cannot be" in ended.output
    rejected = re.search(r"(\d+) pods were rejected by kubelets", ended.output)
    assert rejected is not None
    assert int(rejected[1]) >= 2
