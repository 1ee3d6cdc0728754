"""Types of API objects as values, and the reader of the tables that have the built-in ones.

A table is text, one type a block. ``kind X:`` opens a type that is a resource (with ``apiVersion``,
``kind`` and ``metadata``), ``X:`` any other struct; ``atomic`` after the colon says that it is
owned as a whole. A line below gives a field: its number in the protobuf form (if it has one), its
JSON name, its type and what else is to be known::

    2  containers  []Container  ! keys=name merge=name

Types are scalars (``str bool int32 int64 float64 quantity intstr time microtime bytes``), ``raw``
and ``json`` for anything, names of structs, ``*T`` for a Go pointer, ``[]T`` and ``{}T`` for lists
and maps. ``= str: A B`` declares names for a type. ``...X`` takes over the fields of X.

What may follow: ``!`` required and always written; ``+`` optional but always written;
``omitzero``; ``set`` or ``keys=a,b`` how the list's elements are told apart; ``atomic`` and
``granular`` where that differs from the type's own way; ``merge`` or ``merge=key``, ``retainKeys``,
``replace`` for strategic merge patches; ``default=x`` of the schema; ``go=x`` the Go type where it
cannot be derived; ``in=X`` the embedded Go struct that declares the field, where the table does not
use ``...X``. A backslash at the end continues a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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


# Where a name is looked up that its own package does not declare.
SHARED_PACKAGES: Final = ("meta.v1", "core.v1")

_SCALARS: Final[Mapping[str, Type]] = {
    "str": Scalar(ScalarKind.STRING, "string"),
    "bool": Scalar(ScalarKind.BOOLEAN, "bool"),
    "int32": Scalar(ScalarKind.INT32, "int32"),
    "int64": Scalar(ScalarKind.INT64, "int64"),
    "float64": Scalar(ScalarKind.FLOAT, "float64"),
    "quantity": Scalar(ScalarKind.QUANTITY, "resource.Quantity"),
    "intstr": Scalar(ScalarKind.INT_OR_STRING, "intstr.IntOrString"),
    "time": Scalar(ScalarKind.TIME, "v1.Time"),
    "microtime": Scalar(ScalarKind.MICRO_TIME, "v1.MicroTime"),
    "bytes": Scalar(ScalarKind.BYTES, "[]uint8"),
    "raw": Untyped(),
    "json": Untyped("v1.JSON"),
}


@dataclass(frozen=True, slots=True)
class Package:
    """The types of one API group and version; *name* is how tables refer to it (``core.v1``)."""

    name: str
    group: str
    tables: tuple[str, ...]
    openapi: str

    @property
    def version(self) -> str:
        """``v1`` of ``core.v1``; also the name of the Go package."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Block:
    """One type as written: whether it is a resource, and its field lines."""

    package: Package
    name: str
    resource: bool
    atomic: bool
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every type of the tables, by package and name, and those that are resources."""

    types: Mapping[tuple[str, str], Type]
    resources: tuple[tuple[Package, Struct], ...]


def build(packages: Iterable[Package]) -> Catalogue:
    """Read all tables and connect their types with each other."""
    packages = tuple(packages)
    blocks = {(b.package.name, b.name): b for p in packages for b in _blocks(p)}
    builder = _Builder(blocks)
    for package in packages:
        for base, names in _aliases(package):
            builder.declare_names(package, base, names)
    builder.fill()
    resources = tuple((b.package, builder.structs[key]) for key, b in blocks.items() if b.resource)
    return Catalogue(builder.types, resources)


class _Builder:
    """Holds the half-built types while names are being resolved."""

    def __init__(self, blocks: Mapping[tuple[str, str], Block]) -> None:
        self._blocks = blocks
        self.structs = {key: _empty_struct(block) for key, block in blocks.items()}
        self.types: dict[tuple[str, str], Type] = dict(self.structs)

    def declare_names(self, package: Package, base: str, names: Iterable[str]) -> None:
        """Declare *names* for the type *base*; ``pkg.Name`` gives a Go package that differs."""
        for name in names:
            short = name.rpartition(".")[2]
            go = name if "." in name else f"{package.version}.{name}"
            self.types[package.name, short] = replace(self._resolve(package, base), go=go)

    def fill(self) -> None:
        """Give every struct its fields."""
        for key, block in self._blocks.items():
            self.structs[key].fields.update({f.name: f for f in self._fields(block)})

    def _fields(self, block: Block) -> Iterator[Field]:
        if block.resource:
            yield Field("kind", _SCALARS["str"])
            yield Field("apiVersion", _SCALARS["str"])
            yield Field("metadata", self._resolve(block.package, "ObjectMeta"), number=(1,))
        for number, name, *rest in map(_numbered, block.lines):
            if name.startswith("..."):
                yield from self._embedded(block.package, _number(number), name[3:], rest)
            else:
                field = self._field(block.package, name, rest[0], rest[1:])
                yield replace(field, number=_number(number))

    def _embedded(
        self, package: Package, number: tuple[int, ...], name: str, rest: list[str]
    ) -> Iterator[Field]:
        options = dict(word.partition("=")[::2] for word in rest)
        for inner in self._fields(self._blocks[package.name, name]):
            yield replace(inner, embedded=options.get("in", name), number=(*number, *inner.number))

    def _field(self, package: Package, name: str, text: str, words: list[str]) -> Field:
        options = dict(word.partition("=")[::2] for word in words)
        pointer = text.startswith("*")
        kind = _with_options(self._resolve(package, text.removeprefix("*")), options)
        return Field(
            name=name,
            type=kind,
            pointer=pointer,
            emit=_emit(options),
            required="!" in options,
            default=_default(kind, options["default"]) if "default" in options else None,
            patch=PatchRule(
                merge="merge" in options,
                key=options.get("merge", ""),
                retain_keys="retainKeys" in options,
                replace="replace" in options,
            ),
            embedded=options.get("in", ""),
        )

    def _resolve(self, package: Package, text: str) -> Type:
        if text.startswith("[]"):
            element = self._resolve(package, text[2:])
            return ListType(element, f"[]{element.go}")
        if text.startswith("{}"):
            element = self._resolve(package, text[2:])
            return MapType(element, f"map[string]{element.go}")
        if text.startswith("JSONSchemaPropsOr"):
            return self._union(package, text)
        return _SCALARS.get(text) or self._lookup(package, text)

    def _lookup(self, package: Package, name: str) -> Type:
        prefix, _, short = name.rpartition(".")
        places = (f"{prefix}.v1",) if prefix else (package.name, *SHARED_PACKAGES)
        for place in places:
            if (place, short) in self.types:
                return self.types[place, short]
        raise LookupError(f"{package.name}: no type {name!r} in {', '.join(places)}")

    def _union(self, package: Package, text: str) -> Type:
        props = self.structs[package.name, "JSONSchemaProps"]
        others: dict[str, Type] = {
            "Array": ListType(props, "[]v1.JSONSchemaProps"),
            "StringArray": ListType(_SCALARS["str"], "[]string"),
            "Bool": _SCALARS["bool"],
        }
        other = others[text.removeprefix("JSONSchemaPropsOr")]
        return Union(props, other, f"v1.{text}")


def _numbered(line: tuple[str, ...]) -> tuple[str, ...]:
    """Return *line* with an empty number before it if it has none."""
    return line if line[0][0].isdigit() else ("", *line)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def _empty_struct(block: Block) -> Struct:
    package = block.package
    return Struct(
        name=block.name,
        go=f"{package.version}.{block.name}",
        openapi=f"{package.openapi}.{block.name}",
        atomic=block.atomic,
    )


def _with_options(kind: Type, options: Mapping[str, str]) -> Type:
    """Return *kind* with what the field's line says about it."""
    match kind:
        case ListType():
            keys = tuple(options["keys"].split(",")) if "keys" in options else ()
            relation = Relation.MAP if keys else Relation.ATOMIC
            if "set" in options:
                relation = Relation.SET
            return replace(kind, relation=relation, keys=keys)
        case MapType():
            return replace(kind, atomic="atomic" in options, go=options.get("go", kind.go))
        case Struct() if "atomic" in options or "granular" in options:
            return kind.with_atomic("atomic" in options)
        case _:
            return kind


