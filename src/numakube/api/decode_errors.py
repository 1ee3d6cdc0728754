"""What is wrong with a document, told as Kubernetes would: object, path of the field, reason.

msgspec says ``Expected `str`, got `int` - at `$.metadata.labels[...]```; this module turns it into
``metadata.labels[app]: expected a string, got an integer``. It leaves out the keys of maps, so they
are found by trying each one alone, which is affordable because it only happens on an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Sequence

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
