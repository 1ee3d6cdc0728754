"""Whether a schema says consistent things about how lists and maps merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

_LIST_TYPE: Final = "x-kubernetes-list-type"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_MAP_KEYS: Final = "x-kubernetes-list-map-keys"


def check_list_types(schema: Schema, path: str) -> Iterator[FieldError]:
    """Check what *schema* itself says; not what is below."""
    yield from _check_map_type(schema, path)
    yield from _check_list_type(schema, path)
    yield from _check_keys(schema, path)
    yield from _check_items(schema, path)


def _wrong_type(schema: Schema, path: str, wanted: str, member: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    detail = f"must be {wanted} if {member} is specified"
    if not kind:
        yield required(f"{path}.type", detail)
    elif kind != wanted:
        yield invalid(f"{path}.type", kind, detail)


def _check_map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    map_type = schema.get(_MAP_TYPE)
    if map_type is None:
        return
    yield from _wrong_type(schema, path, "object", _MAP_TYPE)
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.{_MAP_TYPE}", map_type, ("atomic", "granular"))


def _check_list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type = schema.get(_LIST_TYPE)
    if list_type is None:
        return
    yield from _wrong_type(schema, path, "array", _LIST_TYPE)
    items = schema.get("items")
    if schema.get("type") == "array" and list_type == "set" and isinstance(items, dict):
        yield from _check_set_items(items, f"{path}.items")
    if list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{_LIST_TYPE}", list_type, ("atomic", "set", "map"))


def _check_set_items(items: Schema, path: str) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{path}.{_LIST_TYPE}", items.get(_LIST_TYPE), detail)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{_MAP_TYPE}", items.get(_LIST_TYPE), detail)


def _check_keys(schema: Schema, path: str) -> Iterator[FieldError]:
    keys, list_type = schema.get(_MAP_KEYS) or [], schema.get(_LIST_TYPE)
    if keys and list_type != "map":
        detail = f"must be map if {_MAP_KEYS} is non-empty"
        place = f"{path}.{_LIST_TYPE}"
        yield required(place, detail) if list_type is None else invalid(place, list_type, detail)
    if list_type != "map":
        return
    if not keys:
        yield required(f"{path}.{_MAP_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    items = schema.get("items")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
    elif not isinstance(items, dict):
        detail = f"must only have a single schema if {_LIST_TYPE} is map"
        yield invalid(f"{path}.items", items, detail)
    elif items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", detail)
    else:
        yield from _check_key_names(keys, items, path)


def _check_key_names(keys: list[str], items: Schema, path: str) -> Iterator[FieldError]:
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            detail = "entries must all be names of item properties"
            yield invalid(f"{path}.{_MAP_KEYS}", keys, detail)
        elif properties[key].get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", detail)
        if key in keys[:index]:
            yield invalid(f"{path}.{_MAP_KEYS}", keys, "must not contain duplicate entries")


def _check_items(schema: Schema, path: str) -> Iterator[FieldError]:
    items, list_type = schema.get("items"), schema.get(_LIST_TYPE)
    if not isinstance(items, dict) or list_type not in ("set", "map"):
        return
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden(f"{path}.items.nullable", detail)
    for key in schema.get(_MAP_KEYS) or () if list_type == "map" else ():
        child = (items.get("properties") or {}).get(key)
        if child is None:
            continue
        place = f"{path}.items.properties[{key}]"
        reason = f"this property is in {_MAP_KEYS}, so it"
        if key not in (items.get("required") or ()) and child.get("default") is None:
            yield required(
                f"{place}.default", f"{reason} must have a default or be a required property"
            )
        if child.get("nullable"):
            yield forbidden(f"{place}.nullable", f"{reason} cannot be nullable")
