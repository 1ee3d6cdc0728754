"""Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules, keep
from kube_lab_server.kinds.pod.pod_defaults import (
    default_pod_template,
    validate_replicated,
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
    format_selector,
    name_of,
    spec_and_status,
    template_cells,
)
from kube_lab_server.kinds.value_checks import (
    amount_of,
    at_most_all,
    int_or_percent,
    not_decremented,
    not_greater,
    not_negative,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import FieldError, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


# A deployment shows selectors that select nothing or cannot be read in its own way.
_DEPLOYMENT_SELECTORS: Final = {"<none>": "", "<error>": "<invalid>"}


def _deployment(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
    selector = format_selector(spec.get("selector"))
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age_of(obj, now),
        *template_cells(spec.get("template")),
        _DEPLOYMENT_SELECTORS.get(selector, selector),
    ]


DEPLOYMENT_TABLE: Final = Table(
    (
        NAME,
        Column("Ready", "How many pods are ready, of how many there shall be."),
        Column("Up-to-date", "How many pods follow the current template."),
        Column("Available", "How many pods have been ready for long enough."),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    _deployment,
)


STATUS_COUNTS: Final = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)
ABOVE_REPLICAS: Final = "cannot be greater than status.replicas"
_STRATEGIES: Final = ("Recreate", "RollingUpdate")


def _default(deployment: Json) -> None:
    spec = deployment.setdefault("spec", {})
    for field, value in (
        ("replicas", 1),
        ("revisionHistoryLimit", 10),
        ("progressDeadlineSeconds", 600),
    ):
        if spec.get(field) is None:
            spec[field] = value
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        for field in ("maxUnavailable", "maxSurge"):
            if rolling.get(field) is None:
                rolling[field] = "25%"
    default_pod_template(spec.setdefault("template", {}))


def _count_annotations(new: Json, old: Json) -> None:
    """Make a new generation of changed annotations, too: controllers copy them."""
    after, before = new["metadata"].get("annotations"), old["metadata"].get("annotations")
    if (after or {}) != (before or {}):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _prepare_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep(new["metadata"], old["metadata"], "labels")


def _check(deployment: Json) -> list[FieldError]:
    spec = deployment["spec"]
    errors = not_negative(spec, ("replicas",), "spec")
    errors += validate_replicated(spec, "spec")
    errors += _check_strategy(spec.get("strategy") or {}, "spec.strategy")
    errors += not_negative(
        spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
    return errors


def _check_strategy(strategy: Json, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    place = f"{path}.rollingUpdate"
    if kind == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(place, detail)]
    if kind != "RollingUpdate":
        return [not_supported(path, strategy, _STRATEGIES)]
    if rolling is None:
        return [required(place, "this should be defaulted and never be nil")]
    unavailable, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    errors = int_or_percent(unavailable, f"{place}.maxUnavailable")
    errors += int_or_percent(surge, f"{place}.maxSurge")
    if not amount_of(unavailable) and not amount_of(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{place}.maxUnavailable", unavailable, detail))
    return errors + at_most_all(unavailable, f"{place}.maxUnavailable")


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _check_status(new: Json, old: Json) -> list[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    errors = not_negative(status, STATUS_COUNTS, "status")
    fields = ("updatedReplicas", "readyReplicas", "availableReplicas")
    errors += not_greater(status, fields, "replicas", "status", ABOVE_REPLICAS)
    detail = "cannot be greater than readyReplicas"
    errors += not_greater(status, ("availableReplicas",), "readyReplicas", "status", detail)
    return errors + not_decremented(status, before, "collisionCount", "status")


DEPLOYMENT: Final = KindRules(
    table=DEPLOYMENT_TABLE,
    counted=("spec",),
    parts={"status": PartRules(prepare=_prepare_status, check=_check_status)},
    default=_default,
    on_update=_count_annotations,
    check=_check,
    check_change=_check_change,
    warn=warn_of_template,
)
