"""Between bytes and wire types, with errors that name the object and the field.

JSON is decoded straight into the type. Only if that fails is the document read a second time, as a
plain tree, to do what Go does with ``null`` (the field keeps its default) and, failing again, to
say what is wrong where: ``Pod default/web: spec.containers[0].name: expected a string, got an
integer``. So well-formed objects pay for nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from numakube.api.decode_errors import malformed
from numakube.errors import MalformedObject
from numakube.values.limits import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")

BROKEN_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON of the asked type, or nest too deeply."""


def decode(kind: type[T], data: bytes | str, subject: str | None = None) -> T:
    """Return the JSON document *data* as a *kind*; *subject* names it in errors."""
    try:
        decoded: T = _decoder(cast("Hashable", kind)).decode(data)
    except msgspec.ValidationError:
        return convert(kind, _tree_of(data, subject or kind.__name__), subject)
    except BROKEN_JSON as error:
        raise _not_json(subject or kind.__name__, error) from None
    return decoded


def decode_tree(data: bytes | str, subject: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON document *data* as plain dicts and lists, for what has no type."""
    tree = _tree_of(data, subject)
    if deeper_than(tree, MAX_DEPTH):
        raise _too_deep(subject)
    return tree


def _tree_of(data: bytes | str, subject: str) -> object:
    """Return *data* as plain dicts and lists; it may still turn out to be no JSON further on."""
    try:
        tree: object = msgspec.json.decode(data)
    except BROKEN_JSON as error:
        raise _not_json(subject, error) from None
    return tree


def _not_json(subject: str, error: Exception) -> MalformedObject:
    if isinstance(error, RecursionError):
        return _too_deep(subject)
    return MalformedObject(subject, f"not JSON: {error}")


def _too_deep(subject: str) -> MalformedObject:
    return MalformedObject(subject, f"lists and maps are nested deeper than {MAX_DEPTH}")


def convert(kind: type[T], tree: object, subject: str | None = None) -> T:
    """Return a tree of plain dicts and lists as a *kind*; *subject* names it in errors."""
    if deeper_than(tree, MAX_DEPTH):
        raise _too_deep(subject or kind.__name__)
    tree = _without_nulls(tree)
    try:
        return msgspec.convert(tree, kind, str_keys=True)
    except msgspec.ValidationError:
        raise malformed(kind, tree, subject) from None


def deeper_than(tree: object, depth: int) -> bool:
    """Tell whether lists and maps are nested in *tree* more than *depth* times."""
    level = [tree]
    for _ in range(depth + 1):
        parts = [one for one in level if isinstance(one, dict | list) and one]
        if not parts:
            return False
        level = [
            child for one in parts for child in (one.values() if isinstance(one, dict) else one)
        ]
    return True


def encode(value: object) -> bytes:
    """Return *value* as compact JSON."""
    return msgspec.json.encode(value)


def to_tree(value: object) -> Any:  # noqa: ANN401 - a JSON document can be anything
    """Return *value* as plain dicts with string keys, lists and scalars."""
    return msgspec.json.decode(msgspec.json.encode(value))


@lru_cache(maxsize=128)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - any wire type
    return msgspec.json.Decoder(kind)


def _without_nulls(tree: object) -> object:
    """Return *tree* without the entries of objects that are null."""
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [_without_nulls(item) for item in tree]
    return tree
