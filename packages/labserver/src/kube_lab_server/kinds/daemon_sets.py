"""DaemonSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules
from kube_lab_server.kinds.pod.pod_defaults import (
    default_pod_template,
    validate_endless,
    validate_template,
    warn_of_template,
)
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    SELECTOR,
    TEMPLATE,
    Column,
    Table,
    age_of,
    format_labels,
    format_selector,
    name_of,
    number,
    spec_and_status,
    template_cells,
)
from kube_lab_server.kinds.value_checks import (
    amount_of,
    at_most_all,
    int_or_percent,
    is_convertible,
    is_empty,
    matches,
    not_decremented,
    not_negative,
    validate_label_selector,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import FieldError, invalid, not_supported, required

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


_DAEMON_COUNTS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
    template = spec.get("template") or {}
    return [
        name_of(obj),
        *(status.get(field) or 0 for field in _DAEMON_COUNTS),
        format_labels((template.get("spec") or {}).get("nodeSelector")),
        age_of(obj, now),
        *template_cells(template),
        format_selector(spec.get("selector")),
    ]


DAEMON_SET_TABLE: Final = Table(
    (
        NAME,
        number("Desired", "How many nodes shall run a pod."),
        number("Current", "How many of these nodes run one."),
        number("Ready", "How many of these nodes run one that is ready."),
        number("Up-to-date", "How many nodes run a pod of the current template."),
        number("Available", "How many nodes run a pod that has been ready for long enough."),
        Column("Node Selector", "Labels of the nodes that shall run a pod."),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    _daemon_set,
)


_GENERATION: Final = "deprecated.daemonset.template.generation"
_STATUS_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def _default(daemon_set: Json) -> None:
    spec = daemon_set.setdefault("spec", {})
    if spec.get("revisionHistoryLimit") is None:
        spec["revisionHistoryLimit"] = 10
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        for field, value in (("maxUnavailable", 1), ("maxSurge", 0)):
            if rolling.get(field) is None:
                rolling[field] = value
    default_pod_template(spec.setdefault("template", {}))


def _template_generation(daemon_set: Json) -> int:
    """Return the number that an annotation keeps for clients of older versions."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _note_generation(daemon_set: Json, number: int) -> None:
    meta = daemon_set["metadata"]
    meta["annotations"] = (meta.get("annotations") or {}) | {_GENERATION: str(number)}


def _on_create(daemon_set: Json) -> None:
    _note_generation(daemon_set, max(_template_generation(daemon_set), 1))


def _on_update(new: Json, old: Json) -> None:
    changed = new["spec"].get("template") != old["spec"].get("template")
    _note_generation(new, _template_generation(old) + changed)


def _check(daemon_set: Json) -> list[FieldError]:
    spec = daemon_set["spec"]
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = validate_label_selector(selector, "spec.selector")
    labels = (template.get("metadata") or {}).get("labels")
    if is_convertible(selector) and not matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, detail))
    if selector is not None and is_empty(selector):
        detail = "empty selector is invalid for daemonset"
        errors.append(invalid("spec.selector", selector, detail))
    errors += validate_template(template, "spec.template")
    errors += validate_endless(template, "DaemonSet", "spec.template")
    errors += not_negative(spec, ("minReadySeconds",), "spec")
    errors += _check_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return errors + not_negative(spec, ("revisionHistoryLimit",), "spec")


def _check_strategy(strategy: Json, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, strategy, ("RollingUpdate", "OnDelete"))]
    place = f"{path}.rollingUpdate"
    if rolling is None:
        return [required(place)]
    unavailable, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    errors: list[FieldError] = []
    for check in (int_or_percent, at_most_all):
        errors += check(unavailable, f"{place}.maxUnavailable")
        errors += check(surge, f"{place}.maxSurge")
    if amount_of(unavailable) and amount_of(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{place}.maxSurge", surge, detail))
    elif not amount_of(unavailable) and not amount_of(surge):
        errors.append(required(f"{place}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _check_status(new: Json, old: Json) -> list[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    errors = not_negative(status, _STATUS_COUNTS, "status")
    return errors + not_decremented(status, before, "collisionCount", "status")


DAEMON_SET: Final = KindRules(
    table=DAEMON_SET_TABLE,
    counted=("spec",),
    parts={"status": PartRules(check=_check_status)},
    default=_default,
    on_create=_on_create,
    on_update=_on_update,
    check=_check,
    check_change=_check_change,
    change_first=True,
    warn=warn_of_template,
    version_notes=frozenset({_GENERATION}),
)
