"""A store of objects by key, with indexes, that tells its subscribers of every change.

Handlers are called synchronously, after the store has changed, in the order of subscription: what
they are told, applied to an empty mapping, always gives the content of the store. A handler that
raises is reported and does not keep the others from being called, nor the store from going on.
Objects are frozen, so they are shared, never copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import structlog

from numakube.kube.resource_types import KubeObject, ObjectKey, key_of

T = TypeVar("T", bound=KubeObject)
O_co = TypeVar("O_co", covariant=True)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Added(Generic[O_co]):
    """An object came into the store."""

    object: O_co


@dataclass(frozen=True, slots=True)
class Updated(Generic[O_co]):
    """An object changed."""

    old: O_co
    object: O_co


@dataclass(frozen=True, slots=True)
class Removed(Generic[O_co]):
    """An object left the store.

    Attributes:
        object: its last state that is known.
        unseen: its deletion was not seen, so its last state may be another.
    """

    object: O_co
    unseen: bool = False


Change: TypeAlias = Added[O_co] | Updated[O_co] | Removed[O_co]
Handler: TypeAlias = Callable[[Change[T]], None]
IndexFunction: TypeAlias = Callable[[T], Iterable[str]]
FailureReport: TypeAlias = Callable[[Exception], None]


class Store(Generic[T]):
    """Objects by key.

    Attributes:
        failures: how often a handler or an index function has raised.
    """

    def __init__(
        self,
        *,
        on_failure: FailureReport | None = None,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        """Make an empty store.

        Args:
            on_failure: told when a handler or an index function raises.
            transform: applied to each object before it is kept, to make it smaller; must keep its
                key, uid and version. See `numakube.api.interning`.
        """
        self.failures = 0
        self._transform = transform
        self._objects: dict[ObjectKey, T] = {}
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, _Index[T]] = {}
        self._on_failure = on_failure

    def get(self, key: ObjectKey) -> T | None:
        """Return the object with this key, or None."""
        return self._objects.get(key)

    def keys(self) -> KeysView[ObjectKey]:
        """Return the keys, as a view."""
        return self._objects.keys()

    def values(self) -> ValuesView[T]:
        """Return the objects, as a view; copy it before awaiting."""
        return self._objects.values()

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Keep the objects findable by the values that *function* gives for each."""
        if name in self._indexes:
            raise ValueError(f"the store already has an index {name!r}")
        index = self._indexes[name] = _Index(function, self._report)
        for key, obj in self._objects.items():
            index.put(key, obj)

    def has_index(self, name: str) -> bool:
        """Tell whether objects can be found by an index of that name."""
        return name in self._indexes

    def select(self, index: str, value: str) -> tuple[T, ...]:
        """Return the objects for which the index *index* has *value*, in the order they came."""
        return tuple(self._objects[key] for key in self._indexes[index].keys_of(value))

    def subscribe(self, handler: Handler[T], *, replay: bool = True) -> Callable[[], None]:
        """Call *handler* for every change from now on; return what ends this.

        Args:
            handler: called synchronously; it must not block.
            replay: call it first with an `Added` for each object that is there already.
        """
        if replay:
            for obj in tuple(self._objects.values()):
                self._call(handler, Added(obj))
        self._handlers.append(handler)

        def unsubscribe() -> None:
            if handler in self._handlers:
                self._handlers.remove(handler)

        return unsubscribe

    def put(self, obj: T) -> None:
        """Store *obj* in place of one with the same key.

        One with another uid is not an old state of it: it has gone unseen.
        """
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self.remove(key, unseen=True)
            old = None
        if old is not None and self._is_same_state(old, obj):
            return
        if self._transform is not None:
            obj = self._transform(obj)
        self._objects[key] = obj
        for index in self._indexes.values():
            index.put(key, obj)
        self._notify(Added(obj) if old is None else Updated(old, obj))

    def remove(self, key: ObjectKey, *, last: T | None = None, unseen: bool = False) -> None:
        """Drop the object with this key, if there is one; *last* is its last state, if known."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        for index in self._indexes.values():
            index.remove(key)
        self._notify(Removed(old if last is None else last, unseen))

    def replace(self, objects: Iterable[T]) -> None:
        """Make *objects* the whole content, telling of each difference; removals come first."""
        fresh = {key_of(obj): obj for obj in objects}
        for key in [key for key in self._objects if key not in fresh]:
            self.remove(key, unseen=True)
        for obj in fresh.values():
            self.put(obj)

    def _is_same_state(self, old: T, new: T) -> bool:
        version = new.metadata.resource_version
        return bool(version) and old.metadata.resource_version == version

    def _notify(self, change: Change[T]) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, change)

    def _call(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception as exc:
            self._report(exc)

    def _report(self, exc: Exception) -> None:
        self.failures += 1
        _log.error("store_handler_failed", error=repr(exc), exc_info=exc)
        if self._on_failure is not None:
            self._on_failure(exc)


class _Index(Generic[T]):
    """Keys by the values that a function gives for their objects."""

    def __init__(self, function: IndexFunction[T], report: FailureReport) -> None:
        self._function = function
        self._report = report
        self._keys: dict[str, dict[ObjectKey, None]] = {}
        self._values: dict[ObjectKey, tuple[str, ...]] = {}

    def keys_of(self, value: str) -> Iterable[ObjectKey]:
        return self._keys.get(value, ())

    def put(self, key: ObjectKey, obj: T) -> None:
        try:
            values = tuple(self._function(obj))
        except Exception as exc:
            self._report(exc)
            values = ()
        if values == self._values.get(key, ()):
            return
        self.remove(key)
        if values:
            self._values[key] = values
        for value in values:
            self._keys.setdefault(value, {})[key] = None

    def remove(self, key: ObjectKey) -> None:
        for value in self._values.pop(key, ()):
            keys = self._keys[value]
            keys.pop(key, None)
            if not keys:
                del self._keys[value]
