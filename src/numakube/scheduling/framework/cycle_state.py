"""What plugins remember from one extension point of a cycle to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Clonable(Protocol):
    """State that is changed in place while preemption tries things out."""

    def clone(self) -> Clonable:
        """Return an independent copy."""
        ...


@dataclass(frozen=True)  # Python 3.11 cannot call StateKey[T](...) if it has slots too
class StateKey(Generic[T]):
    """Names one plugin's state and tells its type: ``StateKey[Terms]("InterPodAffinity")``."""

    name: str


class CycleState:
    """The states of all plugins in one cycle of one pod."""

    __slots__ = ("_values", "is_one_of_a_kind", "skipped_filters", "skipped_scores")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skipped_filters: set[str] = set()
        """Plugins whose pre-filter said that they have nothing to do."""
        self.skipped_scores: set[str] = set()
        self.is_one_of_a_kind = False
        """Whether a plugin has found something that other pods with the same spec do not have."""

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep *value* until the end of the cycle."""
        self._values[key.name] = value

    def read(self, key: StateKey[T]) -> T | None:
        """Return what was kept under *key*."""
        return cast("T | None", self._values.get(key.name))

    def clone(self) -> CycleState:
        """Return a copy on which a what-if can be tried; `Clonable` values are copied too."""
        copy = CycleState()
        copy._values = {
            name: value.clone() if isinstance(value, Clonable) else value
            for name, value in self._values.items()
        }
        copy.skipped_filters = set(self.skipped_filters)
        copy.skipped_scores = set(self.skipped_scores)
        copy.is_one_of_a_kind = self.is_one_of_a_kind
        return copy
