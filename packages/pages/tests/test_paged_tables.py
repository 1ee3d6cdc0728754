"""Long tables: what the address asks for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numakube_pages.pages import ROWS, TableWish, part_of


def test_a_wish_survives_its_own_address() -> None:
    """Whatever characters it has."""
    wish = TableWish(text="a&b=c", sort="-cpu", page=3)
    assert wish.address == "?q=a%26b%3Dc&sort=-cpu&page=3"


@given(st.dictionaries(st.sampled_from(("q", "sort", "page")), st.text()))
def test_nonsense_asks_for_a_page_that_exists(query: dict[str, str]) -> None:
    """Addresses are typed by people and robots."""
    part = part_of(list(range(120)), TableWish.of(query), orders={"value": lambda value: value})
    assert part.rows
    assert 1 <= part.page <= part.pages == 3


def test_every_row_is_on_exactly_one_page() -> None:
    """The last page is shorter."""
    rows = list(range(2 * ROWS + 7))
    pages = [part_of(rows, TableWish(page=page), orders={}).rows for page in (1, 2, 3)]
    assert [row for page in pages for row in page] == rows


def test_choosing_the_order_in_force_turns_it_round() -> None:
    """And begins at the first page."""
    assert TableWish(sort="name").sorted_by("name") == "?sort=-name"
    assert TableWish(sort="-name").sorted_by("name") == "?sort=name"
    assert TableWish().sorted_by("cpu", descending=True) == "?sort=-cpu"
    assert TableWish(sort="-cpu", page=4).sorted_by("cpu", descending=True) == "?sort=cpu"


def test_a_column_says_how_it_is_sorted() -> None:
    """In the words of ``aria-sort``."""
    wish = TableWish(sort="-cpu")
    assert (wish.direction("cpu"), wish.direction("name")) == ("descending", "none")


def test_unknown_columns_leave_the_order_alone() -> None:
    """Known ones sort both ways."""
    part = part_of([3, 1, 2], TableWish(sort="nonsense"), orders={"value": lambda value: value})
    assert part.rows == [3, 1, 2]
    assert part_of([3, 1, 2], TableWish(sort="-value"), orders={"value": int}).rows == [3, 2, 1]


def test_an_empty_table_has_one_empty_page() -> None:
    """Whatever page was asked for."""
    nothing: list[int] = []
    part = part_of(nothing, TableWish(page=9), orders={})
    assert (part.first, part.last, part.total, part.pages) == (0, 0, 0, 1)
