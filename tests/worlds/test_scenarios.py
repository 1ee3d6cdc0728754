"""Every scenario prints what its file says; ``REWRITE=1`` writes what it prints into the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.worlds.play import told
from tests.worlds.quiet_loop import run
from tests.worlds.script import Command, Scenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_ends_as_its_file_says(file: Path) -> None:
    """Commands with their outcome below, for people who know kubectl."""
    scenario = Scenario.parse(file.read_text(encoding="utf-8"))
    really = run(told(scenario))
    if os.environ.get("REWRITE"):
        file.write_text(str(really), encoding="utf-8")
    assert str(really) == str(scenario)


def test_scenarios_are_read_as_they_are_written() -> None:
    """Titles, options with spaces, several blocks, and blocks that print nothing."""
    text = (
        "# What it shows.\n"
        "\n"
        'node n0 machine="1 socket, 2 cores, 4Gi" producer=ours\n'
        "wait\n"
        "----\n"
        "\n"
        "get pods\n"
        "----\n"
        "web  Running  n0\n"
    )
    scenario = Scenario.parse(text)
    assert str(scenario) == text
    assert scenario.blocks[0].commands[0] == Command(
        ("node", "n0"), {"machine": "1 socket, 2 cores, 4Gi", "producer": "ours"}
    )
    assert scenario.blocks[1].output == ("web  Running  n0",)
