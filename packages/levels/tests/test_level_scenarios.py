"""Every scenario prints what its file says; ``REWRITE=1`` writes what it prints into the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from packages.levels.tests.level_play import told
from tests.worlds.script import Scenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_ends_as_its_file_says(file: Path) -> None:
    """Domains, what is asked, and what each gets."""
    scenario = Scenario.parse(file.read_text(encoding="utf-8"))
    really = told(scenario)
    if os.environ.get("REWRITE"):
        file.write_text(str(really), encoding="utf-8")
    assert str(really) == str(scenario)
