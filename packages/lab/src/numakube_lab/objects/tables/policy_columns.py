"""The tables of bindings of roles, webhooks, devices and what else governs a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.display import age_text
from numakube_lab.objects.tables.age_texts import human_age
from numakube_lab.objects.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    condition_status,
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


def _signing_request(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age_of(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else age_text(seconds),
        _signing_state(obj),
    ]


def _signing_state(obj: Json) -> str:
    def has(condition: str) -> bool:
        return condition_status(obj, condition) is not None

    states = ["Denied" if has("Denied") else "Approved" if has("Approved") else "Pending"]
    if has("Failed"):
        states.append("Failed")
    if (obj.get("status") or {}).get("certificate"):
        states.append("Issued")
    return ",".join(states)


SIGNING_REQUEST: Final = Table(
    (
        NAME,
        AGE,
        Column("SignerName", "Who shall sign."),
        Column("Requestor", "User who asked for the certificate."),
        Column("RequestedDuration", "How long the certificate shall be valid."),
        Column("Condition", "What became of the request."),
    ),
    _signing_request,
)


def _webhooks(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len(obj.get("webhooks") or []), age_of(obj, now)]


WEBHOOK_CONFIGURATION: Final = Table(
    (NAME, number("Webhooks", "How many webhooks are called."), AGE), _webhooks
)


def _param_kind(obj: Json) -> str:
    kind = (obj.get("spec") or {}).get("paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}"


def _validating_policy(obj: Json, now: datetime) -> list[JsonValue]:
    count = len((obj.get("spec") or {}).get("validations") or [])
    return [name_of(obj), count, _param_kind(obj), age_of(obj, now)]


def _mutating_policy(obj: Json, now: datetime) -> list[JsonValue]:
    count = len((obj.get("spec") or {}).get("mutations") or [])
    return [name_of(obj), count, _param_kind(obj), age_of(obj, now)]


_PARAM_KIND: Final = Column("ParamKind", "Kind of the policy's parameters.")
VALIDATING_POLICY: Final = Table(
    (NAME, number("Validations", "How many rules there are."), _PARAM_KIND, AGE),
    _validating_policy,
)
MUTATING_POLICY: Final = Table(
    (NAME, number("Mutations", "How many changes are made."), _PARAM_KIND, AGE), _mutating_policy
)


def _policy_binding(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    parameters = spec.get("paramRef") or {}
    name, namespace = parameters.get("name"), parameters.get("namespace")
    shown = f"{namespace or '*'}/{name}" if name else UNSET
    return [name_of(obj), spec.get("policyName") or "", shown, age_of(obj, now)]


POLICY_BINDING: Final = Table(
    (
        NAME,
        Column("PolicyName", "Policy that is put to use."),
        Column("ParamRef", "Object with the parameters."),
        AGE,
    ),
    _policy_binding,
)


def _flow_schema(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    method = spec.get("distinguisherMethod")
    dangling = condition_status(obj, "Dangling")
    return [
        name_of(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        spec.get("matchingPrecedence") or 0,
        NONE if method is None else method.get("type") or "",
        age_of(obj, now),
        "?" if dangling is None else dangling,
    ]


FLOW_SCHEMA: Final = Table(
    (
        NAME,
        Column("PriorityLevel", "Level of the requests that match."),
        Column("MatchingPrecedence", "Schemas with smaller numbers are tried first."),
        Column("DistinguisherMethod", "How requests are told apart."),
        AGE,
        Column("MissingPL", "Whether the level does not exist."),
    ),
    _flow_schema,
)


def _priority_level(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    queuing = ((limited or {}).get("limitResponse") or {}).get("queuing")
    shares: JsonValue = NONE if limited is None else limited.get("nominalConcurrencyShares") or 0
    queues: list[JsonValue] = [
        NONE if queuing is None else queuing.get(field) or 0
        for field in ("queues", "handSize", "queueLengthLimit")
    ]
    return [name_of(obj), spec.get("type") or "", shares, *queues, age_of(obj, now)]


PRIORITY_LEVEL: Final = Table(
    (
        NAME,
        Column("Type", "Whether requests of the level are limited."),
        Column("NominalConcurrencyShares", "Share of the requests served at a time."),
        Column("Queues", "How many queues there are."),
        Column("HandSize", "Among how many queues a flow is spread."),
        Column("QueueLengthLimit", "How many requests may wait in a queue."),
        AGE,
    ),
    _priority_level,
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


def _device_taint(obj: Json, now: datetime) -> list[JsonValue]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    added = taint.get("timeAdded")
    texts = [taint.get(field) or "" for field in ("key", "value", "effect")]
    return [name_of(obj), *texts, human_age(added, now) if added else "", age_of(obj, now)]


DEVICE_TAINT: Final = Table(
    (
        NAME,
        Column("Key", "Key of the taint."),
        Column("Value", "Value of the taint."),
        Column("Effect", "What the taint does to pods."),
        Column("TimeAdded", "Time since the taint was added."),
        AGE,
    ),
    _device_taint,
)


def _api_service(obj: Json, now: datetime) -> list[JsonValue]:
    service = (obj.get("spec") or {}).get("service")
    shown = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    return [name_of(obj), shown, _availability(obj), age_of(obj, now)]


def _availability(obj: Json) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or []
    for condition in conditions:
        if condition["type"] == "Available":
            reason = condition.get("reason")
            status = str(condition.get("status") or "")
            return f"{status} ({reason})" if status != "True" and reason else status
    return "Unknown"


API_SERVICE: Final = Table(
    (
        NAME,
        Column("Service", "Who serves the version of the group."),
        Column("Available", "Whether it is served."),
        AGE,
    ),
    _api_service,
)
