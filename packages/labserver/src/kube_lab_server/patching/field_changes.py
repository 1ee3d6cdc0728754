"""What changed between two versions of an object, as sets of fields.

Which fields a document sets: what a manager that applies it owns.

Conflicts of server-side apply: fields that others own and that would get another value. A client
that calls itself ``kubectl`` may change fields that others own if the annotation in which kubectl
keeps what it applied proves that it set them itself; the annotation is then kept up to date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import decode, encode

from kube_lab_server.patching.field_sets import (
    SELF,
    FieldSet,
    PathElement,
    difference,
    field_element,
    field_name,
    intersection,
    leaf,
    paths,
    recursive_difference,
    render,
    union,
)
from kube_lab_server.patching.json_patch import PatchError, PatchFailure
from kube_lab_server.patching.typed_values import (
    ABSENT,
    UNTYPED,
    Shape,
    child_type,
    item_element,
    same_value,
    shape_of,
)
from kube_lab_server.schema.types import ListType, MapType, Relation, Scalar, Struct, Untyped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_lab_server.patching.managed_fields import Manager, Shares
    from kube_lab_server.patching.server_side_apply import WriteEndpoint
    from kube_lab_server.schema.types import JsonValue, Type


_CONTAINERS: Final = (dict, list)


@dataclass(slots=True)
class Comparison:
    """The fields that are new, different or gone."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    @property
    def all(self) -> FieldSet:
        """All of them."""
        return union(union(self.added, self.modified), self.removed)

    def without(self, ignored: FieldSet) -> Comparison:
        """Leave out *ignored* and everything below."""
        return Comparison(
            recursive_difference(self.added, ignored),
            recursive_difference(self.modified, ignored),
            recursive_difference(self.removed, ignored),
        )

    def put(self, element: PathElement, below: Comparison) -> None:
        """Take over what was found below *element*."""
        for mine, theirs in (
            (self.added, below.added),
            (self.modified, below.modified),
            (self.removed, below.removed),
        ):
            if theirs:
                mine[element] = theirs


def compare(kind: Type, before: JsonValue, after: JsonValue) -> Comparison:
    """Compare two values of type *kind*; either may be ABSENT."""
    if after is ABSENT:
        return Comparison(removed=_presence(kind, before))
    if before is ABSENT:
        return Comparison(added=_presence(kind, after))
    if before is after or (not isinstance(kind, Untyped) and before == after):
        return Comparison()
    shape, old_shape = shape_of(kind, after), shape_of(kind, before)
    found = Comparison()
    if type(shape) is not type(old_shape):
        _compare_shaped(old_shape, before, after, found)
    _compare_shaped(shape, before, after, found)
    return found


def compare_created(
    root: Struct, empty: dict[str, JsonValue], new: dict[str, JsonValue]
) -> Comparison:
    """Compare a *new* object of a built-in kind with an *empty* one; equal specs only once."""
    found = Comparison()
    for name in {**empty, **new}:
        before, after = empty.get(name, ABSENT), new.get(name, ABSENT)
        kind = child_type(root, name)
        if name == "spec" and before is not ABSENT and after is not ABSENT:
            below = _compare_texts(kind, encode(before), encode(after))
            found.put(field_element(name), below)
        else:
            _compare_members(kind, name, before, after, found)
    return found


@lru_cache(maxsize=1024)
def _compare_texts(kind: Type, before: bytes, after: bytes) -> Comparison:
    return compare(kind, decode(before), decode(after))


def _compare_shaped(shape: Shape, old: JsonValue, new: JsonValue, found: Comparison) -> None:
    if isinstance(shape, Struct | MapType) and _is_divided(shape, old, new):
        _compare_maps(shape, _as_dict(old), _as_dict(new), found)
    elif isinstance(shape, ListType) and _is_divided(shape, old, new):
        _compare_lists(shape, _as_list(old), _as_list(new), found)
    elif not same_value(old, new):
        found.modified[SELF] = {}


