"""Pods: what the server sets on them, what may change, and what ``kubectl get pods`` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.kinds.kind_rules import (
    KindAdmission,
    KindRules,
    PartRules,
    json_diff,
    keep,
    keep_metadata,
)
from kube_lab_server.kinds.limit_ranges import check_pod_limits, set_limits
from kube_lab_server.kinds.node_checks import (
    validate_node_affinity_mutation,
    validate_only_added_tolerations,
)
from kube_lab_server.kinds.pod.containers import validate_image_padding
from kube_lab_server.kinds.pod.pod_admission import (
    add_tolerations,
    check_overhead,
    compute_qos,
    copy_topology_labels,
    keep_priority,
    set_priority,
    set_runtime_class,
)
from kube_lab_server.kinds.pod.pod_defaults import default_pod
from kube_lab_server.kinds.pod.pod_placement import merge_label_keys
from kube_lab_server.kinds.pod.pod_spec import MIRROR_POD, validate_pod_spec
from kube_lab_server.kinds.pod.pod_status import (
    drop_other_changes,
    keep_observed_generations,
    validate_pod_status,
    validate_resize,
)
from kube_lab_server.kinds.pod.pod_warnings import (
    pod_warnings,
    validate_annotation_changes,
    validate_pod_annotations,
    validate_profile_annotations,
)
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    condition_status,
    human_age,
    name_of,
    wide,
)
from kube_lab_server.kinds.value_checks import address_warnings
from numakube.api.field_errors import FieldError, forbidden, invalid, required
from numakube.values import names
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue
    from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView


_COLUMNS: Final = (
    NAME,
    Column("Ready", "How many of the pod's containers are ready."),
    Column("Status", "What the pod's containers are doing, in one word."),
    Column("Restarts", "How often containers were started again, and when the last time was."),
    AGE,
    wide("IP", "First address of the pod."),
    wide("Node", "Node that the pod is bound to."),
    wide("Nominated Node", "Node on which pods are being preempted for this pod."),
    wide("Readiness Gates", "How many of the conditions that the pod waits for are true."),
)

_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(slots=True)
class _Summary:
    """What the containers add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, state: Json) -> None:
        self.restarts += state.get("restartCount") or 0
        ended = (state.get("lastState") or {}).get("terminated") or {}
        self.last_restart = max(self.last_restart, ended.get("finishedAt") or "")

    def shown_restarts(self, now: datetime) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({human_age(self.last_restart, now)} ago)"
        return str(self.restarts)


