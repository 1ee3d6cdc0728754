"""Long tables in pages: what a reader asked for by the address, and the part that is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import urlencode

from numakube.insight.usage.zone_usage import NO_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROWS = 50
_LONGEST_QUERY = 200
_LONGEST_LABEL = 400
_LONGEST_SHAPE = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a reader wants to see of a table: ``?q=gpu&sort=-pods&page=2``.

    Attributes:
        group: a label that nodes are added up by.
        shape: a pod of which is to be said how many fit.
    """

    text: str = ""
    sort: str = ""
    page: int = 1
    group: str = ""
    shape: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wish:
        """Return what the query of an address asks for; nonsense asks for nothing."""
        page = query.get("page", "")
        sensible = page.isascii() and page.isdecimal() and len(page) < len("1000000")
        return cls(
            text=query.get("q", "").strip()[:_LONGEST_QUERY],
            sort=query.get("sort", "")[:_LONGEST_QUERY],
            page=max(int(page), 1) if sensible else 1,
            group=query.get("group", "").strip()[:_LONGEST_LABEL],
            shape=query.get("shape", "").strip()[:_LONGEST_SHAPE],
        )

    @property
    def address(self) -> str:
        """The query of an address that asks for this."""
        page = str(self.page) if self.page > 1 else ""
        fields = {
            "q": self.text,
            "sort": self.sort,
            "page": page,
            "group": self.group,
            "shape": self.shape,
        }
        return "?" + urlencode({name: value for name, value in fields.items() if value})

    def only(self, label: str, value: str) -> str:
        """Return the address for the nodes with one value of a label."""
        value = "" if value == NO_LABEL else value
        return replace(self, text=f"{label}={value}", group="", page=1).address

    def named(self) -> str:
        """Return the address for the same text in another table."""
        return Wish(text=self.text).address

    def turned(self, page: int) -> str:
        """Return the address of another page."""
        return replace(self, page=page).address

    def sorted_by(self, column: str, *, descending: bool = False) -> str:
        """Return the address for an order; the one that is in force is turned round."""
        first, second = (f"-{column}", column) if descending else (column, f"-{column}")
        return replace(self, sort=second if self.sort == first else first, page=1).address

    def direction(self, column: str) -> str:
        """Return how a column is sorted, in the words of ``aria-sort``."""
        if self.sort == column:
            return "ascending"
        return "descending" if self.sort == f"-{column}" else "none"


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """One page of a table."""

    rows: Sequence[T]
    total: int
    page: int
    pages: int
    wish: Wish

    @property
    def first(self) -> int:
        """The number of the first row, from 1."""
        return (self.page - 1) * ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row."""
        return (self.page - 1) * ROWS + len(self.rows)


def part_of(
    rows: Sequence[T],
    wish: Wish,
    *,
    orders: Mapping[str, Callable[[T], object]],
    default: str = "",
    rows_a_page: int = ROWS,
) -> Part[T]:
    """Return the page of *rows* that is wished for, in the wished order.

    Args:
        rows: all of them, in the order that needs no sorting.
        wish: the wish.
        orders: keys by column; an unknown column is no wish.
        default: the order without a wish.
        rows_a_page: how many there are on a page.
    """
    sort = wish.sort if wish.sort.removeprefix("-") in orders else default
    if sort:
        key: Callable[[T], object] = orders[sort.removeprefix("-")]
        rows = sorted(rows, key=key, reverse=sort.startswith("-"))  # type: ignore[arg-type]
    pages = max(-(-len(rows) // rows_a_page), 1)
    page = min(wish.page, pages)
    start = (page - 1) * rows_a_page
    shown = rows[start : start + rows_a_page]
    return Part(shown, len(rows), page, pages, replace(wish, page=page, sort=sort))