def _emit(options: Mapping[str, str]) -> Emit:
    if "!" in options or "+" in options:
        return Emit.ALWAYS
    return Emit.OMIT_ZERO if "omitzero" in options else Emit.OMIT_EMPTY


def _default(kind: Type, text: str) -> object:
    match kind:
        case Scalar(kind=ScalarKind.INT32 | ScalarKind.INT64):
            return int(text)
        case Scalar(kind=ScalarKind.BOOLEAN):
            return text == "true"
        case _:
            return text


def _blocks(package: Package) -> Iterator[Block]:
    for table in package.tables:
        for paragraph in table.strip().split("\n\n"):
            lines = [line for line in paragraph.split("\n") if not line.startswith("=")]
            if lines:
                yield _block(package, lines[0], lines[1:])


def _block(package: Package, head: str, rest: list[str]) -> Block:
    title, _, flags = head.partition(":")
    return Block(
        package=package,
        name=title.removeprefix("kind "),
        resource=title.startswith("kind "),
        atomic=flags.strip() == "atomic",
        lines=tuple(tuple(line.split()) for line in rest),
    )


def _aliases(package: Package) -> Iterator[tuple[str, list[str]]]:
    for table in package.tables:
        for line in table.split("\n"):
            if line.startswith("= "):
                base, _, names = line[2:].partition(":")
                yield base, names.split()
