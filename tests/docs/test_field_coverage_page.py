"""The page of what published documents promise has a row for every item, and its proofs exist."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "contribute" / "field-coverage.md"
ITEMS = {"A": 20, "B": 23, "C": 39, "D": 29, "E": 13, "L": 12}
STATES = {"works", "partly", "missing", "refused"}
ROW = re.compile(r"^\| (?P<cells>[A-Z]\d+ \|.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(?P<path>(?:packages/\w+/)?tests/[^`]+)`")
LINK = re.compile(r"\]\((?P<path>[^)#]+)")


class Row(NamedTuple):
    """One item of the page."""

    id: str
    item: str
    state: str
    how: str
    where: str


def rows() -> list[Row]:
    """Return the rows of all tables of the page."""
    page = PAGE.read_text(encoding="utf-8")
    return [Row(*match["cells"].split(" | ")) for match in ROW.finditer(page)]


def test_every_item_has_exactly_one_row_in_order() -> None:
    """Six lists of items, numbered from 1."""
    expected = [f"{letter}{n}" for letter, last in ITEMS.items() for n in range(1, last + 1)]

    assert [row.id for row in rows()] == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_has_a_state_and_what_it_names_exists(row: Row) -> None:
    """Something that works has a page or a test to show it; all else has words that say why."""
    tests = [match["path"] for match in TEST.finditer(row.where)]
    pages = [match["path"] for match in LINK.finditer(row.where)]

    assert row.state in STATES
    assert row.item
    assert row.how
    assert [path for path in tests if not (ROOT / path).exists()] == []
    assert [path for path in pages if not (PAGE.parent / path).exists()] == []
    assert tests or pages or row.state != "works"
