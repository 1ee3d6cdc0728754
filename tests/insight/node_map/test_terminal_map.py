"""Maps as text: within their width, and safe whatever a cluster's names are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.insight.node_map import nodes

from numakube.insight.node_map.terminal_map import text_of

PICTURES = [nodes.small, nodes.large, nodes.expanded, nodes.with_holes, nodes.partly_offline]


@pytest.mark.parametrize("make", PICTURES)
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_zones_fit_the_terminal(make: object, width: int) -> None:
    """Whatever its width."""
    assert callable(make)
    framed = [line for line in text_of(make(), width=width).splitlines() if line[:1] in "╭│╰"]
    assert framed
    assert all(len(line) <= width for line in framed if line)


def test_ascii_is_ascii() -> None:
    """In all of it."""
    for make in PICTURES:
        assert text_of(make(), ascii_only=True).isascii()


def test_no_name_commands_the_terminal() -> None:
    """A bundle may come from strangers."""
    evil = "\x1b]0;gotcha\x07\u202e"
    picture = replace(nodes.small(), node=evil, notes=(evil,))
    marked = tuple(replace(pod, name=pod.name + evil) for pod in picture.pods)
    text = text_of(replace(picture, pods=marked))
    assert all(line.isprintable() for line in text.splitlines())
