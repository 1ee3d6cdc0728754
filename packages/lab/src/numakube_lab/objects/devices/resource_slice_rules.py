"""Slices: the devices of a pool, as their driver publishes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, invalids, required, too_long
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import KindRules
from numakube_lab.objects.checks.node_allocatable_checks import check_device_resources
from numakube_lab.objects.checks.node_selector_checks import validate_node_selector
from numakube_lab.objects.devices.device_names import (
    validate_attribute_name,
    validate_device_name,
    validate_pool_name,
)
from numakube_lab.objects.devices.device_requests import check_items
from numakube_lab.objects.pod.volume_sources import validate_driver_name
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

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

# Fields of features that are off: partitions, taints, shared capacity, conditions of binding.
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
    "allowMultipleAllocations",
)


def _drop(slice_: Json) -> None:
    spec = slice_.get("spec") or {}
    for field in _OFF:
        spec.pop(field, None)
    for device in spec.get("devices") or []:
        for field in _OFF_OF_DEVICES:
            device.pop(field, None)
        for capacity in (device.get("capacity") or {}).values():
            capacity.pop("requestPolicy", None)


def _on_update(new: Json, old: Json) -> None:
    del old
    _drop(new)


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
    given = [attribute.get(field) for field in ("bool", "int", "string", "version")]
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


RESOURCE_SLICE: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    on_create=_drop,
    on_update=_on_update,
    check=_check,
    check_change=_check_change,
)
