"""Steps of a path into an object, as ``managedFields`` writes them.

``f:name`` is a field or a key of a map, ``k:{"name":"a"}`` an element of a list identified by keys,
``v:"a"`` an element of a set, ``i:0`` one at an index. Such texts are compared as they stand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube_lab.schema.types import JsonValue

PathElement = str


def field_element(name: str) -> PathElement:
    """The step to a field or to a key of a map."""
    return f"f:{name}"


def key_element(keys: Mapping[str, JsonValue]) -> PathElement:
    """The step to the element of a list that *keys* identify."""
    return f"k:{_json({name: keys[name] for name in sorted(keys)})}"


def value_element(value: JsonValue) -> PathElement:
    """The step to an element of a set."""
    return f"v:{_json(value)}"


def field_name(element: PathElement) -> str | None:
    """The name of the field that *element* leads to, or None if it leads into a list."""
    return element[2:] if element.startswith("f:") else None


def render(path: Iterable[PathElement]) -> str:
    """Return *path* as messages show it: ``.spec.containers[name="c"].image``."""
    return "".join(map(render_element, path))


def render_element(element: PathElement) -> str:
    """Return one step as messages show it."""
    kind, rest = element[:2], element[2:]
    match kind:
        case "f:":
            return f".{rest}"
        case "k:":
            keys = json.loads(rest)
            return f"[{','.join(f'{name}={_json(keys[name])}' for name in sorted(keys))}]"
        case "v:":
            return f"[={rest}]"
        case _:
            return f"[{rest}]"


def order(element: PathElement) -> tuple[int, str]:
    """Sort key: fields before elements of lists before values before indices."""
    return "fkvi".index(element[0]), element[2:]


# Made once: `json.dumps` would make one for every call.
_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
