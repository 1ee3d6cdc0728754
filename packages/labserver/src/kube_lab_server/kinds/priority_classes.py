"""PriorityClasses and RuntimeClasses, which pods name, and Leases, which leaders hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView, KindAdmission, KindRules
from kube_lab_server.kinds.node_checks import DEPRECATED_LABELS, validate_tolerations
from kube_lab_server.kinds.pod.pod_spec import PREEMPTION_POLICIES
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    Column,
    Table,
    age_of,
    flag,
    name_of,
    number,
)
from kube_lab_server.schema.metadata_checks import immutable, validate_labels
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.api.resource_requirements import round_to_milli, validate_requirements
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _lease(obj: Json, now: datetime) -> list[JsonValue]:
    holder = (obj.get("spec") or {}).get("holderIdentity") or ""
    return [name_of(obj), holder, age_of(obj, now)]


LEASE_TABLE: Final = Table((NAME, Column("Holder", "Who holds the lease."), AGE), _lease)


def _priority_class(obj: Json, now: datetime) -> list[JsonValue]:
    return [
        name_of(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


PRIORITY_CLASS_TABLE: Final = Table(
    (
        NAME,
        number("Value", "Priority of the pods of the class."),
        flag("Global-Default", "Whether pods without a class get this one."),
        AGE,
        Column("PreemptionPolicy", "Whether the pods may take the place of others."),
    ),
    _priority_class,
)


def _runtime_class(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), obj.get("handler") or "", age_of(obj, now)]


RUNTIME_CLASS_TABLE: Final = Table(
    (NAME, Column("Handler", "Configuration of the container runtime."), AGE), _runtime_class
)


SYSTEM_CLASSES: Final = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}
_HIGHEST: Final = 1_000_000_000


def _default_priority(found: Json) -> None:
    if found.get("preemptionPolicy") is None:
        found["preemptionPolicy"] = "PreemptLowerPriority"


def _on_priority_create(found: Json) -> None:
    # Nothing of a priority class can change that would make a second generation.
    found["metadata"]["generation"] = 1


def _check_priority(found: Json) -> list[FieldError]:
    name, value = found["metadata"].get("name") or "", found.get("value") or 0
    errors = []
    if name.startswith("system-"):
        if wrong := _system_problem(name, value, default=bool(found.get("globalDefault"))):
            rule = "priority class names with 'system-' prefix are reserved for system use only"
            errors.append(forbidden("metadata.name", f"{rule}. error: {wrong}"))
    elif value > _HIGHEST:
        rule = "maximum allowed value of a user defined priority is"
        errors.append(forbidden("value", f"{rule} {_HIGHEST}"))
    policy = found.get("preemptionPolicy")
    if policy is not None and policy not in PREEMPTION_POLICIES:
        known = not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES)
        errors.append(known if policy else required("preemptionPolicy"))
    return errors


def _system_problem(name: str, value: int, *, default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_CLASSES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def _check_priority_change(new: Json, old: Json) -> list[FieldError]:
    errors = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    after, before = new.get("preemptionPolicy"), old.get("preemptionPolicy")
    return errors + immutable(after, before, "preemptionPolicy")


def check_priority_class(found: Json, view: ClusterView) -> AdmissionRefused | None:
    """Refuse a second default class."""
    if not found.get("globalDefault"):
        return None
    own = found["metadata"].get("name")
    for other in view.list("scheduling.k8s.io", "PriorityClass"):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != own:
            rule = "is already marked as default. Only one default can exist"
            return AdmissionRefused(f"PriorityClass {name} {rule}")
    return None


PRIORITY_CLASS: Final = KindRules(
    table=PRIORITY_CLASS_TABLE,
    admission=KindAdmission(
        check_create=(check_priority_class,), check_update={"": check_priority_class}
    ),
    namespaced=False,
    default=_default_priority,
    on_create=_on_priority_create,
    # What was accepted once is not looked at again: only what changes is.
    check_create=_check_priority,
    check_change=_check_priority_change,
)


def _default_runtime(found: Json) -> None:
    round_to_milli((found.get("overhead") or {}).get("podFixed"))


def _check_runtime(found: Json) -> list[FieldError]:
    handler = found.get("handler") or ""
    errors = invalids("handler", handler, names.dns_label(handler))
    if (overhead := found.get("overhead")) is not None:
        errors += validate_requirements({"limits": overhead.get("podFixed")}, "overhead")
    if (scheduling := found.get("scheduling")) is not None:
        errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        path = "scheduling.tolerations"
        errors += validate_tolerations(tolerations, path)
        plain = [{k: v for k, v in t.items() if k != "tolerationSeconds"} for t in tolerations]
        errors += [
            duplicate(f"{path}[{index}]", tolerations[index])
            for index, one in enumerate(plain)
            if one in plain[:index]
        ]
    return errors


def _check_runtime_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("handler") or "", old.get("handler") or "", "handler")


def _warn_runtime(found: Json, old: Json | None) -> list[str]:
    del old
    selector = (found.get("scheduling") or {}).get("nodeSelector") or {}
    deprecated = (DEPRECATED_LABELS[key] for key in sorted(selector) if key in DEPRECATED_LABELS)
    return [f"scheduling.nodeSelector: {text}" for text in deprecated]


RUNTIME_CLASS: Final = KindRules(
    table=RUNTIME_CLASS_TABLE,
    namespaced=False,
    knows_finalizers=False,
    default=_default_runtime,
    check=_check_runtime,
    check_change=_check_runtime_change,
    rechecks_name=True,
    warn=_warn_runtime,
)


def _drop_election(lease: Json) -> None:
    """Drop the fields of coordinated elections, which are off."""
    for field in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(field, None)


def _drop_election_on_update(new: Json, old: Json) -> None:
    del old
    _drop_election(new)


def _check_lease(lease: Json) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors: list[FieldError] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        path = "spec.leaseDurationSeconds"
        errors.append(invalid(path, duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, names.NOT_NEGATIVE))
    return errors


LEASE: Final = KindRules(
    table=LEASE_TABLE,
    knows_finalizers=False,
    on_create=_drop_election,
    on_update=_drop_election_on_update,
    check=_check_lease,
)
