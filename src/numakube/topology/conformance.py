"""What is wrong with a NodeResourceTopology, for the author of the program that writes it.

    for finding in findings_in(tree):
        print(finding.field, finding.severity, finding.message)

Unlike `numakube.topology.topology_view`, which makes the best of an object, this looks at what was
written, field by field: first that it has the shape of the API, then what it says. What the Go
plugin NodeResourceTopologyMatch (scheduler-plugins, August 2026) would pass over counts as wrong
too, even if we read it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.nrt import (
    KIND,
    POLICY_AND_SCOPE,
    V1ALPHA1,
    V1ALPHA2,
    ZONE_TYPE_NODE,
    Attribute,
    NodeResourceTopology,
    attribute_value,
    numa_id_of,
    to_v1alpha2,
)
from numakube.errors import InvalidValue, MalformedObject
from numakube.topology import nrt_names
from numakube.topology.exact_report import BadReport
from numakube.topology.fingerprint import FINGERPRINT_PREFIX, VERSION
from numakube.topology.kubelet_attributes import kubelet_config
from numakube.topology.numa_zones import LEVELS, Level, in_circles
from numakube.topology.report_codec import decode_report
from numakube.topology.topology_view import FingerprintMethod, Unusable, view_of
from numakube.values.quantity import parse_quantity
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numakube.api.nrt import Zone, ZoneResource


class ConformanceSeverity(StrEnum):
    """How much a consumer minds."""

    ERROR = "error"
    """The API server refuses it, or consumers read it wrongly or not at all."""
    WARNING = "warning"
    """Some consumers lose something."""


@dataclass(frozen=True, slots=True)
class ConformanceRule:
    """One thing that an object must do; ``id`` is stable."""

    id: str
    severity: ConformanceSeverity
    title: str


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a field breaks: ``zones[0].resources[1].available``."""

    rule: ConformanceRule
    field: str
    message: str


KNOWN: Final = ConformanceRule(
    "NRT-API", ConformanceSeverity.ERROR, "kind, version and name are there"
)
SHAPE: Final = ConformanceRule(
    "NRT-SHAPE", ConformanceSeverity.ERROR, "every field has the type of the API"
)
UNKNOWN: Final = ConformanceRule(
    "NRT-UNKNOWN-FIELD", ConformanceSeverity.WARNING, "there are no fields beyond the API"
)


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


def shape_findings(tree: Mapping[str, Any]) -> Iterator[BrokenRule]:
    """Yield what the API server would refuse or drop."""
    if tree.get("kind") != KIND:
        yield BrokenRule(KNOWN, "kind", f"{tree.get('kind')!r} is not {KIND}")
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        yield BrokenRule(KNOWN, "metadata.name", "is required: it is the name of the node")
    version = tree.get("apiVersion")
    shape = _SHAPES.get(version) if isinstance(version, str) else None
    if shape is None:
        yield BrokenRule(KNOWN, "apiVersion", f"{version!r} is neither {V1ALPHA2} nor {V1ALPHA1}")
        return
    content = {key: value for key, value in tree.items() if key not in _ENVELOPE}
    yield from _object(content, shape, "")


def _object(tree: Mapping[str, Any], shape: _List, path: str) -> Iterator[BrokenRule]:
    for name in sorted(shape.required - tree.keys()):
        yield BrokenRule(SHAPE, _join(path, name), "is required")
    for name, value in tree.items():
        where = _join(path, name)
        if name not in shape.fields:
            yield BrokenRule(UNKNOWN, where, "is no field of the API; the server drops it")
        else:
            yield from _value(value, shape.fields[name], where)


def _value(value: object, shape: object, path: str) -> Iterator[BrokenRule]:
    if isinstance(shape, _List):
        if not isinstance(value, list):
            yield BrokenRule(SHAPE, path, "must be a list")
            return
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if isinstance(item, dict):
                yield from _object(item, shape, where)
            else:
                yield BrokenRule(SHAPE, where, "must be an object")
    elif problem := _problem(value, shape):
        yield BrokenRule(SHAPE, path, problem)


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


