"""The few things of a pod's specification that may change, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, required
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import json_diff, keep
from numakube_lab.objects.checks.node_selector_checks import validate_node_affinity_mutation
from numakube_lab.objects.checks.taint_checks import validate_only_added_tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_MAX_INT32: Final = 2**31 - 1
_UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` "
        "(allow it to be set to 1 if it was previously negative)",
    )
)
_ONLY_ADDITIONS: Final = (
    "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
)


def validate_pod_update(new: Json, old: Json) -> list[FieldError]:
    """Check the change of a pod's specification from *old* to *new*."""
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        path = f"spec.{field}"
        after = new.get(field) or []
        if len(after) != len(old.get(field) or []):
            detail = "pod updates may not add or remove containers"
            return [*errors, forbidden(path, detail)]
        errors += _validate_images(after, path)
    wrong, stop = _validate_deadline(new, old)
    errors += wrong
    if stop:
        return errors
    errors += validate_only_added_tolerations(
        new.get("tolerations") or [], old.get("tolerations") or [], "spec.tolerations"
    )
    errors += _validate_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    return errors if new == old else errors + _validate_rest(new, old)


def _validate_images(containers: Sequence[Json], path: str) -> list[FieldError]:
    errors = []
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        place = f"{path}[{index}].image"
        if not image:
            errors.append(required(place))
        if image.strip() != image:
            errors.append(invalid(place, image, "must not have leading or trailing whitespace"))
    return errors


def _validate_deadline(new: Json, old: Json) -> tuple[list[FieldError], bool]:
    """Return what is wrong with the deadline, and whether the rest need not be looked at."""
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is None:
            return [], False
        return [invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= after <= _MAX_INT32:
        return [invalid(path, after, names.range_message(0, _MAX_INT32))], True
    if before is not None and before < after:
        return [invalid(path, after, "must be less than or equal to previous value")], True
    return [], False


def _validate_gates(new: Sequence[Json], old: Sequence[Json]) -> list[FieldError]:
    known = {gate.get("name") for gate in old}
    errors = []
    for index, gate in enumerate(new):
        if (name := gate.get("name")) not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", detail))
    return errors


def _validate_rest(new: Json, old: Json) -> list[FieldError]:
    """Undo the changes that are allowed; what is left is refused."""
    rest = dict(new)
    for field in ("containers", "initContainers"):
        if field in new:
            before = old.get(field) or []
            rest[field] = [
                container | {"image": was.get("image")}
                for container, was in zip(new[field] or [], before, strict=True)
            ]
    keep(rest, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and rest.get("terminationGracePeriodSeconds") == 1:
        rest["terminationGracePeriodSeconds"] = grace
    errors = _validate_gated(rest, old) if old.get("schedulingGates") else []
    if rest != old:
        shown = json_diff(old, rest)
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n{shown}"
        errors.append(forbidden("spec", detail))
    return errors


def _validate_gated(rest: Json, old: Json) -> list[FieldError]:
    """Check and undo what may still change while the pod is held back from scheduling."""
    errors: list[FieldError] = []
    after, before = rest.get("nodeSelector"), old.get("nodeSelector") or {}
    if (after or {}) != before:
        if not before.items() <= (after or {}).items():
            errors.append(invalid("spec.nodeSelector", after or None, _ONLY_ADDITIONS))
        keep(rest, old, "nodeSelector")
    own, was = rest.get("affinity"), old.get("affinity")
    new_node, old_node = (own or {}).get("nodeAffinity"), (was or {}).get("nodeAffinity")
    if new_node != old_node:
        path = "spec.affinity.nodeAffinity"
        errors += validate_node_affinity_mutation(new_node, old_node, path)
        _undo_node_affinity(rest, old, old_node)
    return errors


def _undo_node_affinity(rest: Json, old: Json, old_node: Json | None) -> None:
    affinity = dict(rest.get("affinity") or {})
    keep(affinity, {} if old_node is None else {"nodeAffinity": old_node}, "nodeAffinity")
    if not affinity and old.get("affinity") is None:
        rest.pop("affinity", None)
    else:
        rest["affinity"] = affinity
