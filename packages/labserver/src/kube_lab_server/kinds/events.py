"""Events of both groups: the older core/v1 and events.k8s.io/v1, which is stricter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules
from kube_lab_server.kinds.table_columns import NAME, Column, Table, human_age, name_of, wide
from kube_lab_server.schema.metadata_checks import (
    immutable,
    validate_metadata,
    validate_metadata_update,
    validate_own_finalizers,
)
from numakube.api.field_errors import FieldError, invalid, invalids, required
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


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


CORE_EVENT_TABLE: Final = Table(_EVENT_COLUMNS, _core_event)


NEW_EVENT_TABLE: Final = Table(_EVENT_COLUMNS, _new_event)


_MAX_TEXT: Final = 128
_MAX_NOTE: Final = 1024
_OTHER_NAMESPACE: Final = "does not match event.namespace"
# The fields of events.k8s.io by the names that core/v1 has for them.
_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_FIXED_FIRST: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_EMPTY: Final = {"source": {}, "count": 0, "firstTimestamp": None, "lastTimestamp": None}


def _check_any(event: Json, aliases: Mapping[str, str], controller: str) -> list[FieldError]:
    """Check what holds for both groups; *controller* is the shown name of its field."""
    namespace = event["metadata"].get("namespace") or ""
    about = event.get(aliases.get("involvedObject", "involvedObject")) or {}
    regarded = about.get("namespace") or ""
    errors: list[FieldError] = []
    if event.get("eventTime") is None:
        expected = regarded == namespace if regarded else namespace in {"", "default"}
        if not expected:
            path = "involvedObject.namespace"
            errors.append(invalid(path, regarded, _OTHER_NAMESPACE))
    else:
        if not regarded and namespace not in {"default", "kube-system"}:
            path = "involvedObject.namespace"
            errors.append(invalid(path, regarded, _OTHER_NAMESPACE))
        errors += _check_report(event, aliases, controller)
    return errors + invalids("namespace", namespace, names.dns_subdomain(namespace))


def _check_report(event: Json, aliases: Mapping[str, str], controller: str) -> list[FieldError]:
    reporter = event.get(aliases.get("reportingComponent", "reportingComponent")) or ""
    errors = [] if reporter else [required(controller)]
    errors += invalids(controller, reporter, names.qualified_name(reporter))
    for field in ("reportingInstance", "action", "reason"):
        errors += _check_text(event.get(field) or "", field)
    note = event.get(aliases.get("message", "message")) or ""
    if len(note.encode("utf-8", "surrogatepass")) > _MAX_NOTE:
        errors.append(invalid("message", "", f"can have at most {_MAX_NOTE} characters"))
    return errors


def _check_text(text: str, path: str) -> list[FieldError]:
    if not text:
        return [required(path)]
    if len(text.encode("utf-8", "surrogatepass")) <= _MAX_TEXT:
        return []
    return [invalid(path, "", f"can have at most {_MAX_TEXT} characters")]


def _check_core(event: Json) -> list[FieldError]:
    return _check_any(event, {}, "reportingComponent")


CORE_EVENT: Final = KindRules(table=CORE_EVENT_TABLE, own_metadata=False, check=_check_core)


def _check_series(event: Json) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if series.get("lastObservedTime") is None:
        errors.append(required("series.lastObservedTime"))
    return errors


def _check_new(event: Json) -> list[FieldError]:
    return _check_any(event, _NEW_NAMES, "reportingController")


def _check_create(event: Json) -> list[FieldError]:
    meta = event["metadata"]
    errors = validate_metadata(meta, namespaced=True, name=names.dns_subdomain)
    errors += validate_own_finalizers(meta)
    errors += _check_series(event)
    if event.get("eventTime") is None:
        errors.append(required("eventTime"))
    kind = event.get("type") or ""
    if kind not in {"Normal", "Warning"}:
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    for field in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(_NEW_NAMES[field]):
            errors.append(invalid(field, "", "needs to be unset"))
    return errors


def _check_change(new: Json, old: Json) -> list[FieldError]:
    errors = validate_metadata_update(new["metadata"], old["metadata"])
    errors += validate_own_finalizers(new["metadata"])
    if new.get("series") != old.get("series"):
        errors += _check_series(new)
    for field in _FIXED_FIRST:
        key = _NEW_NAMES.get(field, field)
        path = "reportingController" if field == "reportingComponent" else field
        empty = _EMPTY.get(field)
        errors += immutable(new.get(key) or empty, old.get(key) or empty, path)
    return errors


NEW_EVENT: Final = KindRules(
    table=NEW_EVENT_TABLE,
    own_metadata=False,
    check=_check_new,
    check_create=_check_create,
    check_change=_check_change,
)