# What a NodeResourceTopology of the right shape says wrongly: the rules, and what breaks them.


_ERROR, _WARNING = ConformanceSeverity.ERROR, ConformanceSeverity.WARNING
USABLE: Final = ConformanceRule("NRT-USABLE", _ERROR, "NUMA nodes can be identified in the zones")
ZONE_TYPE: Final = ConformanceRule("NRT-ZONE-TYPE", _WARNING, "zones of NUMA nodes have type Node")
ZONE_NAME: Final = ConformanceRule(
    "NRT-ZONE-NAME", _WARNING, "zones of NUMA nodes are called node-<id>"
)
ZONE_TWICE: Final = ConformanceRule("NRT-ZONE-TWICE", _ERROR, "every zone has a name of its own")
PARENT: Final = ConformanceRule("NRT-PARENT", _WARNING, "parents are zones, and not in a circle")
AMOUNT: Final = ConformanceRule("NRT-AMOUNT", _ERROR, "0 <= available <= allocatable <= capacity")
FRACTION: Final = ConformanceRule("NRT-FRACTION", _WARNING, "only CPUs come in fractions")
RESOURCE_TWICE: Final = ConformanceRule(
    "NRT-RESOURCE-TWICE", _ERROR, "a zone lists a resource once"
)
COST: Final = ConformanceRule(
    "NRT-COST", _WARNING, "costs are to every NUMA node, 10 to the zone itself"
)
POLICY: Final = ConformanceRule(
    "NRT-POLICY", _WARNING, "the Topology Manager's policy and scope are reported"
)
VALUE: Final = ConformanceRule(
    "NRT-ATTRIBUTE-VALUE", _ERROR, "attributes have values that readers know"
)
TWICE: Final = ConformanceRule("NRT-ATTRIBUTE-TWICE", _WARNING, "an attribute is there once")
LEGACY: Final = ConformanceRule(
    "NRT-LEGACY", _WARNING, "topologyPolicies agrees with the attributes"
)
OLD: Final = ConformanceRule(
    "NRT-V1ALPHA1", _WARNING, "the object is of v1alpha2, which has attributes"
)
FINGERPRINT: Final = ConformanceRule(
    "NRT-FINGERPRINT", _WARNING, "the pods accounted for are reported"
)
EXACT: Final = ConformanceRule("NRT-EXACT", _ERROR, "exact data can be read")
PRODUCERS: Final = ConformanceRule("NRT-PRODUCERS", _WARNING, "one program writes the object")

RULES: Final = (
    KNOWN, SHAPE, UNKNOWN, USABLE, ZONE_TYPE, ZONE_NAME, ZONE_TWICE, PARENT, AMOUNT, FRACTION,
    RESOURCE_TWICE, COST, POLICY, VALUE, TWICE, LEGACY, OLD, FINGERPRINT, EXACT, PRODUCERS,
)  # fmt: skip

_LOCAL: Final = 10
_FINGERPRINT: Final = re.compile(f"{FINGERPRINT_PREFIX}{VERSION}[0-9a-f]{{16}}")


def findings_in(tree: Mapping[str, Any]) -> list[BrokenRule]:
    """Return everything that is wrong with an object, given as plain data."""
    found = list(shape_findings(tree))
    if any(finding.rule.severity is _ERROR for finding in found):
        return found
    nrt = typed(tree)
    if nrt is None:
        return [*found, BrokenRule(SHAPE, "metadata", "cannot be read")]
    return [*found, *findings_of(nrt)]


