"""Schemas of custom kinds, as OpenAPI writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube_lab.schema.builtin_types import OBJECT_META
from numakube_lab.schema.openapi.openapi_schemas import list_schema, metadata_schemas, reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import GVK

_TEXT: Final = {"type": "string"}
_META_DESCRIPTIONS: Final = {
    "apiVersion": "Which group and version of the API the object is written in.",
    "kind": "Which kind of object this is.",
    "metadata": "Name, labels and the like.",
}


def custom_schemas(kinds: Mapping[GVK, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schemas of custom kinds (*kinds* has their ``openAPIV3Schema``) and lists."""
    found = metadata_schemas()
    for gvk, source in kinds.items():
        name = component_name(gvk)
        found[name] = _schema(gvk, source)
        found[f"{name}List"] = list_schema(gvk, name)
    return dict(sorted(found.items()))


def component_name(gvk: GVK) -> str:
    """Return the name of the kind's schema: ``com.example.v1.Widget``."""
    return ".".join((*reversed(gvk.group.split(".")), gvk.version, gvk.kind))


def _schema(gvk: GVK, source: Mapping[str, Any]) -> dict[str, Any]:
    own = {
        "apiVersion": {**_TEXT, "description": _META_DESCRIPTIONS["apiVersion"]},
        "kind": {**_TEXT, "description": _META_DESCRIPTIONS["kind"]},
        "metadata": {
            "allOf": [reference(OBJECT_META.openapi)],
            "description": _META_DESCRIPTIONS["metadata"],
        },
    }
    mark = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    return {
        **source,
        "type": "object",
        "properties": {**(source.get("properties") or {}), **own},
        "x-kubernetes-group-version-kind": [mark],
    }
