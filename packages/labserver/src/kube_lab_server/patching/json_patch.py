"""JSON patch (RFC 6902) with the habits of the library that kube-apiserver uses.

Where it departs from the standard, so do we: ``replace`` creates a missing key of an object,
``test`` takes null for a missing key, ``copy`` of a missing key copies null, negative indices count
from the end of an array, and whatever stands before the first slash of a path is ignored.

JSON merge patch (RFC 7386) as kube-apiserver applies it. It departs from the standard in one
point: nulls are also dropped from objects inside an array that the patch adds or puts in the
place of something that is no object.

What can be wrong with a patch; the API server turns each into its status.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.kind_names import Problems
from kube_lab_server.schema.canonical import json_type
from kube_lab_server.schema.go_decoding import check
from kube_lab_server.schema.types import Field, ListType, Scalar, ScalarKind, Struct, Untyped
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube_lab_server.schema.types import JsonValue


class PatchError(NumakubeError):
    """A patch cannot be applied. The message is the one kube-apiserver gives."""


class MalformedPatch(PatchError):
    """The patch itself is malformed: the answer is 400."""


class InapplicablePatch(PatchError):
    """The patch does not fit the document: the answer is 422."""


class PatchFailure(PatchError):
    """kube-apiserver has no better answer than 500 for this patch, so neither has the lab."""


class TooManyOperations(PatchError):
    """A JSON patch with more operations than the server takes: 413."""


MAX_OPERATIONS: Final = 10_000
_INDEX: Final = re.compile(r"[+-]?[0-9]+")
_MISSING: Final = object()

_TEXT: Final = Scalar(ScalarKind.STRING, "string")
_OPERATION: Final = Struct(
    "jsonPatchOp",
    "handlers.jsonPatchOp",
    fields={
        "op": Field("op", _TEXT),
        "path": Field("path", _TEXT),
        "from": Field("from", _TEXT),
        "value": Field("value", Untyped("interface {}")),
    },
)
_OPERATIONS: Final = ListType(_OPERATION, "[]handlers.jsonPatchOp")


def json_patch(document: JsonValue, operations: JsonValue) -> JsonValue:
    """Return *document* with *operations* applied one after the other, all or nothing."""
    _check_shape(operations)
    root = _Root(copy.deepcopy(document))
    for operation in operations or ():
        act = _ACTIONS.get(_text(operation, "op") or "")
        if act is None:
            raise InapplicablePatch(f"Unexpected kind: {_text(operation, 'op') or 'unknown'}")
        act(root, operation)
    return root.value


def check_operations(operations: JsonValue) -> Problems:
    """Tell what is wrong with a patch before anything of it is applied.

    The server reads it twice: here strictly into a type of its own, then as the library wants it.
    """
    found = check(operations, _OPERATIONS, strict=True)
    return Problems(found.fatal, tuple(f"json patch {text}" for text in found.strict))


def _check_shape(operations: object) -> None:
    if operations is None:
        return
    if not isinstance(operations, list):
        raise MalformedPatch(_cannot_decode(operations, "jsonpatch.Patch"))
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise MalformedPatch(_cannot_decode(operation, "jsonpatch.Operation"))
    if len(operations) > MAX_OPERATIONS:
        raise TooManyOperations(
            "The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )


def _cannot_decode(value: object, wanted: str) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {wanted}"


def _text(operation: Mapping[str, Any] | None, member: str) -> str | None:
    value = (operation or {}).get(member)
    return value if isinstance(value, str) else None


class _Root:
    """The document under change; wrapped so that an operation can replace it as a whole."""

    def __init__(self, value: JsonValue) -> None:
        self.value = value

    def place(self, path: str) -> tuple[Any, str]:
        """Return the container of *path* and the key in it; raise if there is no container."""
        before, slash, rest = path.partition("/")
        if not slash:
            raise InapplicablePatch(f"doc is missing path: {before!r}")
        *parents, key = rest.split("/")
        here = self.value
        for part in parents:
            here = _get(here, _unescape(part))
            if not isinstance(here, dict | list):
                raise InapplicablePatch(f"doc is missing path: {path!r}")
        return here, _unescape(key)


def _path(operation: Mapping[str, Any], member: str = "path") -> str:
    path = _text(operation, member)
    if path is None:
        raise InapplicablePatch(f"operation missing {member} field")
    return path


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _add(root: _Root, operation: Mapping[str, Any]) -> None:
    _insert(*root.place(_path(operation)), copy.deepcopy(operation.get("value")))


def _remove(root: _Root, operation: Mapping[str, Any]) -> None:
    _delete(*root.place(_path(operation)))


def _replace(root: _Root, operation: Mapping[str, Any]) -> None:
    path, value = _path(operation), copy.deepcopy(operation.get("value"))
    if not path:
        if not isinstance(value, dict | list):
            raise InapplicablePatch("replace operation value must be object or array")
        root.value = value
        return
    container, key = root.place(path)
    if isinstance(container, list):
        container[_index(key, len(container))] = value
    else:
        container[key] = value


def _move(root: _Root, operation: Mapping[str, Any]) -> None:
    container, key = root.place(_path(operation, "from"))
    value = _get(container, key)
    _delete(container, key)
    _insert(*root.place(_path(operation)), value)


def _copy(root: _Root, operation: Mapping[str, Any]) -> None:
    value = copy.deepcopy(_get(*root.place(_path(operation, "from"))))
    _insert(*root.place(_path(operation)), value)


def _test(root: _Root, operation: Mapping[str, Any]) -> None:
    path = _path(operation)
    found = _get(*root.place(path)) if path else root.value
    if not same_json(found, operation.get("value")):
        raise InapplicablePatch(f"testing value {path} failed")


_ACTIONS: Final[Mapping[str, Callable[[_Root, Mapping[str, Any]], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def same_json(one: object, other: object) -> bool:
    """Tell whether two values are the same JSON; unlike in Python, true is not 1 and 1 not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return float(one) == float(other)
    return type(one) is type(other) and one == other


def _get(container: JsonValue, key: str) -> JsonValue:
    if isinstance(container, list):
        return container[_index(key, len(container))]
    return container.get(key)


def _insert(container: JsonValue, key: str, value: JsonValue) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _delete(container: JsonValue, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif container.pop(key, _MISSING) is _MISSING:
        raise InapplicablePatch(f"Unable to remove nonexistent key: {key}")


def _index(text: str, size: int) -> int:
    """Return the position that *text* means in an array of *size* elements."""
    if not _INDEX.fullmatch(text):
        raise InapplicablePatch(f"value was not a proper array index: {text!r}")
    index = int(text)
    if not -size <= index < size:
        raise InapplicablePatch(f"Unable to access invalid index: {index}")
    return index + size if index < 0 else index


def merge_patch(document: dict[str, Any], patch: JsonValue) -> dict[str, Any]:
    """Return *document* with *patch* merged in: null removes, objects merge, the rest replaces."""
    if patch is None:
        raise MalformedPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        wanted = "map[string]interface {}"
        raise MalformedPatch(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} "
            f"into Go value of type {wanted}"
        )
    return _merge_objects(document, patch)


def _merge_objects(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


def _merge(current: JsonValue, patch: JsonValue) -> JsonValue:
    if not isinstance(current, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    return _merge_objects(current, patch)


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
