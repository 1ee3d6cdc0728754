"""Names of kinds, and what the API server asks of the description of one.

The API server (`kube_lab_server`) is schemaless: an object is a plain dict of JSON. What a kind
looks like is described by its `TypeInfo`. Those of built-in kinds stand in
``kube_lab_server.schema.builtin_types.BUILTIN``; that of a custom kind is made from its definition.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object."""

JsonValue: TypeAlias = Any
"""Any JSON value."""


class GVK(NamedTuple):
    """Group, version and kind."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The value of ``apiVersion`` in an object of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, obj: Json) -> GVK:
        """Return the kind that *obj* says it is of; parts that are missing are empty."""
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        return cls(group, version, str(obj.get("kind") or ""))


class Problems(NamedTuple):
    """What decoding an object found.

    Attributes:
        fatal: the text of the first value that does not fit its field's type, as Go's decoder words
            it (``json: cannot unmarshal number into Go struct field ConfigMap.data of type
            string``); None if the object can be decoded.
        strict: ``unknown field "spec.foo"`` and the like, in the order in which they are reported:
            errors, warnings or nothing, depending on ``fieldValidation``.
    """

    fatal: str | None = None
    strict: tuple[str, ...] = ()


class TypeInfo(Protocol):
    """What the server must know of a kind's fields. Pure; never changes its arguments."""

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent by a client; unknown fields only if *strict*."""
        ...

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as the server would print it after decoding it into its type.

        Parts that it has in common with *known*, an object in that form, are taken over.

        Unknown fields are gone, so are nulls and empty values of optional fields; fields that are
        always printed are there (``spec: {}``, ``status: {}``, ``resources: {}``); values of
        special types have their canonical text (quantities, times, int-or-strings, durations).
        Nothing is defaulted. ``canonical({})`` is what a bookmark event of the kind carries.
        """
        ...
