"""StatefulSets, and the ControllerRevisions that remember their templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.deployments import ABOVE_REPLICAS
from kube_lab_server.kinds.kind_rules import KindRules, PartRules
from kube_lab_server.kinds.pod.pod_defaults import (
    default_pod_template,
    validate_endless,
    validate_match,
    validate_selector,
    validate_template,
    warn_of_template,
)
from kube_lab_server.kinds.pod.volume_sources import default_claim_spec, validate_claim_spec
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    TEMPLATE,
    Column,
    Table,
    age_of,
    name_of,
    spec_and_status,
    template_cells,
)
from kube_lab_server.kinds.value_checks import (
    amount_of,
    at_most_all,
    int_or_percent,
    is_convertible,
    not_decremented,
    not_greater,
    not_negative,
)
from kube_lab_server.schema.metadata_checks import immutable, validate_annotations, validate_labels
from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _stateful_set(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        age_of(obj, now),
        *template_cells(spec.get("template")),
    ]


STATEFUL_SET_TABLE: Final = Table(
    (NAME, Column("Ready", "How many pods are ready, of how many."), AGE, *TEMPLATE),
    _stateful_set,
)


def _revision(obj: Json, now: datetime) -> list[JsonValue]:
    owners = obj["metadata"].get("ownerReferences") or []
    controller = next((owner for owner in owners if owner.get("controller")), None)
    shown = _owner_text(controller) if controller else NONE
    return [name_of(obj), shown, obj.get("revision") or 0, age_of(obj, now)]


def _owner_text(owner: Json) -> str:
    group, _, _version = owner["apiVersion"].rpartition("/")
    kind = ".".join(filter(None, (owner["kind"], group))).lower()
    return f"{kind}/{owner['name']}"


CONTROLLER_REVISION_TABLE: Final = Table(
    (
        NAME,
        Column("Controller", "Object that the revision is of."),
        Column("Revision", "Number of the revision."),
        AGE,
    ),
    _revision,
)


_RETENTION: Final = ("Retain", "Delete")
_MUTABLE: Final = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FIXED_SPEC: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_STATUS_COUNTS: Final = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)


def _default(stateful_set: Json) -> None:
    spec = stateful_set.setdefault("spec", {})
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    for field, value in (("replicas", 1), ("revisionHistoryLimit", 10)):
        if spec.get(field) is None:
            spec[field] = value
    _default_strategy(spec.setdefault("updateStrategy", {}))
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    spec["persistentVolumeClaimRetentionPolicy"] = {
        when: retention.get(when) or "Retain" for when in ("whenDeleted", "whenScaled")
    }
    for claim in spec.get("volumeClaimTemplates") or []:
        default_claim_spec(claim.setdefault("spec", {}))
        claim["apiVersion"] = claim.get("apiVersion") or "v1"
        claim["kind"] = claim.get("kind") or "PersistentVolumeClaim"
        status = claim.setdefault("status", {})
        status["phase"] = status.get("phase") or "Pending"
    default_pod_template(spec.setdefault("template", {}))


def _default_strategy(strategy: Json) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        if rolling.get("partition") is None:
            rolling["partition"] = 0
        # How many may be missing at once is behind a gate that is off in 1.35.
        rolling.pop("maxUnavailable", None)


def _check(stateful_set: Json) -> list[FieldError]:
    return _check_spec(stateful_set["spec"])


def _check_create(stateful_set: Json) -> list[FieldError]:
    spec = stateful_set["spec"]
    errors: list[FieldError] = []
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or []):
        path = f"spec.volumeClaimTemplates[{index}].spec"
        errors += validate_claim_spec(claim.get("spec") or {}, path)
    if service := spec.get("serviceName"):
        errors += invalids("spec.serviceName", service, names.dns_label(service))
    return errors


def _check_spec(spec: Json) -> list[FieldError]:
    errors = _check_policies(spec)
    errors += not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    ordinals = spec.get("ordinals") or {}
    if (start := ordinals.get("start") or 0) < 0:
        errors.append(invalid("spec.ordinals.start", start, names.NOT_NEGATIVE))
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors += validate_selector(selector, "statefulset", "spec.selector")
    if is_convertible(selector):
        errors += _check_template(spec, selector, template)
    else:
        errors.append(invalid("spec.selector", selector, ""))
    return errors + validate_endless(template, "StatefulSet", "spec.template")


def _check_policies(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in {"OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, detail))
    errors += _check_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for when, choice in retention.items():
        if choice not in _RETENTION:
            path = f"spec.persistentVolumeClaimRetentionPolicy.{when}"
            errors.append(not_supported(path, choice, _RETENTION))
    return errors


def _check_strategy(strategy: Json, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    place = f"{path}.rollingUpdate"
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [] if rolling is None else [invalid(place, rolling, detail)]
    if kind != "RollingUpdate":
        return [invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    errors = not_negative(rolling, ("partition",), place)
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        field = f"{place}.maxUnavailable"
        errors += int_or_percent(unavailable, field)
        if not amount_of(unavailable):
            errors.append(invalid(field, unavailable, "cannot be 0"))
        errors += at_most_all(unavailable, field)
    return errors


def _check_template(spec: Json, selector: Json | None, template: Json) -> list[FieldError]:
    path = "spec.template"
    errors = validate_match(selector, template, path)
    errors += validate_template(_with_claims(spec, template), path)
    meta = template.get("metadata") or {}
    errors += validate_labels(meta.get("labels"), f"{path}.labels")
    return errors + validate_annotations(meta.get("annotations"), f"{path}.annotations")


def _with_claims(spec: Json, template: Json) -> Json:
    """Return *template* as its pods will be: with volumes of the claims and their own names."""
    pod_spec = dict(template.get("spec") or {})
    pod_spec.pop("subdomain", None)
    pod_spec.pop("hostname", None)
    claims = [
        (claim.get("metadata") or {}).get("name") or ""
        for claim in spec.get("volumeClaimTemplates") or []
    ]
    if claims:
        made = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
        own = [v for v in pod_spec.get("volumes") or [] if v.get("name") not in claims]
        pod_spec["volumes"] = made + own
    return template | {"spec": pod_spec}


def _check_change(new: Json, old: Json) -> list[FieldError]:
    after, before = (
        {field: value for field, value in obj["spec"].items() if field not in _MUTABLE}
        for obj in (new, old)
    )
    return [] if after == before else [forbidden("spec", _FIXED_SPEC)]


def _check_status(new: Json, old: Json) -> list[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    errors = not_negative(status, _STATUS_COUNTS, "status")
    fields = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors += not_greater(status, fields, "replicas", "status", ABOVE_REPLICAS)
    detail = "cannot be greater than status.readyReplicas"
    errors += not_greater(status, ("availableReplicas",), "readyReplicas", "status", detail)
    return errors + not_decremented(status, before, "collisionCount", "status")


STATEFUL_SET: Final = KindRules(
    table=STATEFUL_SET_TABLE,
    name_check=names.dns_label,
    counted=("spec",),
    parts={"status": PartRules(check=_check_status)},
    default=_default,
    check=_check,
    check_create=_check_create,
    check_change=_check_change,
    warn=warn_of_template,
)


def _check_revision(revision: Json) -> list[FieldError]:
    return not_negative(revision, ("revision",), "")


def _check_new_revision(revision: Json) -> list[FieldError]:
    data = revision.get("data")
    if data is None:
        return [required("data", "data is mandatory")]
    good = isinstance(data, dict)
    return [] if good else [required("data", "data must be a valid JSON object")]


def _check_revision_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("data"), old.get("data"), "data")


CONTROLLER_REVISION: Final = KindRules(
    table=CONTROLLER_REVISION_TABLE,
    check=_check_revision,
    check_create=_check_new_revision,
    check_change=_check_revision_change,
    rechecks_name=True,
)
