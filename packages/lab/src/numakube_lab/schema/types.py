"""What a type of the Kubernetes API is, for everything that walks objects by their types.

One description serves four readers: strict decoding (which fields exist and what Go calls their
types), the round trip through Go structs (which empty fields are written), strategic merge patches
(how lists merge) and server-side apply (which lists and maps have one owner as a whole). Built-in
types come from the tables in `groups`; those of custom resources from their structural schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = Any
"""Whatever JSON can express."""


class ScalarKind(StrEnum):
    """How a scalar is written in JSON, and how Go reads it."""

    STRING = "str"
    BOOLEAN = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float64"
    NUMBER = "number"
    QUANTITY = "quantity"
    INT_OR_STRING = "intstr"
    TIME = "time"
    MICRO_TIME = "microtime"
    BYTES = "bytes"


class Relation(StrEnum):
    """How the elements of a list relate, hence who can own what of it."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class Emit(Enum):
    """When Go writes a field that holds its zero value."""

    OMIT_EMPTY = "omitempty"
    OMIT_ZERO = "omitzero"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf; *go* is the name of its Go type, as decoding errors show it."""

    kind: ScalarKind
    go: str


@dataclass(frozen=True, slots=True)
class Untyped:
    """Any JSON at all: a ``RawExtension`` or a schema that preserves unknown fields."""

    go: str = "runtime.RawExtension"


@dataclass(frozen=True, slots=True)
class ListType:
    """A list; *keys* identify its elements where its relation is MAP."""

    element: Type
    go: str
    relation: Relation = Relation.ATOMIC
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from strings to values of one type."""

    element: Type
    go: str
    atomic: bool = False

    @property
    def fields(self) -> Mapping[str, Field]:
        """No key is known by name."""
        return _NO_FIELDS

    @property
    def unknown(self) -> Type:
        """The type of what stands under any key."""
        return self.element


@dataclass(frozen=True, slots=True)
class Union:
    """JSON of one of two shapes: an object of *struct*, or *other* (a list, or a boolean)."""

    struct: Struct
    other: Type
    go: str


@dataclass(frozen=True, eq=False)
class Struct:
    """An object with named fields; *unknown* is the type of the others where they are allowed.

    *fields* is filled in after creation because types may contain themselves. There are no slots,
    so that what is worked out from a struct can be kept with it.
    """

    name: str
    go: str
    openapi: str = ""
    atomic: bool = False
    fields: dict[str, Field] = field(default_factory=dict)
    unknown: Type | None = None

    def with_atomic(self, atomic: bool) -> Struct:
        """The same struct, owned as a whole or field by field."""
        return Struct(self.name, self.go, self.openapi, atomic, self.fields, self.unknown)


Type = Scalar | Untyped | ListType | MapType | Union | Struct


@dataclass(frozen=True, slots=True)
class PatchRule:
    """How a strategic merge patch treats a field."""

    merge: bool = False
    key: str = ""
    retain_keys: bool = False
    replace: bool = False


DEFAULT_PATCH_RULE: Final = PatchRule()
_NO_FIELDS: Final[Mapping[str, Field]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct.

    Attributes:
        embedded: the Go struct inside that declares the field; empty if it is the struct itself.
        number: where the field stands in the protobuf form: more than one number leads through
            messages. Empty if it is not there.
    """

    name: str
    type: Type
    pointer: bool = False
    emit: Emit = Emit.OMIT_EMPTY
    required: bool = False
    default: Any = None
    patch: PatchRule = DEFAULT_PATCH_RULE
    embedded: str = ""
    number: tuple[int, ...] = ()
