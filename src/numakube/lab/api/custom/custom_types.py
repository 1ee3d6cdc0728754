"""The type of a custom kind, from the schema in its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.lab.schema.custom import CustomType

if TYPE_CHECKING:
    from numakube.lab.kinds import GVK, Json


def custom_type(kind: GVK, schema: Json, *, preserve_unknown: bool) -> CustomType:
    """Return the type of *kind*; *preserve_unknown* is how old definitions kept everything."""
    everything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return CustomType.of(kind, {**schema, **everything} if preserve_unknown else schema)
