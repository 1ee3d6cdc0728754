"""What the API server knows of built-in kinds: defaults, checks, admission and columns.

All of it is pure: objects are JSON dicts in canonical form (see `numakube_lab.kinds.TypeInfo`),
arguments are never changed, other objects are looked up through a `ClusterView` that the caller
gives. Follows kube-apiserver 1.35 with its default feature gates.

The order of a creation: `default`, `admit_create`, `prepare_create`, `validate_create`, then
`check_create`; of an update: `default`, `admit_update`, `prepare_update`, `validate_update`, then
`check_update`. What holds for the metadata of every kind, custom ones included, is in
`numakube_lab.schema.metadata_checks` (`validate_any_create` and `validate_any_update`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_lab.objects.admission_chain import (
    admit_create,
    admit_update,
    check_create,
    check_update,
)
from numakube_lab.objects.checks.cluster_view import ClusterView, Refused
from numakube_lab.objects.checks.kind_rules import copy_json, leave, sharing
from numakube_lab.objects.rules_by_kind import rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import GVK, Json

__all__ = [
    "ClusterView",
    "Refused",
    "admit_create",
    "admit_update",
    "bare_metadata",
    "check_create",
    "check_update",
    "checks_metadata",
    "default",
    "prepare_create",
    "prepare_update",
    "validate_create",
    "validate_update",
    "warnings",
]


def default(gvk: GVK, obj: Json) -> Json:
    """Return *obj* with the defaults of its kind filled in."""
    rules = rules_of(gvk)
    return obj if rules.default is leave else _changed(obj, rules.default)


def prepare_create(gvk: GVK, obj: Json) -> Json:
    """Return a new object, which has its name, uid and time, with what a creation sets."""
    rules = rules_of(gvk)
    return _changed(obj, rules.prepare_create) if rules.changes_new else obj


def prepare_update(gvk: GVK, new: Json, old: Json, *, subresource: str = "", now: str = "") -> Json:
    """Return *new* with what the update of an object or of its part cannot change from *old*."""
    changed = copy_json(new)
    rules = rules_of(gvk)
    if not subresource:
        rules.prepare_update(changed, old)
    elif subresource in rules.parts:
        rules.parts[subresource].prepare(changed, old, now)
    return sharing(changed, new)


def _changed(obj: Json, change: Callable[[Json], None]) -> Json:
    """Return *obj* as *change* makes it."""
    changed = copy_json(obj)
    change(changed)
    return sharing(changed, obj)


def checks_metadata(gvk: GVK) -> bool:
    """Tell whether `validate_create` checks the metadata of the kind."""
    return rules_of(gvk).own_metadata


def validate_create(gvk: GVK, obj: Json) -> list[FieldError]:
    """Check a new object that is complete."""
    return rules_of(gvk).validate_create(obj)


def validate_update(gvk: GVK, new: Json, old: Json, *, subresource: str = "") -> list[FieldError]:
    """Check a changed object that is complete."""
    rules = rules_of(gvk)
    if not subresource:
        return rules.validate_update(new, old)
    return rules.validate_part(subresource, new, old) if subresource in rules.parts else []


def warnings(gvk: GVK, obj: Json, old: Json | None = None, *, subresource: str = "") -> list[str]:
    """Return the warnings about an accepted object, or a part of one."""
    rules = rules_of(gvk)
    if not subresource:
        return rules.warn(obj, old)
    return rules.parts[subresource].warn(obj) if subresource in rules.parts else []


def bare_metadata(gvk: GVK, obj: Json) -> Json:
    """Return the metadata of an object for those who ask for nothing else."""
    metadata: Json = obj["metadata"]
    notes, annotations = rules_of(gvk).version_notes, metadata.get("annotations") or {}
    if notes.isdisjoint(annotations):
        return metadata
    kept = {key: text for key, text in annotations.items() if key not in notes}
    shown = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**shown, "annotations": kept} if kept else shown