def _is_divided(shape: Shape, value: JsonValue, other: JsonValue = None) -> bool:
    """Tell whether what is below has owners of its own: not in atoms, nor if nothing is there."""
    if isinstance(shape, Struct | MapType):
        return not shape.atomic and (_holds(dict, value) or _holds(dict, other))
    if isinstance(shape, ListType):
        return shape.relation is not Relation.ATOMIC and (
            _holds(list, value) or _holds(list, other)
        )
    return False


def _holds(container: type, value: JsonValue) -> bool:
    return isinstance(value, container) and bool(value)


def _presence(kind: Type, value: JsonValue) -> FieldSet:
    """Return *value* as a set: itself and every place below."""
    present = leaf()
    if not isinstance(value, _CONTAINERS):
        return present
    shape = shape_of(kind, value)
    if not _is_divided(shape, value):
        return present
    if isinstance(shape, ListType):
        for element, items in _by_element(shape, _as_list(value)).items():
            present[element] = _presence(shape.element, items[0]) if len(items) == 1 else leaf()
    elif isinstance(shape, Struct | MapType):
        for name, item in _as_dict(value).items():
            inside = isinstance(item, _CONTAINERS)
            below = _presence(child_type(shape, name), item) if inside else leaf()
            present[field_element(name)] = below
    return present


def _compare_maps(
    shape: Struct | MapType,
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
    found: Comparison,
) -> None:
    for name in {**old, **new}:
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if before is not after:
            _compare_members(child_type(shape, name), name, before, after, found)


def _compare_members(
    kind: Type, name: str, before: JsonValue, after: JsonValue, found: Comparison
) -> None:
    """Compare what stands under *name*."""
    element = field_element(name)
    if before is ABSENT:
        found.added[element] = _presence(kind, after)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            found.modified[element] = leaf()
    else:
        found.put(element, compare(kind, before, after))


def _compare_lists(
    kind: ListType, old: list[JsonValue], new: list[JsonValue], found: Comparison
) -> None:
    before, after = _by_element(kind, old), _by_element(kind, new)
    for element in {**before, **after}:
        below = _compare_items(kind.element, before.get(element, []), after.get(element, []))
        found.put(element, below)


def _compare_items(kind: Type, old: list[JsonValue], new: list[JsonValue]) -> Comparison:
    """Compare what stands under one key; usually that is one item at most on each side."""
    if len(old) <= 1 and len(new) <= 1:
        return compare(kind, old[0] if old else ABSENT, new[0] if new else ABSENT)
    if len(old) > 1 and len(new) > 1:
        return Comparison() if same_value(old, new) else Comparison(modified=leaf())
    if len(old) > 1:
        found = compare(kind, ABSENT, new[0]) if new else Comparison()
        found.removed[SELF] = {}
        return found
    found = compare(kind, old[0], ABSENT) if old else Comparison()
    found.added[SELF] = {}
    return found


def _by_element(kind: ListType, items: list[JsonValue]) -> dict[PathElement, list[JsonValue]]:
    found: dict[PathElement, list[JsonValue]] = {}
    for index, item in enumerate(items):
        try:
            found.setdefault(item_element(kind, item), []).append(item)
        except PatchFailure as failure:
            raise PatchFailure(f"element {index}: {failure}") from None
    return found


