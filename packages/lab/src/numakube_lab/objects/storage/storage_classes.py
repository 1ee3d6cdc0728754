"""StorageClasses, CSIDrivers and CSINodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import KindRules
from numakube_lab.objects.checks.numbers import not_negative
from numakube_lab.objects.pod.volume_sources import validate_driver_name
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_MAX_NODE_ID: Final = 256


def _default_class(found: Json) -> None:
    for field, value in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
        if found.get(field) is None:
            found[field] = value


def _check_class(found: Json) -> list[FieldError]:
    provisioner = (found.get("provisioner") or "").lower()
    wrong = names.qualified_name(provisioner)
    errors = [required("provisioner")]
    if provisioner:
        errors = invalids("provisioner", provisioner, wrong)
    policy = found.get("reclaimPolicy")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("reclaimPolicy", policy, _RECLAIM))
    mode = found.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    elif mode not in _BINDING:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING))
    return errors


def _check_class_change(new: Json, old: Json) -> list[FieldError]:
    errors = [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("parameters", "provisioner", "reclaimPolicy")
        if (new.get(field) or None) != (old.get(field) or None)
    ]
    after, before = new.get("volumeBindingMode"), old.get("volumeBindingMode")
    return errors + immutable(after, before, "volumeBindingMode")


STORAGE_CLASS: Final = KindRules(
    namespaced=False,
    default=_default_class,
    check=_check_class,
    check_change=_check_class_change,
    whole_first=True,
    rechecks_name=True,
)


def _default_driver(driver: Json) -> None:
    spec = driver.setdefault("spec", {})
    for field, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        if spec.get(field) is None:
            spec[field] = value
    spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]


def _on_driver_update(new: Json, old: Json) -> None:
    # Drivers count changes although they have no first generation.
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _check_driver_change(new: Json, old: Json) -> list[FieldError]:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    errors = immutable(
        after.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired"
    )
    field = "volumeLifecycleModes"
    return errors + immutable(after.get(field), before.get(field), f"spec.{field}")


CSI_DRIVER: Final = KindRules(
    namespaced=False,
    default=_default_driver,
    on_update=_on_driver_update,
    check_change=_check_driver_change,
)


def _check_csi_node(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or []):
        path = f"spec.drivers[{index}]"
        name, node_id = driver.get("name") or "", driver.get("nodeID") or ""
        errors += validate_driver_name(name, f"{path}.name")
        if not node_id:
            errors.append(required(f"{path}.nodeID"))
        elif len(node_id) > _MAX_NODE_ID:
            detail = f"must be {_MAX_NODE_ID} characters or less"
            errors.append(invalid(f"{path}.nodeID", node_id, detail))
        errors += not_negative(driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _check_topology_keys(driver.get("topologyKeys") or [], path)
    return errors


def _check_topology_keys(keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        errors += invalids(path, key, names.qualified_name(key))
    return errors


def _check_csi_node_change(new: Json, old: Json) -> list[FieldError]:
    before = {d.get("name"): d for d in (old.get("spec") or {}).get("drivers") or []}
    errors: list[FieldError] = []
    for driver in (new.get("spec") or {}).get("drivers") or []:
        was = before.get(driver.get("name"))
        if was is not None:
            after = {k: v for k, v in driver.items() if k != "allocatable"}
            fixed = {k: v for k, v in was.items() if k != "allocatable"}
            errors += immutable(after, fixed, "spec.drivers")
    return errors


CSI_NODE: Final = KindRules(
    namespaced=False,
    own_metadata_change=False,
    check=_check_csi_node,
    rechecks_twice=True,
    check_change=_check_csi_node_change,
    rechecks_name=True,
)
