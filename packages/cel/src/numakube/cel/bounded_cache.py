"""A cache that forgets what it has had for longest, by weight rather than by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """Values made from texts that others write: as many as together weigh no more than *most*."""

    def __init__(
        self, make: Callable[[str], T], *, weigh: Callable[[str, T], int], most: int
    ) -> None:
        self._make = make
        self._weigh = weigh
        self._most = most
        self._known: dict[str, T] = {}
        self._weight = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, text: str) -> T:
        """Return the value for *text*."""
        try:
            return self._known[text]
        except KeyError:
            return self._made(text)

    def _made(self, text: str) -> T:
        made = self._known[text] = self._make(text)
        self._weight += self._weigh(text, made)
        while self._weight > self._most:
            oldest = next(iter(self._known))
            self._weight -= self._weigh(oldest, self._known.pop(oldest))
        return made
