"""ResourceSlices, which drivers publish, and DeviceTaintRules, which keep claims off devices."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.device_claims import (
    check_items,
    validate_attribute_name,
    validate_device_name,
    validate_pool_name,
)
from kube_lab_server.kinds.kind_rules import KindRules, PartRules, keep, keep_metadata
from kube_lab_server.kinds.node_checks import check_device_resources, validate_node_selector
from kube_lab_server.kinds.pod.volume_sources import validate_driver_name
from kube_lab_server.kinds.table_columns import AGE, NAME, Column, Table, age_of, human_age, name_of
from kube_lab_server.kinds.value_checks import validate_conditions
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import (
    FieldError,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
    too_many,
)
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _resource_slice(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        (spec.get("pool") or {}).get("name") or "",
        age_of(obj, now),
    ]


RESOURCE_SLICE_TABLE: Final = Table(
    (
        NAME,
        Column("Node", "Node that has the devices."),
        Column("Driver", "Driver of the devices."),
        Column("Pool", "Pool that the devices belong to."),
        AGE,
    ),
    _resource_slice,
)


_MAX_DEVICES: Final = 128
_MAX_FACTS: Final = 32
_MAX_VALUE: Final = 64
_SHOWN_KEY: Final = 63 + 1 + 32
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_PRERELEASE: Final = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = r"[0-9a-zA-Z-]+"
_is_semantic_version: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?",
    re.ASCII,
).fullmatch
_PLACES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"

# Fields of features that are off: partitions, taints, conditions of binding.
_OFF: Final = ("sharedCounters", "perDeviceNodeSelection")
_OFF_OF_DEVICES: Final = (
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "taints",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
)


_VALUES: Final = ("bool", "int", "string", "version")
_LISTS: Final = tuple(f"{field}s" for field in _VALUES)


def _drop(slice_: Json, _old: Json | None = None, *, shares: bool, lists: bool) -> None:
    """Drop the fields of features that are off."""
    spec = slice_.get("spec") or {}
    for field in _OFF:
        spec.pop(field, None)
    for device in spec.get("devices") or []:
        for field in _OFF_OF_DEVICES:
            device.pop(field, None)
        if not shares:
            device.pop("allowMultipleAllocations", None)
            for capacity in (device.get("capacity") or {}).values():
                capacity.pop("requestPolicy", None)
        for attribute in (device.get("attributes") or {}).values() if not lists else ():
            for field in _LISTS:
                attribute.pop(field, None)


def _check(slice_: Json) -> list[FieldError]:
    spec = slice_.get("spec") or {}
    pool = spec.get("pool") or {}
    errors = validate_driver_name(spec.get("driver") or "", "spec.driver")
    errors += validate_pool_name(pool.get("name") or "", "spec.pool.name")
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        detail = "must be greater than zero"
        errors.append(invalid("spec.pool.resourceSliceCount", count, detail))
    if (generation := pool.get("generation") or 0) < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", generation, detail))
    errors += _check_place(spec)
    devices = spec.get("devices") or []
    return errors + check_items(
        devices, _MAX_DEVICES, _check_device, "spec.devices", key=lambda item: item.get("name")
    )


def _check_place(spec: Json) -> list[FieldError]:
    """Check that a slice says in exactly one way which nodes can reach its devices."""
    node, selector, everywhere = (
        spec.get(field) for field in ("nodeName", "nodeSelector", "allNodes")
    )
    errors, given = [], []
    if node:
        given.append("`nodeName`")
        errors += invalids("spec.nodeName", node, names.dns_subdomain(node))
    elif node is not None:
        detail = "must be either unset or set to a non-empty string"
        errors.append(invalid("spec.nodeName", node, detail))
    if selector is not None:
        given.append("`nodeSelector`")
        errors += validate_node_selector(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            detail = "must have exactly one node selector term"
            errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail))
    if everywhere:
        given.append("`allNodes`")
    elif everywhere is not None:
        detail = "must be either unset or set to true"
        errors.append(invalid("spec.allNodes", everywhere, detail))
    if not given:
        return [*errors, required("spec", f"{_PLACES} is required")]
    if len(given) > 1:
        detail = f"{_PLACES} is required, but multiple fields are set"
        return [*errors, invalid("spec", "{" + ", ".join(given) + "}", detail)]
    return errors


def _check_device(device: Json, path: str) -> list[FieldError]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors = validate_device_name(device.get("name") or "", f"{path}.name")
    if (count := len(attributes) + len(capacity)) > _MAX_FACTS:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_FACTS}"
        errors.append(invalid(path, count, detail))
    for name, attribute in sorted(attributes.items()):
        place = f"{path}.attributes[{_shortened(name)}]"
        errors += validate_attribute_name(name, place) + _check_attribute(attribute, place)
    for name in sorted(capacity):
        errors += validate_attribute_name(name, f"{path}.capacity[{_shortened(name)}]")
    return errors + check_device_resources(device, path)


def _shortened(key: str) -> str:
    """Return a key for a path: without its middle if it is longer than any valid one."""
    if len(key) <= _SHOWN_KEY:
        return key
    left = _SHOWN_KEY - len("...")
    return key[: (left + 1) // 2] + "..." + key[len(key) - left // 2 :]


def _check_attribute(attribute: Json, path: str) -> list[FieldError]:
    errors = []
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > _MAX_VALUE:
        errors.append(too_long(f"{path}.string", _MAX_VALUE))
    if version is not None:
        place = f"{path}.version"
        if not _is_semantic_version(version):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid(place, version, detail))
        if len(version.encode()) > _MAX_VALUE:
            errors.append(too_long(place, _MAX_VALUE))
    # A server without lists has dropped them, and says that there is nothing.
    given = [attribute.get(field) for field in (*_VALUES, *_LISTS)]
    if sum(value is not None for value in given) != 1:
        shown = attribute or ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))
    return errors


def _check_change(new: Json, old: Json) -> list[FieldError]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    pools = [(one.get("pool") or {}).get("name") for one in (spec, before)]
    return [
        *immutable(pools[0], pools[1], "spec.pool.name"),
        *immutable(spec.get("driver"), before.get("driver"), "spec.driver"),
        *immutable(spec.get("nodeName"), before.get("nodeName"), "spec.nodeName"),
    ]


def resource_slice(*, shares: bool, lists: bool = False) -> KindRules:
    """Return the rules of slices.

    Args:
        shares: whether several claims may have a share of a device each.
        lists: whether an attribute may have several values.
    """
    drop = partial(_drop, shares=shares, lists=lists)
    return KindRules(
        table=RESOURCE_SLICE_TABLE,
        namespaced=False,
        counted=("spec",),
        on_create=drop,
        on_update=drop,
        check=_check,
        check_change=_check_change,
    )


def _device_taint_rule(obj: Json, now: datetime) -> list[JsonValue]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    told = [taint.get(field) or "" for field in ("key", "value", "effect")]
    added = human_age(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [name_of(obj), *told, added, age_of(obj, now)]


DEVICE_TAINT_RULE_TABLE: Final = Table(
    (
        NAME,
        Column("Key", "Key of the taint."),
        Column("Value", "Value of the taint."),
        Column("Effect", "What the taint does to claims that do not tolerate it."),
        Column("TimeAdded", "When the taint got its effect."),
        AGE,
    ),
    _device_taint_rule,
)


_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_MAX_CONDITIONS: Final = 8
_SELECTED: Final = {
    "driver": validate_driver_name,
    "pool": validate_pool_name,
    "device": validate_device_name,
}


def _on_create(rule: Json) -> None:
    taint = (rule.get("spec") or {}).get("taint")
    if taint and not taint.get("timeAdded"):
        taint["timeAdded"] = rule["metadata"]["creationTimestamp"]


def _check_taint_rule(rule: Json) -> list[FieldError]:
    spec = rule.get("spec") or {}
    selector = spec.get("deviceSelector") or {}
    errors = [
        error
        for field, check in _SELECTED.items()
        if selector.get(field) is not None
        for error in check(selector[field], f"spec.deviceSelector.{field}")
    ]
    return errors + _check_taint(spec.get("taint") or {}, "spec.taint")


def _check_taint(taint: Json, path: str) -> list[FieldError]:
    key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
    errors = invalids(f"{path}.key", key, names.qualified_name(key))
    errors += invalids(f"{path}.value", value, names.label_value(value))
    if not effect:
        errors.append(required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return errors


def _prepare_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    path, conditions = "status.conditions", (new.get("status") or {}).get("conditions") or []
    errors = validate_conditions(conditions, path)
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    return errors


DEVICE_TAINT_RULE: Final = KindRules(
    table=DEVICE_TAINT_RULE_TABLE,
    namespaced=False,
    counted=("spec",),
    parts={"status": PartRules(prepare=_prepare_status, check=_check_status)},
    on_create=_on_create,
    check=_check_taint_rule,
)
