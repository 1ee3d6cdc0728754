"""Whether a document fits a type with nothing to say about it, which is so of nearly all.

Answers as `numakube_lab.schema.go_decoding` does, only faster: each struct is turned once into a
table of tests. What does not pass is looked at again there, to word what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
        tests = _tests(struct)
        for name, item in value.items():
            found = tests.get(name)
            if found is None or (item is not None and not found(item)):
                return False
        return True

    return test


def _tests(struct: Struct) -> dict[str, _Test]:
    """Return the tests of the fields; made when first needed, as types may contain themselves."""
    made: dict[str, _Test] | None = struct.__dict__.get("_tests")
    if made is None:
        made = {field.name: _test_of(field.type) for field in struct.fields.values()}
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
