"""The base of every wire type, and the way between bytes and these types.

Structs are frozen and not tracked by the cyclic collector: an API object is a tree. Unknown fields
are ignored on reading and defaults are left out on writing. Names are camelCased, which is wrong
for acronyms (``hostIP``): such fields name themselves with ``msgspec.field(name=...)``.

JSON is decoded straight into the type. Only if that fails is the document read a second time, as a
plain tree, to do what Go does with ``null`` (the field keeps its default) and, if it fails again,
to say what is wrong and where. So well-formed objects cost nothing extra.

msgspec says ``Expected `str`, got `int` - at `$.metadata.labels[...]```; `MalformedObject` says
``Pod default/web: metadata.labels[app]: expected a string, got an integer``. msgspec leaves out the
keys of maps, so each key is tried alone. That is affordable because it only happens on an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec

from numakube.errors import MalformedObject
from numakube.values.safe_text import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

T = TypeVar("T")

QuantityText: TypeAlias = str | int | float
"""A quantity as it stands in JSON or YAML; numbers appear in hand-written YAML and in CRDs."""

ResourceList: TypeAlias = Mapping[str, QuantityText]
"""Resource name to quantity, as in ``requests`` and ``limits``."""

Timestamp: TypeAlias = str
"""A time in RFC 3339, kept as it came: `numakube.values.times` reads and writes it."""

DurationText: TypeAlias = str
"""A duration in Go's notation (``1m30s``): `numakube.values.times` reads and writes it."""

BROKEN_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON of the asked type, or nest too deeply."""
_MESSAGE: Final = re.compile(
    r"(?P<detail>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL
)
_STEP: Final = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>.*)`")
_MISMATCH: Final = re.compile(r"Expected `(?P<expected>.*)`, got `(?P<got>.*)`")
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all wire types."""


def always(text: str) -> str:
    """Declare a field that has the default *text* and is written nevertheless.

    For ``kind`` and ``apiVersion``, which the items of a list leave out and requests must have.
    """
    # msgspec leaves out a plain default, but never what a factory made.
    field: str = msgspec.field(default_factory=partial(str, text))
    return field


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
            child for part in parts for child in (part.values() if isinstance(part, dict) else part)
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


@dataclass(frozen=True, slots=True)
class _Step:
    """One step from a document to a part of it, and how it is written."""

    key: str | int
    text: str


def malformed(kind: type[object], tree: object, subject: str | None) -> MalformedObject:
    """Return the error that tells why *tree* is not a *kind*."""
    message = _complaint(kind, tree)
    match = _MESSAGE.fullmatch(message)
    detail, place = (match["detail"], match["path"] or "") if match else (message, "")
    path = "".join(step.text for step in _locate(kind, tree, message, place)).removeprefix(".")
    if match and match["key"]:
        detail = f"a key of the map: {_explain(detail)}"
    elif missing := _MISSING.fullmatch(detail):
        path, detail = f"{path}.{missing['field']}".removeprefix("."), "is required"
    return MalformedObject(subject or _name_of(kind, tree), _explain(detail), path=path)


def _complaint(kind: type[object], tree: object) -> str:
    try:
        msgspec.convert(tree, kind, str_keys=True)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _explain(detail: str) -> str:
    match = _MISMATCH.fullmatch(detail)
    if match is None:
        return detail
    return f"expected {_words(match['expected'])}, got {_words(match['got'])}"


def _words(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null" or types == "null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


def _name_of(kind: type[object], tree: object) -> str:
    """Return what to call the object: ``Pod default/web``, or ``Pod`` if it has no name."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return kind.__name__
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind.__name__} {place}{metadata['name']}"


def _locate(kind: type[object], tree: object, message: str, place: str) -> list[_Step]:
    """Return the steps of *place* from the root of *tree*, with the keys of maps filled in."""
    steps: list[_Step] = []
    for match in _STEP.finditer(place):
        if match["field"]:
            steps.append(_Step(match["field"], f".{match['field']}"))
        elif match["index"]:
            steps.append(_Step(int(match["index"]), f"[{match['index']}]"))
        else:
            steps.append(_guilty_entry(kind, tree, message, steps))
    return steps


def _guilty_entry(kind: type[object], tree: object, message: str, steps: Sequence[_Step]) -> _Step:
    """Return the step to the entry of a map that *message* is about."""
    entries = _at(tree, steps)
    for key in entries if isinstance(entries, dict) else ():
        step = _Step(key, f"[{key}]")
        if _complaint(kind, _with_single_entry(tree, [*steps, step])) == message:
            return step
    return _Step("...", "[...]")


def _at(tree: Any, steps: Sequence[_Step]) -> object:  # noqa: ANN401 - any JSON
    for step in steps:
        try:
            tree = tree[step.key]
        except (KeyError, IndexError, TypeError):
            return None
    return tree


def _with_single_entry(tree: Any, steps: Sequence[_Step]) -> object:  # noqa: ANN401 - any JSON
    """Return *tree* with the map that the last step enters reduced to that entry."""
    first, *rest = steps
    if not rest:
        return {first.key: tree[first.key]}
    copy = tree.copy()
    copy[first.key] = _with_single_entry(tree[first.key], rest)
    return copy
