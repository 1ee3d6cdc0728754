"""The tables of role bindings, disruption budgets and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    Column,
    Table,
    age_of,
    name_of,
    number,
    wide,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue


def _role_binding(obj: Json, now: datetime) -> list[JsonValue]:
    role, subjects = obj["roleRef"], obj.get("subjects") or []
    return [
        name_of(obj),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_of(obj, now),
        *(_subjects(subjects, kind) for kind in ("User", "Group")),
        _accounts(subjects),
    ]


def _subjects(subjects: list[Json], kind: str) -> str:
    return ", ".join(subject["name"] for subject in subjects if subject["kind"] == kind)


def _accounts(subjects: list[Json]) -> str:
    return ", ".join(
        f"{subject.get('namespace') or ''}/{subject['name']}"
        for subject in subjects
        if subject["kind"] == "ServiceAccount"
    )


ROLE_BINDING: Final = Table(
    (
        NAME,
        Column("Role", "Role that is granted."),
        AGE,
        wide("Users", "Users who get the role."),
        wide("Groups", "Groups that get the role."),
        wide("ServiceAccounts", "Service accounts that get the role."),
    ),
    _role_binding,
)


def _resource_claim(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


RESOURCE_CLAIM: Final = Table(
    (NAME, Column("State", "Whether devices were allocated and for pods."), AGE), _resource_claim
)


def _resource_slice(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        (spec.get("pool") or {}).get("name") or "",
        age_of(obj, now),
    ]


RESOURCE_SLICE: Final = Table(
    (
        NAME,
        Column("Node", "Node that has the devices."),
        Column("Driver", "Driver of the devices."),
        Column("Pool", "Pool that the devices belong to."),
        AGE,
    ),
    _resource_slice,
)


def _budget(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bounds = [spec.get(field) for field in ("minAvailable", "maxUnavailable")]
    return [
        name_of(obj),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        status.get("disruptionsAllowed") or 0,
        age_of(obj, now),
    ]


DISRUPTION_BUDGET: Final = Table(
    (
        NAME,
        Column("Min Available", "How many pods must stay available."),
        Column("Max Unavailable", "How many pods may be unavailable."),
        number("Allowed Disruptions", "How many pods may be disrupted now."),
        AGE,
    ),
    _budget,
)
