"""What Go's decoder would say about a document that is read into a type.

Two kinds of findings: the first value that does not fit (the request fails), and fields that are
unknown or repeated (errors, warnings or nothing, as the client wishes). Both are worded and ordered
as kube-apiserver 1.35 words and orders them.

Whether a document fits a type with nothing to say about it, which is so of nearly all. Answers as
`kube_lab_server.schema.go_decoding` does, only faster: each struct is turned once into a table of
tests. What does not pass is looked at again there, to word what is wrong.

What Go's converter would say about a document that is turned into a type. A strategic merge patch
is not decoded from text but converted value by value, and that part of the server words its
complaints in a way of its own. It stops at the first value that does not fit, in the order of the
type's fields, and lists unknown fields by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kube_lab_server.kind_names import Problems
from kube_lab_server.schema.canonical import Mismatch, UnreadableText, json_type, read, reader_of
from kube_lab_server.schema.jsontext import RepeatedKeys
from kube_lab_server.schema.types import (
    Field,
    ListType,
    MapType,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kube_lab_server.schema.types import JsonValue


_Test = Callable[[Any], bool]
"""Tells whether a value that is not null fits."""

_CLASSES: Final[dict[ScalarKind, type]] = {ScalarKind.STRING: str, ScalarKind.BOOLEAN: bool}


def fits(kind: Type, value: object) -> bool:
    """Tell whether *value* is a *kind* without unknown or repeated fields; in doubt it is not."""
    return value is None or _test_of(kind)(value)


def _test_of(kind: Type) -> _Test:
    match kind:
        case Struct():
            return _struct_test(kind)
        case ListType():
            return _list_test(_test_of(kind.element))
        case MapType():
            return _map_test(_test_of(kind.element))
        case Scalar():
            return _scalar_test(kind)
        case Untyped():
            return lambda _: True
        case _:
            return lambda _: False


def _struct_test(struct: Struct) -> _Test:
    def test(value: object) -> bool:
        # Not isinstance: an object with repeated keys is a dict of another class.
        if type(value) is not dict:
            return False
        classes, tests = _tests(struct)
        for name, item in value.items():
            if type(item) is classes.get(name):
                continue
            found = tests.get(name)
            if found is None or (item is not None and not found(item)):
                return False
        return True

    return test


class _Tests(NamedTuple):
    """What fits the fields of a struct.

    Attributes:
        classes: by name, of what class any value fits.
        tests: by name, what tells whether a value fits.
    """

    classes: dict[str, type]
    tests: dict[str, _Test]


def _tests(struct: Struct) -> _Tests:
    """Return the tests of the fields; made when first needed, as types may contain themselves."""
    made: _Tests | None = struct.__dict__.get("_tests")
    if made is None:
        fields = struct.fields.values()
        kinds = {f.name: f.type.kind for f in fields if isinstance(f.type, Scalar)}
        made = _Tests(
            {name: _CLASSES[kind] for name, kind in kinds.items() if kind in _CLASSES},
            {field.name: _test_of(field.type) for field in fields},
        )
        struct.__dict__["_tests"] = made
    return made


def _list_test(test: _Test) -> _Test:
    def test_all(value: object) -> bool:
        return type(value) is list and all(item is None or test(item) for item in value)

    return test_all


def _map_test(test: _Test) -> _Test:
    def test_all(value: object) -> bool:
        return type(value) is dict and all(i is None or test(i) for i in value.values())

    return test_all


def _scalar_test(kind: Scalar) -> _Test:
    wanted, read = _CLASSES.get(kind.kind), reader_of(kind)
    if wanted is not None:
        return lambda value: isinstance(value, wanted)

    def test(value: object) -> bool:
        try:
            read(kind, value)
        except (Mismatch, UnreadableText):
            return False
        return True

    return test


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
        except UnreadableText as unreadable:
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


_PLAIN_SCALARS: Final = frozenset(
    {
        ScalarKind.STRING,
        ScalarKind.BOOLEAN,
        ScalarKind.INT32,
        ScalarKind.INT64,
        ScalarKind.FLOAT,
        ScalarKind.NUMBER,
    }
)
_GO_KINDS: Final = {
    ScalarKind.STRING: "string",
    ScalarKind.BOOLEAN: "bool",
    ScalarKind.INT32: "int32",
    ScalarKind.INT64: "int64",
    ScalarKind.FLOAT: "float64",
    ScalarKind.NUMBER: "float64",
}


class _Unfit(Exception):
    """A value that its type cannot take."""


def check_converted(document: Mapping[str, Any], root: Struct, *, strict: bool) -> Problems:
    """Tell what is wrong with *document* as a *root*; unknown fields only if *strict*."""
    try:
        _convert(root, document)
    except _Unfit as unfit:
        return Problems(fatal=str(unfit))
    if not strict:
        return Problems()
    unknown = sorted(f"unknown field {go_quote(path)}" for path in _unknown(root, document, ""))
    return Problems(strict=tuple(unknown))


def _convert(kind: Type, value: JsonValue) -> None:
    if value is None:
        return
    match kind:
        case Struct():
            _convert_struct(kind, value)
        case MapType():
            _require(value, dict, "cannot restore map from ")
            for item in value.values():
                _convert(kind.element, item)
        case ListType():
            _require(value, list, "cannot restore slice from ")
            for item in value:
                _convert(kind.element, item)
        case Scalar():
            _convert_scalar(kind, value)
        case Union() | Untyped():
            return


def _convert_struct(kind: Struct, value: JsonValue) -> None:
    _require(value, dict, "cannot restore struct from: ")
    for name, field in kind.fields.items():
        # Most fields are not there: asking first saves nine calls of ten.
        if (item := value.get(name)) is not None:
            _convert(field.type, item)


def _require(value: JsonValue, wanted: type, complaint: str) -> None:
    if not isinstance(value, wanted):
        raise _Unfit(f"{complaint}{_kind_of(value)}")


def _convert_scalar(kind: Scalar, value: JsonValue) -> None:
    if kind.kind in _PLAIN_SCALARS:
        _convert_plain(kind, value)
        return
    if kind.kind is ScalarKind.BYTES and not isinstance(value, str):
        raise _Unfit(f"cannot restore slice from {_kind_of(value)}")
    try:
        read(kind, value)
    except Mismatch as mismatch:
        wanted = f"Go value of type {mismatch.wanted}"
        raise _Unfit(f"json: cannot unmarshal {mismatch.found} into {wanted}") from None
    except UnreadableText as unreadable:
        prefix = "error decoding from json: " if kind.kind is ScalarKind.BYTES else ""
        raise _Unfit(f"{prefix}{unreadable}") from None


def _convert_plain(kind: Scalar, value: JsonValue) -> None:
    found, wanted = _kind_of(value), _GO_KINDS[kind.kind]
    numeric = wanted in ("int32", "int64", "float64")
    fits = found == wanted or (numeric and found in ("int64", "float64"))
    if numeric and found == "float64" and wanted != "float64" and not float(value).is_integer():
        raise _Unfit(f"cannot convert float64 to {kind.go}")
    if not fits:
        # Go can turn an integer into a string (of one character), and refuses that by another name.
        if wanted == "string" and found == "int64":
            raise _Unfit(f"cannot convert int64 to {kind.go}")
        raise _Unfit(f"unrecognized type: {wanted}")


def _kind_of(value: JsonValue) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "slice"
        case _:
            return "map"


def _unknown(kind: Type, value: JsonValue, path: str) -> Iterator[str]:
    match kind:
        case Struct() if isinstance(value, dict):
            for name, item in value.items():
                step = f"{path}.{name}" if path else name
                if name in kind.fields:
                    yield from _unknown(kind.fields[name].type, item, step)
                else:
                    yield step
        case MapType() if isinstance(value, dict):
            # The converter does not say under which key it is.
            for item in value.values():
                yield from _unknown(kind.element, item, path)
        case ListType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _unknown(kind.element, item, f"{path}[{index}]")
        case _:
            return
