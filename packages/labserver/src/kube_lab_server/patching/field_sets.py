"""Sets of fields: who owns what.

A set is a tree of dicts from path elements to smaller sets, with the key ``.`` where the place
itself belongs to the set. It differs from the ``fieldsV1`` of the API only in that a place without
anything below is written ``{".": {}}`` here and ``{}`` there. Sets are values: no function changes
one, except `insert`, which builds one up.

Steps of a path into an object, as ``managedFields`` writes them. ``f:name`` is a field or a key
of a map, ``k:{"name":"a"}`` an element of a list identified by keys, ``v:"a"`` an element of a
set, ``i:0`` one at an index. Such texts are compared as they stand.

Fields that an endpoint resets whatever the client sends: no manager comes to own them there. A
write to an object leaves its status alone; one to its status leaves the rest alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kube_lab_server.kind_names import GVK
    from kube_lab_server.schema.types import JsonValue


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


FieldSet: TypeAlias = "dict[str, Any]"

SELF: Final = "."
Path: TypeAlias = tuple[PathElement, ...]


def leaf() -> FieldSet:
    """A place that belongs to the set, with nothing below."""
    return {SELF: {}}


def insert(fields: FieldSet, path: Sequence[PathElement]) -> None:
    """Add the place at *path*; the empty path is the whole object, which is never a member."""
    if path:
        for element in path:
            fields = fields.setdefault(element, {})
        fields[SELF] = {}


def of_paths(*paths: Sequence[PathElement]) -> FieldSet:
    """Return the set of the places at *paths*."""
    fields: FieldSet = {}
    for path in paths:
        insert(fields, path)
    return fields


def from_wire(encoded: Mapping[str, Any]) -> FieldSet:
    """Read ``fieldsV1``."""
    return {
        element: {} if element == SELF else _node_from_wire(below)
        for element, below in encoded.items()
    }


def _node_from_wire(encoded: Mapping[str, Any]) -> FieldSet:
    return from_wire(encoded) if encoded else leaf()


def to_wire(fields: FieldSet) -> dict[str, Any]:
    """Write ``fieldsV1``."""
    return {
        element: {} if element == SELF or (len(below) == 1 and SELF in below) else to_wire(below)
        for element, below in fields.items()
    }


def touches(encoded: Mapping[str, Any], fields: FieldSet) -> bool:
    """Tell whether ``fieldsV1`` has a place that is in *fields* too."""
    if not encoded:
        return SELF in fields
    return any(
        element in encoded and (element == SELF or touches(encoded[element], below))
        for element, below in fields.items()
    )


def contains(fields: FieldSet, path: Sequence[PathElement]) -> bool:
    """Tell whether the place at *path* belongs to the set."""
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return SELF in fields


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in either."""
    if not one or not other:
        return one or other
    merged = dict(one)
    for element, below in other.items():
        merged[element] = union(one[element], below) if element in one else below
    return merged


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in both."""
    return _without_empty(
        {
            element: {} if element == SELF else intersection(below, other[element])
            for element, below in one.items()
            if element in other
        }
    )


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in *one* but not in *other*, place by place."""
    if not other:
        return one
    left: FieldSet = {}
    for element, below in one.items():
        if element == SELF:
            if SELF not in other:
                left[SELF] = below
            continue
        rest = difference(below, other[element]) if element in other else below
        if rest:
            left[element] = rest
    return left


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in *one* but not in *other* nor anywhere below a place of *other*."""
    if not one or not other:
        return one
    return _without_empty(
        {
            element: recursive_difference(below, other[element]) if element in other else below
            for element, below in one.items()
            if SELF not in other.get(element, ())
        }
    )


def _without_empty(fields: FieldSet) -> FieldSet:
    return {element: below for element, below in fields.items() if below or element == SELF}


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield every place: those of one level before what is below them, each in order."""
    elements = sorted((e for e in fields if e != SELF), key=order)
    for element in elements:
        if SELF in fields[element]:
            yield (*prefix, element)
    for element in elements:
        yield from paths(fields[element], (*prefix, element))


_NONE: Final[FieldSet] = {}
_STATUS: Final = of_paths(("f:status",))
_SPEC: Final = of_paths(("f:spec",))
_METADATA_AND_SPEC: Final = of_paths(("f:metadata",), ("f:spec",))

_WITH_STATUS: Final = frozenset(
    {
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("", "ResourceQuota"),
        ("", "Service"),
        ("networking.k8s.io", "Ingress"),
        ("policy", "PodDisruptionBudget"),
    }
)

_STATUS_ENDPOINTS: Final[Mapping[tuple[str, str], FieldSet]] = {
    ("apps", "Deployment"): of_paths(("f:spec",), ("f:metadata", "f:labels")),
    ("", "Pod"): of_paths(
        ("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _METADATA_AND_SPEC,
}


def reset_fields(gvk: GVK, subresource: str = "", *, custom_status: bool = False) -> FieldSet:
    """Return what a write to *subresource* of a kind resets.

    Args:
        gvk: the kind.
        subresource: empty for the object itself.
        custom_status: whether the kind is a custom one with a status subresource.
    """
    key = (gvk.group, gvk.kind)
    if key not in _WITH_STATUS and not custom_status:
        return _NONE
    if subresource == "status":
        return _STATUS_ENDPOINTS.get(key, _SPEC)
    return _NONE if subresource == "scale" else _STATUS
