"""Whether a document fits a type with nothing to say about it, which is so of nearly all.

Answers as `numakube_lab.schema.go_decoding` does, only faster: each struct is turned once into a
table of tests. What does not pass is looked at again there, to word what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from numakube_lab.schema.scalars import Mismatch, Unreadable, reader_of
from numakube_lab.schema.types import (
    ListType,
    MapType,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Untyped,
)

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
        except (Mismatch, Unreadable):
            return False
        return True

    return test
