"""The drawings that people see, kept as files: ``UPDATE_GOLDENS=1 pytest`` writes them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.insight.drawing import nodes

from numakube.insight.drawing.before_and_after import compared
from numakube.insight.drawing.picture import NodePicture
from numakube.insight.drawing.picture_from_facts import picture_of_counts
from numakube.insight.drawing.picture_from_report import picture_of_machine
from numakube.insight.drawing.svg import svg_of
from numakube.insight.drawing.terminal_map import text_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.model_report import nrt_of
from numakube.topology.topology_view import NodeTopology, view_of

GOLDENS = Path(__file__).parent / "goldens"


def counts() -> NodePicture:
    """Return a node of which amounts are known only."""
    node = nodes.admitted(nodes.kubelet(nodes.SMALL), nodes.named("web", cpu="2", memory="4Gi"))
    view = view_of(nrt_of("counts", node, exact=False))
    assert isinstance(view, NodeTopology)
    return picture_of_counts(view)


def plan() -> NodePicture:
    """Return a node from which a pod is taken and to which another comes."""
    after = nodes.picture(
        "worker-1",
        nodes.kubelet(nodes.SMALL),
        nodes.named("trainer", cpu="4", memory="8Gi", gpu="1"),
        nodes.named("other", cpu="6", memory="16Gi", gpu="2"),
    )
    return compared(nodes.small(), after)


PICTURES: dict[str, Callable[[], NodePicture]] = {
    "small": nodes.small,
    "large": nodes.large,
    "expanded": nodes.expanded,
    "with-holes": nodes.with_holes,
    "offline": nodes.partly_offline,
    "counts": counts,
    "plan": plan,
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


@pytest.mark.parametrize("name", ["small", "plan", "counts"])
def test_svg_is_as_kept(name: str) -> None:
    """The style sheet is the same for all and kept once."""
    check(f"{name}.svg", svg_of(PICTURES[name](), style=name == "small"))
