"""What is wrong with a NodeResourceTopology, for the author of the program that writes it.

    for finding in findings_in(tree):
        print(finding.field, finding.severity, finding.message)

Unlike `numakube.topology.topology_view`, which makes the best of an object, this looks at what was
written, field by field: first that it has the shape of the API, then what it says. What the Go
plugin NodeResourceTopologyMatch (scheduler-plugins, August 2026) would pass over counts as wrong
too, even if we read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.nrt import KIND, V1ALPHA1, V1ALPHA2, NodeResourceTopology
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Severity(StrEnum):
    """How much a consumer minds."""

    ERROR = "error"
    """The API server refuses it, or consumers read it wrongly or not at all."""
    WARNING = "warning"
    """Some consumers lose something."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that an object must do; ``id`` is stable."""

    id: str
    severity: Severity
    title: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that a field breaks: ``zones[0].resources[1].available``."""

    rule: Rule
    field: str
    message: str


KNOWN: Final = Rule("NRT-API", Severity.ERROR, "kind, version and name are there")
SHAPE: Final = Rule("NRT-SHAPE", Severity.ERROR, "every field has the type of the API")
UNKNOWN: Final = Rule("NRT-UNKNOWN-FIELD", Severity.WARNING, "there are no fields beyond the API")


@dataclass(frozen=True, slots=True)
class _List:
    """A list of objects."""

    fields: Mapping[str, Any]
    required: frozenset[str]


_TEXT: Final = "text"
_TEXTS: Final = "texts"
_INTEGER: Final = "integer"
_QUANTITY: Final = "quantity"
_ATTRIBUTES: Final = _List({"name": _TEXT, "value": _TEXT}, frozenset({"name", "value"}))
_RESOURCES: Final = _List(
    {"name": _TEXT, "capacity": _QUANTITY, "allocatable": _QUANTITY, "available": _QUANTITY},
    frozenset({"name", "capacity", "allocatable", "available"}),
)
_ZONES: Final = _List(
    {
        "name": _TEXT,
        "type": _TEXT,
        "parent": _TEXT,
        "costs": _List({"name": _TEXT, "value": _INTEGER}, frozenset({"name", "value"})),
        "attributes": _ATTRIBUTES,
        "resources": _RESOURCES,
    },
    frozenset({"name", "type"}),
)
_FIELDS: Final = {"topologyPolicies": _TEXTS, "zones": _ZONES}
_SHAPES: Final = {
    V1ALPHA1: _List(_FIELDS, frozenset({"zones", "topologyPolicies"})),
    V1ALPHA2: _List({**_FIELDS, "attributes": _ATTRIBUTES}, frozenset({"zones"})),
}
_ENVELOPE: Final = ("apiVersion", "kind", "metadata")


def shape_findings(tree: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what the API server would refuse or drop."""
    if tree.get("kind") != KIND:
        yield Finding(KNOWN, "kind", f"{tree.get('kind')!r} is not {KIND}")
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        yield Finding(KNOWN, "metadata.name", "is required: it is the name of the node")
    version = tree.get("apiVersion")
    shape = _SHAPES.get(version) if isinstance(version, str) else None
    if shape is None:
        yield Finding(KNOWN, "apiVersion", f"{version!r} is neither {V1ALPHA2} nor {V1ALPHA1}")
        return
    content = {key: value for key, value in tree.items() if key not in _ENVELOPE}
    yield from _object(content, shape, "")


def _object(tree: Mapping[str, Any], shape: _List, path: str) -> Iterator[Finding]:
    for name in sorted(shape.required - tree.keys()):
        yield Finding(SHAPE, _join(path, name), "is required")
    for name, value in tree.items():
        where = _join(path, name)
        if name not in shape.fields:
            yield Finding(UNKNOWN, where, "is no field of the API; the server drops it")
        else:
            yield from _value(value, shape.fields[name], where)


def _value(value: object, shape: object, path: str) -> Iterator[Finding]:
    if isinstance(shape, _List):
        if not isinstance(value, list):
            yield Finding(SHAPE, path, "must be a list")
            return
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if isinstance(item, dict):
                yield from _object(item, shape, where)
            else:
                yield Finding(SHAPE, where, "must be an object")
    elif problem := _problem(value, shape):
        yield Finding(SHAPE, path, problem)


def _problem(value: object, shape: object) -> str:
    if shape == _TEXTS:
        right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        return "" if right else "must be a list of strings"
    if shape == _TEXT:
        return "" if isinstance(value, str) else "must be a string"
    if shape == _INTEGER:
        right = isinstance(value, int) and not isinstance(value, bool)
        return "" if right else "must be an integer"
    return _quantity_problem(value)


def _quantity_problem(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return "must be a quantity: a string such as 4, 1500m or 16Gi, or an integer"
    try:
        parse_quantity(value)
    except InvalidValue as error:
        return str(error)
    return ""


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def typed(tree: Mapping[str, Any]) -> NodeResourceTopology | None:
    """Return an object whose shape is right; ``None`` if its metadata cannot be read."""
    try:
        return convert(NodeResourceTopology, tree)
    except MalformedObject:
        return None