def findings_of(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    """Yield what an object of the right shape says wrongly."""
    yield from _zones(nrt.zones)
    for index, zone in enumerate(nrt.zones):
        yield from _resources(zone, f"zones[{index}].resources")
    yield from _usable(nrt)
    if nrt.api_version == V1ALPHA1:
        yield from _old(nrt)
    else:
        yield from _attributes(nrt)
        yield from _fingerprint(nrt)
    yield from _exact(nrt)
    yield from _producers(nrt)


def _usable(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    view = view_of(to_v1alpha2(nrt))
    if isinstance(view, Unusable):
        yield BrokenRule(USABLE, "zones", view.reason)


def _zones(zones: Sequence[Zone]) -> Iterator[BrokenRule]:
    counts = Counter(zone.name for zone in zones)
    circles = in_circles({zone.name: zone.parent for zone in zones})
    numa = {zone.name for zone in zones if LEVELS.get(zone.type) is Level.NUMA}
    for index, zone in enumerate(zones):
        path = f"zones[{index}]"
        if counts[zone.name] > 1:
            yield BrokenRule(ZONE_TWICE, f"{path}.name", f"{zone.name!r} appears twice")
        yield from _zone(zone, path)
        if zone.parent and zone.parent not in counts:
            yield BrokenRule(PARENT, f"{path}.parent", f"there is no zone {zone.parent!r}")
        elif zone.name in circles:
            yield BrokenRule(PARENT, f"{path}.parent", f"{zone.parent!r}: parents form a circle")
        if zone.name in numa:
            yield from _costs(zone, numa, f"{path}.costs")


def _zone(zone: Zone, path: str) -> Iterator[BrokenRule]:
    plain = re.sub("[^a-z]", "", zone.type.casefold())
    if zone.type != ZONE_TYPE_NODE and plain in ("node", "numa", "numanode", "numazone"):
        read = "we read it" if zone.type in LEVELS else "so do we"
        message = f"{zone.type!r}: the Go plugin passes over types other than Node; {read}"
        yield BrokenRule(ZONE_TYPE, f"{path}.type", message)
    elif zone.type == ZONE_TYPE_NODE:
        try:
            numa_id_of(zone.name)
        except InvalidValue as error:
            message = f"the Go plugin passes over it: {error}"
            yield BrokenRule(ZONE_NAME, f"{path}.name", message)


def _costs(zone: Zone, numa: AbstractSet[str], path: str) -> Iterator[BrokenRule]:
    if not zone.costs:
        yield BrokenRule(COST, path, "is empty: which zones are near each other is not known")
        return
    told = {cost.name: cost.value for cost in zone.costs}
    for index, cost in enumerate(zone.costs):
        where = f"{path}[{index}]"
        if cost.name not in numa:
            yield BrokenRule(COST, f"{where}.name", f"there is no NUMA node {cost.name!r}")
        elif cost.value < _LOCAL:
            yield BrokenRule(
                COST, f"{where}.value", f"{cost.value} is less than {_LOCAL}, the least"
            )
        elif (cost.name == zone.name) != (cost.value == _LOCAL):
            message = f"{cost.value}: {_LOCAL} is the cost of a zone to itself, and of no other"
            yield BrokenRule(COST, f"{where}.value", message)
    for name in sorted(numa - told.keys()):
        yield BrokenRule(COST, path, f"the cost to {name!r} is missing")


def _resources(zone: Zone, path: str) -> Iterator[BrokenRule]:
    counts = Counter(resource.name for resource in zone.resources)
    for index, resource in enumerate(zone.resources):
        where = f"{path}[{index}]"
        if counts[resource.name] > 1:
            yield BrokenRule(RESOURCE_TWICE, f"{where}.name", f"{resource.name} appears twice")
        yield from _amounts(resource, where)


def _amounts(resource: ZoneResource, path: str) -> Iterator[BrokenRule]:
    names = ("available", "allocatable", "capacity")
    amounts = {name: parse_quantity(getattr(resource, name)) for name in names}
    for name, amount in amounts.items():
        if amount.milli_value() < 0:
            yield BrokenRule(AMOUNT, f"{path}.{name}", f"{getattr(resource, name)} is negative")
        if resource.name != CPU and amount.milli_value() % 1000:
            message = f"{getattr(resource, name)} of {resource.name} cannot be given out"
            yield BrokenRule(FRACTION, f"{path}.{name}", message)
    for less, more in pairwise(names):
        if amounts[less] > amounts[more]:
            texts = getattr(resource, less), getattr(resource, more)
            message = f"{texts[0]} is more than {more}, {texts[1]}"
            yield BrokenRule(AMOUNT, f"{path}.{less}", message)


def _attributes(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    counts = Counter(attribute.name for attribute in nrt.attributes)
    for index, one in enumerate(nrt.attributes):
        if counts[one.name] > 1:
            yield BrokenRule(TWICE, f"attributes[{index}].name", f"{one.name} appears twice")
        if problem := _value_problem(one):
            yield BrokenRule(VALUE, f"attributes[{index}].value", problem)
    for name in (nrt_names.TOPOLOGY_POLICY, nrt_names.TOPOLOGY_SCOPE):
        told = counts[name] or counts[nrt_names.POLICY_UNKNOWN]
        if not told:
            default = "none" if name == nrt_names.TOPOLOGY_POLICY else "container"
            yield BrokenRule(POLICY, "attributes", f"{name} is missing; readers take {default}")
    yield from _legacy(nrt)


def _value_problem(attribute: Attribute) -> str:
    if attribute.name == nrt_names.FINGERPRINT_METHOD:
        known = attribute.value in tuple(FingerprintMethod)
        return "" if known else f"{attribute.value!r} is not one of {', '.join(FingerprintMethod)}"
    problems: list[str] = []
    kubelet_config(NodeResourceTopology(attributes=(attribute,)), problems)
    return f"{attribute.value!r} is no value of {attribute.name}" if problems else ""


def _legacy(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    for index, text in enumerate(nrt.topology_policies[1:], start=1):
        yield BrokenRule(LEGACY, f"topologyPolicies[{index}]", f"{text!r}: only the first is read")
    if not nrt.topology_policies:
        return
    first = nrt.topology_policies[0]
    if first not in POLICY_AND_SCOPE and first != "None":
        known = ", ".join(["None", *POLICY_AND_SCOPE])
        yield BrokenRule(LEGACY, "topologyPolicies[0]", f"{first!r} is not one of {known}")
        return
    told = kubelet_config(NodeResourceTopology(topology_policies=(first,)), [])
    says = attribute_value(nrt.attributes, nrt_names.TOPOLOGY_POLICY)
    if says is not None and says != told.policy:
        message = f"{first!r}, but {nrt_names.TOPOLOGY_POLICY} is {says!r}"
        yield BrokenRule(LEGACY, "topologyPolicies[0]", message)


def _old(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    message = "write v1alpha2: without attributes readers lose fingerprint and options"
    yield BrokenRule(OLD, "apiVersion", message)
    yield from _legacy(nrt)


def _fingerprint(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    names = [attribute.name for attribute in nrt.attributes]
    if nrt_names.FINGERPRINT not in names:
        message = f"{nrt_names.FINGERPRINT} is missing: schedulers cannot tell which pods are"
        yield BrokenRule(FINGERPRINT, "attributes", f"{message} accounted for")
        return
    index = names.index(nrt_names.FINGERPRINT)
    value = nrt.attributes[index].value
    if not _FINGERPRINT.fullmatch(value):
        message = f"{value!r} is not {FINGERPRINT_PREFIX}{VERSION} and 16 hexadecimal digits"
        yield BrokenRule(VALUE, f"attributes[{index}].value", message)


def _exact(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    text = nrt.metadata.annotations.get(nrt_names.EXACT_ANNOTATION)
    report = None if text is None else decode_report(text)
    if isinstance(report, BadReport):
        yield BrokenRule(
            EXACT, f"metadata.annotations[{nrt_names.EXACT_ANNOTATION}]", report.reason
        )


def _producers(nrt: NodeResourceTopology) -> Iterator[BrokenRule]:
    """Marks of two programs mean that each overwrites what the other has written."""
    annotations = nrt.metadata.annotations
    if attribute_value(nrt.attributes, nrt_names.NRI_POLICY) is None:
        return  # our exporter leaves RTE's mark as well, whose place it takes
    ours, rte = nrt_names.EXACT_ANNOTATION, nrt_names.RTE_UPDATE_ANNOTATION
    other = "numakube" if ours in annotations else "RTE" if rte in annotations else ""
    if other:
        message = f"{other} and nri-plugins have left marks: each overwrites the other's zones"
        yield BrokenRule(PRODUCERS, "metadata", message)
