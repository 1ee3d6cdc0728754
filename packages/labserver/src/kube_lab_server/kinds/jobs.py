"""Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.job_status import (
    validate_failure_policy,
    validate_job_status,
    validate_replacement_policy,
    validate_success_policy,
)
from kube_lab_server.kinds.kind_rules import KindRules, PartRules, copy_json, keep
from kube_lab_server.kinds.pod.pod_defaults import default_pod_template, validate_template
from kube_lab_server.kinds.pod.pod_warnings import pod_warnings
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    SELECTOR,
    TEMPLATE,
    Column,
    Table,
    age_of,
    condition_status,
    format_selector,
    human_age,
    name_of,
    spec_and_status,
    template_cells,
    time_between,
)
from kube_lab_server.kinds.value_checks import (
    is_convertible,
    matches,
    not_negative,
    validate_label_selector,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import (
    FieldError,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
)
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
    return [
        name_of(obj),
        _job_state(obj),
        _completions(spec, status),
        _job_duration(status, now),
        age_of(obj, now),
        *template_cells(spec.get("template")),
        format_selector(spec.get("selector")),
    ]


def _job_state(obj: Json) -> str:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    for condition, shown in _JOB_STATES:
        if condition_status(obj, condition) == "True" if condition else deleted:
            return shown
    return "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded, parallelism = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if (wanted := spec.get("completions")) is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1" + (f" of {parallelism}" if parallelism > 1 else "")


def _job_duration(status: Json, now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return time_between(start, end) if end else human_age(start, now)


JOB_TABLE: Final = Table(
    (
        NAME,
        Column("Status", "Whether the job runs or how it ended."),
        Column("Completions", "How many pods have succeeded, of how many."),
        Column("Duration", "How long the job took, or has been running."),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    _job,
)


JOB_NAMES: Final = ("job-name", "batch.kubernetes.io/job-name")
CONTROLLER_UIDS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_MAX_INT32: Final = 2**31 - 1
_MAX_PARALLELISM: Final = 100_000
_MAX_FAILED_INDEXES: Final = 100_000
_MANY: Final = 100_000
_FEW: Final = 10_000
_MAX_MANAGER: Final = 63
_MODES: Final = ("NonIndexed", "Indexed")
_INDEXED_ONLY: Final = "requires indexed completion mode"
_NOT_MATCHING: Final = "`selector` does not match template `labels`"


def default_job_spec(spec: Json) -> None:
    """Fill in what also the jobs that a CronJob makes will have."""
    default_pod_template(spec.setdefault("template", {}))
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"


def _default(job: Json) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    replaced = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    patience = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
    for field, value in (
        ("parallelism", 1),
        ("backoffLimit", patience),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", replaced),
        ("manualSelector", False),
    ):
        if spec.get(field) is None:
            spec[field] = value
    default_job_spec(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    meta = job.setdefault("metadata", {})
    if labels and not meta.get("labels"):
        meta["labels"] = dict(labels)


def _on_create(job: Json) -> None:
    """Select the job's own pods by its uid, unless the user wants to select them."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template_meta = spec["template"].setdefault("metadata", {})
    labels = template_meta.get("labels") or {}
    # Labels that came from the template go on following it.
    follows = (meta.get("labels") or {}) == labels
    generated = dict.fromkeys(JOB_NAMES, meta.get("name") or "")
    generated |= dict.fromkeys(CONTROLLER_UIDS, meta.get("uid") or "")
    template_meta["labels"] = generated | labels
    if follows:
        meta["labels"] = dict(template_meta["labels"])
    selector = spec.get("selector") or {}
    wanted = selector.get("matchLabels") or {}
    spec["selector"] = selector | {
        "matchLabels": {CONTROLLER_UIDS[1]: meta.get("uid") or ""} | wanted
    }


