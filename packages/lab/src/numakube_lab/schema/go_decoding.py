"""What Go's decoder would say about a document that is read into a type.

Two kinds of findings: the first value that does not fit (the request fails), and fields that are
unknown or repeated (errors, warnings or nothing, as the client wishes). Both are worded and ordered
as kube-apiserver 1.35 words and orders them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.values.gotext import go_quote
from numakube_lab.kinds import Problems
from numakube_lab.schema.fitting import fits
from numakube_lab.schema.jsontext import RepeatedKeys
from numakube_lab.schema.scalars import Mismatch, Unreadable, json_type, read
from numakube_lab.schema.types import (
    Field,
    ListType,
    MapType,
    Scalar,
    Struct,
    Type,
    Union,
    Untyped,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube_lab.schema.types import JsonValue

# Go keeps no more unknown and duplicate fields than this.
_MAX_STRICT: Final = 100


def check(document: JsonValue, root: Type, *, strict: bool) -> Problems:
    """Tell what is wrong with *document* as a *root*; unknown fields only if *strict*."""
    return Problems() if fits(root, document) else explain(document, root, strict=strict)


def explain(document: JsonValue, root: Type, *, strict: bool) -> Problems:
    """Tell the same as `check`, by looking at everything."""
    decoder = _Decoder(strict=strict)
    try:
        decoder.value(root, document)
    except _Stopped as stopped:
        return Problems(fatal=str(stopped))
    if decoder.mismatch:
        return Problems(fatal=decoder.mismatch)
    return Problems(strict=tuple(decoder.strict))


class _Stopped(Exception):
    """A type refused its value: nothing after it is looked at."""


class _Decoder:
    """Walks a document along its type; remembers where it is in Go's terms and in the client's."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._struct = ""
        self._fields: list[str] = []
        self._path = ""
        self.mismatch = ""
        # A dict keeps order and drops repetitions.
        self.strict: dict[str, None] = {}

    def value(self, kind: Type, value: object) -> None:
        """Check *value* and everything in it."""
        if value is None:
            return
        match kind:
            case Struct() if isinstance(value, dict):
                self._object(kind, value)
            case ListType() if isinstance(value, list):
                self._list(kind, value)
            case MapType() if isinstance(value, dict):
                self._map(kind, value)
            case Scalar():
                self._scalar(kind, value)
            case Union():
                self._union(kind, value)
            case Untyped():
                pass
            case _:
                self._save(Mismatch(json_type(value), kind.go))

    def _object(self, struct: Struct, value: dict[str, Any]) -> None:
        seen: set[str] = set()
        repeats = isinstance(value, RepeatedKeys)
        for name, item in _pairs(value):
            field = struct.fields.get(name)
            if field is None:
                self._unknown(struct, name, item)
                continue
            if repeats:
                self._note_repetition(name, seen)
            self._field(struct, field, item)

    def _field(self, struct: Struct, field: Field, item: object) -> None:
        outer = (self._struct, self._path)
        depth = len(self._fields)
        if field.embedded:
            self._fields.append(field.embedded)
        self._fields.append(field.name)
        self._struct = struct.name
        self._path = self._child(field.name)
        self.value(field.type, item)
        self._struct, self._path = outer
        del self._fields[depth:]

    def _unknown(self, struct: Struct, name: str, item: object) -> None:
        if struct.unknown is None:
            self._report(f"unknown field {go_quote(self._child(name))}")
        else:
            self._inside(self._child(name), struct.unknown, item)

    def _map(self, kind: MapType, value: dict[str, Any]) -> None:
        seen: set[str] = set()
        for key, item in _pairs(value):
            self._note_repetition(key, seen)
            self._inside(self._child(key), kind.element, item)

    def _list(self, kind: ListType, value: list[Any]) -> None:
        for index, item in enumerate(value):
            self._inside(f"{self._path}[{index}]", kind.element, item)

    def _inside(self, path: str, kind: Type, item: object) -> None:
        outer, self._path = self._path, path
        self.value(kind, item)
        self._path = outer

    def _union(self, kind: Union, value: object) -> None:
        # Such types decode their content by themselves, hence never strictly.
        outer, self._strict = self._strict, False
        fits = (
            isinstance(value, bool) if isinstance(kind.other, Scalar) else isinstance(value, list)
        )
        if isinstance(value, dict):
            self.value(kind.struct, value)
        elif fits:
            self.value(kind.other, value)
        self._strict = outer

    def _scalar(self, kind: Scalar, value: object) -> None:
        try:
            read(kind, value)
        except Mismatch as mismatch:
            self._save(mismatch)
        except Unreadable as unreadable:
            raise _Stopped(str(unreadable)) from unreadable

    def _save(self, mismatch: Mismatch) -> None:
        place = f"Go value of type {mismatch.wanted}"
        if self._struct or self._fields:
            place = (
                f"Go struct field {self._struct}.{'.'.join(self._fields)} of type {mismatch.wanted}"
            )
        text = f"json: cannot unmarshal {mismatch.found} into {place}"
        if mismatch.final:
            raise _Stopped(text)
        self.mismatch = self.mismatch or text

    def _note_repetition(self, name: str, seen: set[str]) -> None:
        if name in seen:
            self._report(f"duplicate field {go_quote(self._child(name))}")
        seen.add(name)

    def _report(self, text: str) -> None:
        if self._strict and len(self.strict) < _MAX_STRICT:
            self.strict[text] = None

    def _child(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def repetitions(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield ``duplicate field "x"`` for every key that an untyped document repeats, in order."""
    return _repetitions(document, "")


def _repetitions(value: object, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repetitions(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        seen: set[str] = set()
        for name, item in _pairs(value):
            step = f"{path}.{name}" if path else name
            if name in seen:
                yield f"duplicate field {go_quote(step)}"
            seen.add(name)
            yield from _repetitions(item, step)


def _pairs(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.pairs if isinstance(value, RepeatedKeys) else value.items()
