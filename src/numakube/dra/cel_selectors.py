"""CEL expressions about a device: selectors, and derived attributes (alpha).

What an expression sees as ``device`` follows kube-scheduler 1.37: attributes and capacities by
domain and id; an unknown domain is an empty map, an unknown id an error. Everything that any
release knows is there, whatever the feature gates say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.resource_slices import DeviceAttribute
from numakube.cel import (
    CompileError,
    EvaluationError,
    EvaluationStopped,
    InstantiationError,
    Program,
    TimeLimitExceeded,
    compile_expression,
)
from numakube.cel.bounded_cache import BoundedCache
from numakube.cel.value_types import (
    BOOL,
    DYN,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    CelType,
    ObjectType,
    map_of,
)
from numakube.cel.values import MapWithDefault, Optional, type_name
from numakube.dra.device_ids import CEL_TIMEOUT, AllocationError
from numakube.errors import InvalidValue
from numakube.values.quantity import parse_quantity
from numakube.values.semver import Semver, parse_semver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.resource_slices import Device, DeviceSelector
    from numakube.cel.values import CelValue

COST_LIMIT: Final = 1_000_000
"""What one evaluation may cost."""
MAX_BYTES: Final = 10 * 1024
"""How long an expression may be, as in the API."""
_CACHED_CHARACTERS: Final = 256 * 1024
"""The length of all expressions that are kept compiled: each character takes some hundred bytes."""

_DEVICE: Final = ObjectType(
    "kubernetes.DRADevice",
    fields={
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    },
)
_SCALARS: Final = (BOOL, INT, STRING, DYN, SEMVER)
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


def _read(expression: str) -> Program | str:
    """Compile *expression*, or return why that is not possible."""
    if len(expression.encode()) > MAX_BYTES:
        return f"compilation failed: the expression is longer than {MAX_BYTES} bytes"
    try:
        return compile_expression(expression, {"device": _DEVICE})
    except InstantiationError as error:
        return f"program instantiation failed: {error}"
    except CompileError as error:
        return f"compilation failed: {error}"


_PROGRAMS: Final[BoundedCache[Program | str]] = BoundedCache(
    _read, weigh=lambda text, _: len(text) + 1, most=_CACHED_CHARACTERS
)


def _compiled(expression: str) -> Program:
    found = _PROGRAMS.get(expression)
    if isinstance(found, str):
        raise AllocationError(found, kind="cel-compile")
    return found


def selector_program(expression: str) -> Program:
    """Return the compiled selector; raise `AllocationError` if it cannot be used."""
    program = _compiled(expression)
    if program.result not in (BOOL, DYN):
        raise AllocationError(
            f"must evaluate to bool or the unknown type, not {program.result}", kind="cel-compile"
        )
    return program


def derived_program(expression: str, *, lists: bool) -> Program:
    """Return the compiled derived attribute; raise `AllocationError` if it cannot be used."""
    program = _compiled(expression)
    if not _is_attribute_type(program.result, lists=lists):
        what = "a primitive scalar (string, integer, boolean, semver)"
        more = " or a list of these scalars" if lists else ""
        raise AllocationError(
            f"must evaluate to {what}{more}, not {program.result}", kind="cel-compile"
        )
    return program


def _is_attribute_type(kind: CelType, *, lists: bool) -> bool:
    return kind in _SCALARS or (lists and kind.name == "list" and kind.params[0] in _SCALARS)


def matches(
    program: Program, variables: dict[str, Any], expired: Callable[[], bool] | None = None
) -> bool:
    """Tell whether the selector is true of the device; raise `AllocationError` if it is neither.

    *expired* tells whether there is no more time for it.
    """
    value = _evaluated(program, variables, expired)
    if not isinstance(value, bool):
        name = type_name(value)
        raise AllocationError(
            f"CEL result of type {name} could not be converted to bool: {_unconvertible(value)}",
            kind="cel-runtime",
        )
    return value


def is_selected(selectors: Iterable[DeviceSelector], device: Device, driver: str) -> bool:
    """Tell whether all of *selectors* are true of the device; raise `AllocationError` if unsure."""
    seen = variables_of(device, driver)
    return all(
        matches(selector_program(selector.cel.expression if selector.cel is not None else ""), seen)
        for selector in selectors
    )


def _evaluated(
    program: Program, variables: dict[str, Any], expired: Callable[[], bool] | None
) -> CelValue:
    try:
        return program.evaluate(variables, limit=COST_LIMIT, expired=expired)
    except EvaluationError as error:
        raise AllocationError(str(error), kind="cel-runtime") from None
    except EvaluationStopped as error:
        late = isinstance(error, TimeLimitExceeded)
        kind = CEL_TIMEOUT if late else "cel-runtime"
        raise AllocationError(str(error), kind=kind, costly=True) from None


def _unconvertible(value: CelValue) -> str:
    """Return what cel-go says of a value that is no bool."""
    if isinstance(value, Optional) and not value.present:
        return "optional.none() dereference"
    name = type_name(value)
    return _UNCONVERTIBLE.get(
        name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
    )


_UNCONVERTIBLE: Final = {
    "uint": "unsupported type conversion from 'uint' to bool",
    "int": "unsupported type conversion from 'int' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
}


def with_hint(error: AllocationError) -> AllocationError:
    """Return the error of a selector with advice if a key was missing."""
    if "no such key:" not in str(error):
        return error
    return AllocationError(f"{error}{_HINT}", kind=error.kind)


def variables_of(device: Device, driver: str) -> dict[str, Any]:
    """Return what expressions about *device* see; raise `AllocationError` if that is impossible."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = _value(name, attribute)
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in device.capacity.items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = parse_quantity(amount.value)
    return {
        "device": {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": MapWithDefault(attributes, {}),
            "capacity": MapWithDefault(capacity, {}),
        }
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _value(name: str, attribute: DeviceAttribute) -> CelValue:
    try:
        return _attribute_value(attribute)
    except InvalidValue as error:
        problem = f"attribute {name}: parse semantic version: {error}"
        raise AllocationError(problem, kind="cel-runtime") from None
    except LookupError:
        problem = f"attribute {name}: unsupported attribute value"
        raise AllocationError(problem, kind="cel-runtime") from None


def _attribute_value(attribute: DeviceAttribute) -> CelValue:
    for items in (attribute.integers, attribute.booleans, attribute.strings):
        if items is not None:
            return list(items)
    if attribute.versions is not None:
        return [parse_semver(text) for text in attribute.versions]
    for value in (attribute.integer, attribute.boolean, attribute.string):
        if value is not None:
            return value
    if attribute.version is None:
        raise LookupError
    return parse_semver(attribute.version)


def derived_attribute(
    program: Program, variables: dict[str, Any], expired: Callable[[], bool] | None = None
) -> DeviceAttribute:
    """Return what the expression yields, as an attribute."""
    value = _evaluated(program, variables, expired)
    items = value if isinstance(value, list) else [value]
    if not items:
        return DeviceAttribute(strings=())
    return _as_attribute(items, whole=value)


def _as_attribute(items: list[Any], *, whole: CelValue) -> DeviceAttribute:
    found = next((kind for kind in _ATTRIBUTE_KINDS if type(items[0]) is kind[0]), None)
    if found is None:
        where = "list element type" if isinstance(whole, list) else "CEL return type"
        raise AllocationError(f"unsupported {where}: {_go_type(items[0])}", kind="cel-runtime")
    python, field, wanted = found
    for index, item in enumerate(items):
        if type(item) is not python:
            problem = f"expected list element at index {index} to be {wanted}, got {_go_type(item)}"
            raise AllocationError(problem, kind="cel-runtime")
    plain = [str(item) if isinstance(item, Semver) else item for item in items]
    tree = {f"{field}s": plain} if isinstance(whole, list) else {field: plain[0]}
    return convert(DeviceAttribute, tree)


_ATTRIBUTE_KINDS: Final = (
    (bool, "bool", "bool"),
    (int, "int", "int"),
    (str, "string", "string"),
    (Semver, "version", "semver"),
)


def _go_type(value: CelValue) -> str:
    names = {
        "bool": "bool", "int": "int64", "uint": "uint64", "double": "float64", "string": "string",
        "bytes": "[]uint8", "kubernetes.Quantity": "*resource.Quantity",
        "kubernetes.Semver": "semver.Version", "list": "[]ref.Val", "map": "map[ref.Val]ref.Val",
        "null_type": "structpb.NullValue",
    }  # fmt: skip
    return names.get(type_name(value), type_name(value))
