"""Objects by key that are also asked for by group, such as the services of a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_NONE: Final[Mapping[str, object]] = MappingProxyType({})


class Grouped(MutableMapping[str, T], Generic[T]):
    """A mapping that knows which of its objects belong to which group."""

    def __init__(self, group_of: Callable[[T], str]) -> None:
        self._group_of = group_of
        self._objects: dict[str, T] = {}
        self._groups: dict[str, dict[str, T]] = {}

    def group(self, name: str) -> Mapping[str, T]:
        """Return the objects of one group by key."""
        return self._groups.get(name) or _NONE  # type: ignore[return-value]

    def __getitem__(self, key: str) -> T:
        return self._objects[key]

    def __setitem__(self, key: str, value: T) -> None:
        if key in self._objects:
            del self[key]
        self._objects[key] = value
        self._groups.setdefault(self._group_of(value), {})[key] = value

    def __delitem__(self, key: str) -> None:
        name = self._group_of(self._objects.pop(key))
        del self._groups[name][key]
        if not self._groups[name]:
            del self._groups[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