def _as_dict(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def field_set(kind: Type, value: JsonValue) -> FieldSet:
    """Return the set of every leaf and every list element that *value* mentions."""
    shape = shape_of(kind, value)
    match shape:
        case Scalar() | Struct(atomic=True) | MapType(atomic=True):
            return leaf()
        case ListType(relation=Relation.ATOMIC):
            return leaf()
        case ListType():
            return _of_items(shape, value) if isinstance(value, list) else {}
        case Struct() | MapType():
            return _of_map(shape, value) if isinstance(value, dict) else {}


def _of_items(kind: ListType, items: list[JsonValue]) -> FieldSet:
    found: FieldSet = {}
    for item in items:
        element = item_element(kind, item)
        # What is there twice cannot be told apart below.
        found[element] = leaf() if element in found else {**field_set(kind.element, item), SELF: {}}
    return found


def _of_map(shape: Struct | MapType, value: dict[str, JsonValue]) -> FieldSet:
    found: FieldSet = {}
    for name, item in value.items():
        below = field_set(child_type(shape, name), item)
        if item is None or item == {} or name not in shape.fields:
            below[SELF] = {}
        if below:
            found[field_element(name)] = below
    return found


def with_named_fields(fields: FieldSet, kind: Type) -> FieldSet:
    """Add every field that the type names and that has something below in the set."""
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
            continue
        inner = with_named_fields(below, _type_below(kind, element))
        name = field_name(element)
        if name is not None and isinstance(kind, Struct) and name in kind.fields:
            inner[SELF] = {}
        out[element] = inner
    return out


def _type_below(kind: Type, element: str) -> Type:
    name = field_name(element)
    if name is None:
        return kind.element if isinstance(kind, ListType) else UNTYPED
    return child_type(kind, name) if isinstance(kind, Struct | MapType) else UNTYPED


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field and one of its owners."""

    manager: Manager
    path: str

    @property
    def message(self) -> str:
        """The message of the cause in the answer."""
        return f"conflict with {self.manager}"


class ApplyConflict(PatchError):
    """Others own what was applied: the answer is 409, with a cause for each conflict."""

    def __init__(self, conflicts: tuple[FieldConflict, ...]) -> None:
        super().__init__(_describe(conflicts))
        self.conflicts = conflicts


def require_no_conflict(shares: Shares, changes: Comparison, actor: Manager) -> None:
    """Make sure that nothing changes that managers other than *actor* own.

    Raises:
        ApplyConflict: something does.
    """
    changed = union(changes.modified, changes.added)
    contested = {
        manager: fields
        for manager, share in shares.items()
        if manager != actor and (fields := intersection(share.fields, changed))
    }
    if contested:
        raise ApplyConflict(_conflicts_of(contested))


def _conflicts_of(contested: Mapping[Manager, FieldSet]) -> tuple[FieldConflict, ...]:
    """Return a conflict for each place of each set.

    The server takes the managers in no particular order; here the last name comes first.
    """
    managers = sorted(contested, key=lambda manager: manager.identifier(), reverse=True)
    return tuple(
        FieldConflict(manager, render(path))
        for manager in managers
        for path in paths(contested[manager])
    )


def _describe(conflicts: tuple[FieldConflict, ...]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: {only.message}: {only.path}"
    lines = []
    managers = {conflict.manager for conflict in conflicts}
    for manager in sorted(managers, key=lambda manager: manager.identifier()):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {conflict.path}" for conflict in conflicts if conflict.manager == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_CLIENT: Final = "kubectl"


def allowed_conflicts(
    conflict: ApplyConflict, live: dict[str, Any], *, manager: str, endpoint: WriteEndpoint
) -> bool:
    """Tell whether the annotation allows every conflict."""
    if manager != _CLIENT:
        return False
    try:
        config = json.loads(_annotation(live) or "null")
    except ValueError:
        return False
    if not isinstance(config, dict) or config.get("apiVersion") != endpoint.gvk.api_version:
        return False
    try:
        changes = compare(endpoint.root, config, live)
        owned = field_set(endpoint.root, config)
    except PatchFailure:
        return False
    for changed in (changes.modified, changes.added, changes.removed):
        owned = difference(owned, changed)
    mine = {render(path) for path in paths(owned)}
    return all(item.path in mine for item in conflict.conflicts)


def with_last_applied(obj: dict[str, Any], config: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return *obj* with the annotation renewed, if it has one and the client is kubectl."""
    if manager != _CLIENT or not _annotation(obj):
        return obj
    metadata = obj["metadata"]
    text = json.dumps(_bare(config), separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**metadata["annotations"], ANNOTATION: text}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _annotation(obj: dict[str, Any]) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION) or "")


def _bare(config: dict[str, Any]) -> dict[str, Any]:
    metadata = config.get("metadata") or {}
    if metadata.get("annotations") is None:
        return config
    annotations = {k: v for k, v in metadata["annotations"].items() if k != ANNOTATION}
    return {**config, "metadata": {**metadata, "annotations": annotations}}