def _cells(pod: Json, now: datetime) -> list[JsonValue]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = _summarize(pod, spec, status)
    sidecars = sum(map(_is_sidecar, spec.get("initContainers") or []))
    return [
        name_of(pod),
        f"{summary.ready}/{len(spec.get('containers') or []) + sidecars}",
        _reason_of_deletion(pod, status) or summary.reason,
        summary.shown_restarts(now),
        age_of(pod, now),
        next((item.get("ip") for item in status.get("podIPs") or []), "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod, spec),
    ]


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _reason_of_deletion(pod: Json, status: Json) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _ENDED else "Terminating"


def _summarize(pod: Json, spec: Json, status: Json) -> _Summary:
    summary = _Summary(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            summary.reason = "SchedulingGated"
    of_sidecars = _Summary("")
    initializing = _add_init_containers(summary, of_sidecars, spec, status)
    if not initializing or condition_status(pod, "Initialized") == "True":
        summary.restarts, summary.last_restart = of_sidecars.restarts, of_sidecars.last_restart
        _add_containers(summary, pod, status)
    return summary


def _add_init_containers(
    summary: _Summary, of_sidecars: _Summary, spec: Json, status: Json
) -> bool:
    """Add the init containers up to the one that runs; tell whether one still does."""
    declared = spec.get("initContainers") or []
    sidecars = {container["name"] for container in declared if _is_sidecar(container)}
    for index, state in enumerate(status.get("initContainerStatuses") or []):
        summary.count_restarts(state)
        is_sidecar = state["name"] in sidecars
        if is_sidecar:
            of_sidecars.count_restarts(state)
        current = state.get("state") or {}
        terminated = current.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and state.get("started"):
            summary.ready += bool(state.get("ready"))
            continue
        summary.reason = "Init:" + (_init_reason(current) or f"{index}/{len(declared)}")
        return True
    return False


def _init_reason(state: Json) -> str:
    if (terminated := state.get("terminated")) is not None:
        return _ended(terminated)
    waiting: str = (state.get("waiting") or {}).get("reason") or ""
    return "" if waiting == "PodInitializing" else waiting


def _ended(terminated: Json) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _add_containers(summary: _Summary, pod: Json, status: Json) -> None:
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        summary.count_restarts(container)
        state = container.get("state") or {}
        terminated = state.get("terminated")
        if waiting := (state.get("waiting") or {}).get("reason"):
            summary.reason = waiting
        elif terminated is not None:
            summary.reason = _ended(terminated)
            failure = summary.reason if terminated.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        summary.reason = _after_completion(pod, failure, running=running)


def _after_completion(pod: Json, failure: str, *, running: bool) -> str:
    """Return what is said of a pod of which the first container has completed."""
    if running and condition_status(pod, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if running else "Completed")


def _gates(pod: Json, spec: Json) -> str:
    gates = spec.get("readinessGates") or []
    true = sum(condition_status(pod, gate["conditionType"]) == "True" for gate in gates)
    return f"{true}/{len(gates)}" if gates else NONE


def _conditions(pod: Json) -> tuple[Json, ...]:
    phase = (pod.get("status") or {}).get("phase")
    if phase not in _ENDED:
        return ()
    message = _ENDED[phase]
    return ({"type": "Completed", "status": "True", "reason": phase, "message": message},)


POD_TABLE: Final = Table(_COLUMNS, _cells, _conditions)


_MAX_INT32: Final = 2**31 - 1
_UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` "
        "(allow it to be set to 1 if it was previously negative)",
    )
)
_ONLY_ADDITIONS: Final = (
    "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
)


def validate_pod_update(new: Json, old: Json) -> list[FieldError]:
    """Check the change of a pod's specification from *old* to *new*."""
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        path = f"spec.{field}"
        after = new.get(field) or []
        if len(after) != len(old.get(field) or []):
            detail = "pod updates may not add or remove containers"
            return [*errors, forbidden(path, detail)]
        errors += _validate_images(after, path)
    wrong, stop = _validate_deadline(new, old)
    errors += wrong
    if stop:
        return errors
    errors += validate_only_added_tolerations(
        new.get("tolerations") or [], old.get("tolerations") or [], "spec.tolerations"
    )
    errors += _validate_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    return errors if new == old else errors + _validate_rest(new, old)


def _validate_images(containers: Sequence[Json], path: str) -> list[FieldError]:
    errors = []
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        place = f"{path}[{index}].image"
        if not image:
            errors.append(required(place))
        if image.strip() != image:
            errors.append(invalid(place, image, "must not have leading or trailing whitespace"))
    return errors


def _validate_deadline(new: Json, old: Json) -> tuple[list[FieldError], bool]:
    """Return what is wrong with the deadline, and whether the rest need not be looked at."""
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if after is None:
        if before is None:
            return [], False
        return [invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= after <= _MAX_INT32:
        return [invalid(path, after, names.range_message(0, _MAX_INT32))], True
    if before is not None and before < after:
        return [invalid(path, after, "must be less than or equal to previous value")], True
    return [], False


def _validate_gates(new: Sequence[Json], old: Sequence[Json]) -> list[FieldError]:
    known = {gate.get("name") for gate in old}
    errors = []
    for index, gate in enumerate(new):
        if (name := gate.get("name")) not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", detail))
    return errors


def _validate_rest(new: Json, old: Json) -> list[FieldError]:
    """Undo the changes that are allowed; what is left is refused."""
    rest = dict(new)
    for field in ("containers", "initContainers"):
        if field in new:
            before = old.get(field) or []
            rest[field] = [
                container | {"image": was.get("image")}
                for container, was in zip(new[field] or [], before, strict=True)
            ]
    keep(rest, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and rest.get("terminationGracePeriodSeconds") == 1:
        rest["terminationGracePeriodSeconds"] = grace
    errors = _validate_gated(rest, old) if old.get("schedulingGates") else []
    if rest != old:
        shown = json_diff(old, rest)
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n{shown}"
        errors.append(forbidden("spec", detail))
    return errors


def _validate_gated(rest: Json, old: Json) -> list[FieldError]:
    """Check and undo what may still change while the pod is held back from scheduling."""
    errors: list[FieldError] = []
    after, before = rest.get("nodeSelector"), old.get("nodeSelector") or {}
    if (after or {}) != before:
        if not before.items() <= (after or {}).items():
            errors.append(invalid("spec.nodeSelector", after or None, _ONLY_ADDITIONS))
        keep(rest, old, "nodeSelector")
    own, was = rest.get("affinity"), old.get("affinity")
    new_node, old_node = (own or {}).get("nodeAffinity"), (was or {}).get("nodeAffinity")
    if new_node != old_node:
        path = "spec.affinity.nodeAffinity"
        errors += validate_node_affinity_mutation(new_node, old_node, path)
        _undo_node_affinity(rest, old, old_node)
    return errors


def _undo_node_affinity(rest: Json, old: Json, old_node: Json | None) -> None:
    affinity = dict(rest.get("affinity") or {})
    keep(affinity, {} if old_node is None else {"nodeAffinity": old_node}, "nodeAffinity")
    if not affinity and old.get("affinity") is None:
        rest.pop("affinity", None)
    else:
        rest["affinity"] = affinity


_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _on_create(pod: Json) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    # A class that the client claims stays, as on a real server.
    qos = (pod.get("status") or {}).get("qosClass") or compute_qos(spec)
    status: dict[str, Any] = {"phase": "Pending", "qosClass": qos}
    if spec.get("schedulingGates"):
        status["conditions"] = [_GATED | {"lastTransitionTime": meta.get("creationTimestamp")}]
    pod["status"] = status
    merge_label_keys(spec, meta.get("labels") or {})


def _prepare_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep(new["metadata"], old["metadata"], "ownerReferences")
    new["metadata"].pop("deletionTimestamp", None)
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass"):
        keep(status, before, "qosClass")
    keep_observed_generations(status, before)


def _prepare_ephemeral(new: Json, old: Json, now: str) -> None:
    del now
    asked = new.get("spec") or {}
    new["spec"] = dict(old["spec"])
    keep(new["spec"], asked, "ephemeralContainers")
    keep(new, old, "status")
    keep_metadata(new, old)
    POD.count(new, old)


def _prepare_resize(new: Json, old: Json, now: str) -> None:
    del now
    drop_other_changes(new, old)
    POD.count(new, old)


def _check(pod: Json) -> list[FieldError]:
    spec = pod["spec"]
    errors = validate_pod_annotations(pod)
    errors += validate_pod_spec(spec, "spec", pod_meta=pod["metadata"])
    errors += _check_tokens(spec)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            errors += validate_image_padding(container, f"spec.{field}[{index}]")
    return errors


def _check_tokens(spec: Json) -> list[FieldError]:
    """Refuse tokens of a service account that the pod does not have."""
    if spec.get("serviceAccountName"):
        return []
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{v}].projected.sources[{s}].serviceAccountToken", detail)
        for v, volume in enumerate(spec.get("volumes") or [])
        for s, source in enumerate((volume.get("projected") or {}).get("sources") or [])
        if source.get("serviceAccountToken") is not None
    ]


def _check_create(pod: Json) -> list[FieldError]:
    spec = pod["spec"]
    errors = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors + validate_profile_annotations(pod)


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return validate_annotation_changes(new, old) + validate_pod_update(new["spec"], old["spec"])


def _check_status(new: Json, old: Json) -> list[FieldError]:
    return validate_annotation_changes(new, old) + validate_pod_status(new, old)


def _check_ephemeral(new: Json, old: Json) -> list[FieldError]:
    """Check that ephemeral containers are only added."""
    if MIRROR_POD in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    errors = validate_annotation_changes(new, old)
    path = "spec.ephemeralContainers"
    after = {c.get("name"): c for c in new["spec"].get("ephemeralContainers") or []}
    for container in old["spec"].get("ephemeralContainers") or []:
        name = go_quote(container.get("name") or "")
        now = after.get(container.get("name"))
        if now is None:
            detail = f"existing ephemeral containers {name} may not be removed\n"
            errors.append(forbidden(path, detail))
        elif now != container:
            shown = json_diff(container, now)
            detail = f"existing ephemeral containers {name} may not be changed\n{shown}"
            errors.append(forbidden(path, detail))
    return errors


def _warn(pod: Json, old: Json | None) -> list[str]:
    if old is not None:
        return []
    warnings = []
    if wrong := names.dns_label(pod["metadata"].get("name") or ""):
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in "
            f"surprising behavior; a DNS label is recommended: [{' '.join(wrong)}]"
        )
    return warnings + pod_warnings(pod["spec"], pod["metadata"], "")


def _warn_status(pod: Json) -> list[str]:
    status = pod.get("status") or {}
    return [
        warning
        for field in ("podIPs", "hostIPs")
        for index, entry in enumerate(status.get(field) or [])
        for warning in address_warnings(entry.get("ip") or "", f"status.{field}[{index}].ip")
    ]


def _admit_changed(pod: Json, old: Json, view: ClusterView) -> AdmissionRefused | None:
    keep_priority(pod, old)
    return add_tolerations(pod, view)


def _limit_resized(pod: Json, old: Json, view: ClusterView) -> AdmissionRefused | None:
    del old
    return set_limits(pod, view)


POD: Final = KindRules(
    table=POD_TABLE,
    admission=KindAdmission(
        create=(
            set_limits,
            set_priority,
            add_tolerations,
            set_runtime_class,
            copy_topology_labels,
        ),
        check_create=(check_pod_limits, check_overhead),
        update={"": _admit_changed, "resize": _limit_resized},
        check_update={"resize": check_pod_limits},
    ),
    counted=("spec",),
    parts={
        "status": PartRules(prepare=_prepare_status, check=_check_status, warn=_warn_status),
        "ephemeralcontainers": PartRules(
            prepare=_prepare_ephemeral, check=_check_ephemeral, rechecks=True
        ),
        "resize": PartRules(prepare=_prepare_resize, check=validate_resize, rechecks=True),
    },
    creates_status=True,
    default=default_pod,
    on_create=_on_create,
    check=_check,
    check_create=_check_create,
    check_change=_check_change,
    rechecks_name=True,
    warn=_warn,
)