def _check(job: Json) -> list[FieldError]:
    spec, meta = job["spec"], job["metadata"]
    errors = _check_generated(job)
    errors += _check_selected(spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        host = f"{meta.get('name') or ''}-{completions - 1}"
        if names.dns_label(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", meta.get("name"), detail))
    return errors


def _check_generated(job: Json) -> list[FieldError]:
    spec, meta = job["spec"], job["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    expected = dict.fromkeys(CONTROLLER_UIDS, meta.get("uid") or "")
    expected |= dict.fromkeys(JOB_NAMES, meta.get("name") or "")
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    errors = []
    for key in (CONTROLLER_UIDS[0], JOB_NAMES[0], CONTROLLER_UIDS[1], JOB_NAMES[1]):
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.append(required(path, f"must be '{expected[key]}'"))
        elif labels[key] != expected[key]:
            errors.append(invalid(path, labels, f"must be '{expected[key]}'"))
    if is_convertible(selector) and not matches(selector, expected):
        errors.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def _check_selected(spec: Json) -> list[FieldError]:
    errors = validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    errors += validate_label_selector(selector, "spec.selector")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if is_convertible(selector) and not matches(selector, labels):
        errors.append(invalid("spec.template.metadata.labels", labels or None, _NOT_MATCHING))
    return errors


def validate_job_spec(spec: Json, path: str) -> list[FieldError]:
    """Check what a job, or the template of one, shall do."""
    errors = not_negative(
        spec,
        (
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ),
        path,
    )
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "when maxFailedIndexes is specified"
        errors.append(required(f"{path}.backoffLimitPerIndex", detail))
    if (manager := spec.get("managedBy")) is not None:
        errors += _check_manager(manager, f"{path}.managedBy")
    errors += _check_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        errors += validate_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") == "Indexed":
            errors += validate_success_policy(spec, f"{path}.successPolicy")
        else:
            place = f"{path}.successPolicy"
            errors.append(invalid(place, spec["successPolicy"], _INDEXED_ONLY))
    errors += validate_replacement_policy(spec, f"{path}.podReplacementPolicy")
    template = spec.get("template") or {}
    errors += validate_template(template, f"{path}.template")
    return errors + _check_restart(spec, f"{path}.template.spec.restartPolicy")


def _check_manager(manager: str, path: str) -> list[FieldError]:
    domain, slash, rest = manager.partition("/")
    errors: list[FieldError] = []
    if not manager:
        errors.append(required(path))
    elif not (domain and slash and rest):
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        errors.append(invalid(path, manager, detail))
    else:
        errors += invalids(path, domain, names.dns_subdomain(domain))
        errors += invalids(path, rest, names.http_path(rest))
    if len(manager.encode()) > _MAX_MANAGER:
        errors.append(too_long(path, _MAX_MANAGER))
    return errors


def _check_mode(spec: Json, path: str) -> list[FieldError]:
    mode = spec.get("completionMode")
    errors = []
    if mode is not None and mode not in _MODES:
        errors.append(not_supported(f"{path}.completionMode", mode, _MODES))
    if mode == "Indexed":
        return errors + _check_indexed(spec, path)
    if mode in {None, "NonIndexed"}:
        errors += [
            invalid(f"{path}.{field}", spec[field], _INDEXED_ONLY)
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(field) is not None
        ]
    return errors


def _check_indexed(spec: Json, path: str) -> list[FieldError]:
    completions, failures = spec.get("completions"), spec.get("maxFailedIndexes")
    parallelism = spec.get("parallelism") or 0
    errors = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MAX_PARALLELISM:
        detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    place = f"{path}.maxFailedIndexes"
    if completions is not None and failures is not None and failures > completions:
        errors.append(invalid(place, failures, "must be less than or equal to completions"))
    if failures is not None and failures > _MAX_FAILED_INDEXES:
        detail = f"must be less than or equal to {_MAX_FAILED_INDEXES}"
        errors.append(invalid(place, failures, detail))
    if (completions or 0) > _MANY and spec.get("backoffLimitPerIndex") is not None:
        errors += _check_many(parallelism, failures, path)
    return errors


def _check_many(parallelism: int, failures: int | None, path: str) -> list[FieldError]:
    rule = (
        f"must be less than or equal to {_FEW} when completions are above {_MANY} "
        "and used with backoff limit per index"
    )
    errors = []
    if failures is None:
        detail = f"must be specified when completions is above {_MANY}"
        errors.append(required(f"{path}.maxFailedIndexes", detail))
    if parallelism > _FEW:
        errors.append(invalid(f"{path}.parallelism", parallelism, rule))
    if failures is not None and failures > _FEW:
        errors.append(invalid(f"{path}.maxFailedIndexes", failures, rule))
    return errors


def _check_restart(spec: Json, path: str) -> list[FieldError]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    if policy in {"", "Always"}:
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in {"OnFailure", "Never"}:
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(path, policy, detail)]
    return []


def _check_change(new: Json, old: Json) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    errors = _check_selected(after)
    errors += _check_completions(after, before)
    errors += immutable(after.get("selector"), before.get("selector"), "spec.selector")
    errors += _check_template_change(after, old)
    for field in (
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        errors += immutable(after.get(field), before.get(field), f"spec.{field}")
    return errors


def _check_completions(new: Json, old: Json) -> list[FieldError]:
    after, before = new.get("completions"), old.get("completions")
    if new.get("completionMode") != "Indexed":
        return immutable(after, before, "spec.completions")
    if after == before or after is None or after == new.get("parallelism"):
        return []
    detail = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", after, detail)]


def _check_template_change(spec: Json, old: Json) -> list[FieldError]:
    """Check that the template stays; where its pods may run can change until they have."""
    template, before = spec.get("template") or {}, old["spec"].get("template") or {}
    started = (old.get("status") or {}).get("startTime")
    if old["spec"].get("suspend") and started is None:
        before = _with_placement_of(template, before)
    return immutable(template, before, "spec.template")


def _with_placement_of(template: Json, before: Json) -> Json:
    merged = copy_json(before)
    pod, own = merged.setdefault("spec", {}), template.get("spec") or {}
    keep(pod, own, "nodeSelector", "tolerations", "schedulingGates")
    affinity = dict(pod.get("affinity") or {})
    keep(affinity, own.get("affinity") or {}, "nodeAffinity")
    if affinity or own.get("affinity") is not None:
        pod["affinity"] = affinity
    else:
        pod.pop("affinity", None)
    meta = merged.setdefault("metadata", {})
    keep(meta, template.get("metadata") or {}, "labels", "annotations")
    return merged


def warn_of_name(obj: Json) -> list[str]:
    """Warn of a name that pods cannot use as their host's."""
    wrong = names.dns_label(obj["metadata"].get("name") or "")
    if not wrong:
        return []
    rule = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; "
        "a DNS label is recommended"
    )
    return [f"metadata.name: {rule}: [{' '.join(wrong)}]"]


def job_spec_warnings(spec: Json, path: str) -> list[str]:
    """Return the warnings of a job's specification."""
    warnings = []
    completions, parallelism = spec.get("completions") or 0, spec.get("parallelism") or 0
    if spec.get("completionMode") == "Indexed" and completions > _MANY and parallelism > _FEW:
        rule = (
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
            "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big "
            "number of indexes fail"
        )
        warnings.append(f"{path}: {rule}")
    template = spec.get("template") or {}
    pod, meta = template.get("spec") or {}, template.get("metadata") or {}
    return warnings + pod_warnings(pod, meta, f"{path}.template")


def _warn(job: Json, old: Json | None) -> list[str]:
    if old is None:
        return warn_of_name(job) + job_spec_warnings(job["spec"], "spec")
    same = job["metadata"].get("generation") == old["metadata"].get("generation")
    return [] if same else job_spec_warnings(job["spec"], "spec")


JOB: Final = KindRules(
    table=JOB_TABLE,
    counted=("spec",),
    parts={"status": PartRules(check=validate_job_status)},
    default=_default,
    on_create=_on_create,
    check=_check,
    check_change=_check_change,
    rechecks_name=True,
    warn=_warn,
)
