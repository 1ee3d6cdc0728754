"""Whether a configuration fits its type: what server-side apply refuses before it looks further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.gotext import go_quote, go_text
from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.patching.path_elements import field_element, render_element
from numakube_lab.patching.typed_values import child_type, item_element, shape_of, wanted_json
from numakube_lab.schema.types import ListType, MapType, Relation, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.schema.types import JsonValue, Type


def require_valid(kind: Type, value: JsonValue) -> None:
    """Raise `PatchFailure` with every reason why *value* is no *kind*."""
    problems = list(_problems(kind, value, ""))
    if len(problems) == 1:
        raise PatchFailure(problems[0])
    if problems:
        raise PatchFailure("\n".join(["errors:", *(f"  {text}" for text in problems)]))


def _problems(kind: Type, value: JsonValue, path: str) -> Iterator[str]:
    if value is None:
        return
    shape = shape_of(kind, value)
    match shape:
        case Scalar():
            yield from _scalar_problems(shape, value, path)
        case ListType():
            if isinstance(value, list):
                yield from _list_problems(shape, value, path)
            else:
                yield _at(path, f"expected list, got {_shown(value)}")
        case Struct() | MapType():
            if isinstance(value, dict):
                yield from _map_problems(shape, value, path)
            else:
                yield _at(path, f"expected map, got {_shown(value)}")


def _map_problems(shape: Struct | MapType, value: dict[str, JsonValue], path: str) -> Iterator[str]:
    for name, item in value.items():
        step = path + render_element(field_element(name))
        if name not in shape.fields and shape.unknown is None:
            yield _at(step, "field not declared in schema")
            return
        yield from _problems(child_type(shape, name), item, step)


def _list_problems(shape: ListType, items: list[JsonValue], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        step = f"i:{index}"
        if shape.relation is not Relation.ATOMIC:
            try:
                step = item_element(shape, item)
            except PatchFailure as failure:
                yield _at(path, f"element {index}: {failure}")
                return
            if step in seen:
                yield _at(path, f"duplicate entries for key {render_element(step)}")
            seen.add(step)
        yield from _problems(shape.element, item, path + render_element(step))


def _scalar_problems(shape: Scalar, value: JsonValue, path: str) -> Iterator[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match wanted_json(shape):
        case "numeric" if not is_number:
            yield _at(path, f"expected numeric (int or float), got {_go_type(value)}")
        case "string" if not isinstance(value, str):
            yield _at(path, f"expected string, got {_dumped(value)}")
        case "boolean" if not isinstance(value, bool):
            yield _at(path, f"expected boolean, got {_shown(value)}")
        case _ if isinstance(value, dict | list):
            yield _at(path, f"expected any scalar, got {_shown(value)}")
        case _:
            pass


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _shown(value: JsonValue) -> str:
    return f"&{{{go_text(value)}}}"


def _dumped(value: JsonValue) -> str:
    text = go_quote(value) if isinstance(value, str) else go_text(value)
    return f"&value.valueUnstructured{{Value:{text}}}"


def _go_type(value: JsonValue) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"
