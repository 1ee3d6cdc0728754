"""The drawings that people see, kept as files: ``UPDATE_GOLDENS=1 pytest`` writes them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.insight.node_map import nodes

from numakube.insight.node_map.picture import NodePicture
from numakube.insight.node_map.picture_from_report import picture_of_machine
from numakube.insight.node_map.terminal_map import text_of
from numakube.kubelet.machines.shape_text import from_shape

GOLDENS = Path(__file__).parent / "goldens"


PICTURES: dict[str, Callable[[], NodePicture]] = {
    "small": nodes.small,
    "large": nodes.large,
    "expanded": nodes.expanded,
    "with-holes": nodes.with_holes,
    "offline": nodes.partly_offline,
    "counts": nodes.counts,
    "plan": nodes.plan,
    "machine": lambda: picture_of_machine("", from_shape("laptop")),
    "many-zones": lambda: picture_of_machine("", from_shape("gb200-nvl4")),
}


def check(file: str, content: str) -> None:
    """Compare *content* with a golden file, or write the file if asked to."""
    path = GOLDENS / file
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(content, encoding="utf-8")
    assert content == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_text_is_as_kept(name: str) -> None:
    """At the width of a common terminal."""
    check(f"{name}.txt", text_of(PICTURES[name]()))


def test_ascii_is_as_kept() -> None:
    """For terminals that know nothing else, and narrow ones."""
    check("small-ascii.txt", text_of(nodes.small(), width=60, ascii_only=True))
