"""The tables of nodes, namespaces, events and what configures a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.age_texts import UNKNOWN, human_age
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    condition_status,
    flag,
    name_of,
    number,
    wide,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"
_INFO: Final = ("osImage", "kernelVersion", "containerRuntimeVersion")


def _node(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    return [
        name_of(obj),
        _node_state(obj),
        _roles(obj["metadata"].get("labels") or {}),
        age_of(obj, now),
        info.get("kubeletVersion") or "",
        *(_address(status, kind) for kind in ("InternalIP", "ExternalIP")),
        *(info.get(field) or UNKNOWN for field in _INFO),
    ]


def _node_state(obj: Json) -> str:
    ready = condition_status(obj, "Ready")
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return state + (",SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else "")


def _roles(labels: Json) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE) or "")
    return ",".join(sorted(roles - {""})) or NONE


def _address(status: Json, kind: str) -> str:
    addresses = status.get("addresses") or []
    return next((item.get("address") or "" for item in addresses if item.get("type") == kind), NONE)


NODE: Final = Table(
    (
        NAME,
        Column("Status", "Whether the node is ready and takes pods."),
        Column("Roles", "Roles of the node in the cluster."),
        AGE,
        Column("Version", "Version of the kubelet."),
        wide("Internal-IP", "First address within the cluster."),
        wide("External-IP", "First address that is reachable from outside."),
        wide("OS-Image", "Operating system of the node."),
        wide("Kernel-Version", "Version of the kernel."),
        wide("Container-Runtime", "Container runtime and its version."),
    ),
    _node,
)


def _namespace(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), (obj.get("status") or {}).get("phase") or "", age_of(obj, now)]


NAMESPACE: Final = Table(
    (NAME, Column("Status", "Whether the namespace is in use or going away."), AGE), _namespace
)


def _core_event(obj: Json, now: datetime) -> list[JsonValue]:
    return _event_cells(obj, now, deprecated=False)


def _new_event(obj: Json, now: datetime) -> list[JsonValue]:
    return _event_cells(obj, now, deprecated=True)


def _event_cells(obj: Json, now: datetime, *, deprecated: bool) -> list[JsonValue]:
    """Return the cells of an event, whose fields have other names in the newer group."""

    def of_old(name: str) -> JsonValue:
        return obj.get(f"deprecated{name[0].upper()}{name[1:]}" if deprecated else name)

    target = obj.get("regarding" if deprecated else "involvedObject") or {}
    series = obj.get("series")
    first = human_age(of_old("firstTimestamp") or obj.get("eventTime"), now)
    last = human_age(of_old("lastTimestamp"), now) if of_old("lastTimestamp") else first
    if series is not None:
        last = human_age(series.get("lastObservedTime"), now)
    count = (of_old("count") or 1) if series is None else series.get("count") or 0
    return [
        last,
        obj.get("type") or "",
        obj.get("reason") or "",
        "/".join(filter(None, ((target.get("kind") or "").lower(), target.get("name")))),
        target.get("fieldPath") or "",
        _event_source(obj, of_old("source") or {}),
        ((obj.get("note") if deprecated else obj.get("message")) or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def _event_source(obj: Json, source: Json) -> str:
    component = source.get("component") or obj.get("reportingController")
    component = component or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


_EVENT_COLUMNS: Final = (
    Column("Last Seen", "Time since it happened last."),
    Column("Type", "Normal or Warning."),
    Column("Reason", "Why the event was recorded, in one word."),
    Column("Object", "Object that the event is about."),
    wide("Subobject", "Part of the object that the event is about."),
    wide("Source", "Component that recorded the event."),
    Column("Message", "What happened."),
    wide("First Seen", "Time since it happened for the first time."),
    wide("Count", "How often it happened."),
    NAME._replace(priority=1),
)
CORE_EVENT: Final = Table(_EVENT_COLUMNS, _core_event)
NEW_EVENT: Final = Table(_EVENT_COLUMNS, _new_event)


def _lease(obj: Json, now: datetime) -> list[JsonValue]:
    holder = (obj.get("spec") or {}).get("holderIdentity") or ""
    return [name_of(obj), holder, age_of(obj, now)]


LEASE: Final = Table((NAME, Column("Holder", "Who holds the lease."), AGE), _lease)


def _priority_class(obj: Json, now: datetime) -> list[JsonValue]:
    return [
        name_of(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


PRIORITY_CLASS: Final = Table(
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


RUNTIME_CLASS: Final = Table(
    (NAME, Column("Handler", "Configuration of the container runtime."), AGE), _runtime_class
)


def _quota(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    shown = {name: f"{name}: {used.get(name) or '0'}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in shown.items() if name.startswith("limits.")]
    requests = [text for name, text in shown.items() if not name.startswith("limits.")]
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_of(obj, now)]


RESOURCE_QUOTA: Final = Table(
    (
        NAME,
        Column("Request", "Used and largest total of requests and numbers of objects."),
        Column("Limit", "Used and largest total of limits."),
        AGE,
    ),
    _quota,
)


def _config_map(obj: Json, now: datetime) -> list[JsonValue]:
    count = len(obj.get("data") or {}) + len(obj.get("binaryData") or {})
    return [name_of(obj), count, age_of(obj, now)]


def _secret(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), obj.get("type") or "", len(obj.get("data") or {}), age_of(obj, now)]


def _aged(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), age_of(obj, now)]


_DATA: Final = Column("Data", "How many entries there are.")
CONFIG_MAP: Final = Table((NAME, _DATA, AGE), _config_map)
SECRET: Final = Table((NAME, Column("Type", "What the secret is for."), _DATA, AGE), _secret)
AGED: Final = Table((NAME, AGE), _aged)
"""The table of kinds that only show their age."""
