"""StorageClasses, CSIDrivers, CSINodes and VolumeAttachments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules, keep, keep_metadata
from kube_lab_server.kinds.node_checks import DEPRECATED_LABELS, validate_topology_term
from kube_lab_server.kinds.pod.volume_sources import validate_driver_name
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    flag,
    name_of,
    number,
)
from kube_lab_server.kinds.value_checks import not_negative
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
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


_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _storage_class(obj: Json, now: datetime) -> list[JsonValue]:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)
    return [
        name_of(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


STORAGE_CLASS_TABLE: Final = Table(
    (
        NAME,
        Column("Provisioner", "Who makes the volumes."),
        Column("ReclaimPolicy", "What becomes of a volume after its claim."),
        Column("VolumeBindingMode", "When volumes are bound to claims."),
        Column("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ),
    _storage_class,
)


def _csi_node(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len((obj.get("spec") or {}).get("drivers") or []), age_of(obj, now)]


CSI_NODE_TABLE: Final = Table(
    (NAME, number("Drivers", "How many drivers there are on the node."), AGE), _csi_node
)


def _csi_driver(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    attach, tokens = spec.get("attachRequired"), spec.get("tokenRequests")
    audiences = ",".join(request.get("audience") or "" for request in tokens or [])
    return [
        name_of(obj),
        attach is None or bool(attach),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else audiences,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or []) or NONE,
        age_of(obj, now),
    ]


CSI_DRIVER_TABLE: Final = Table(
    (
        NAME,
        flag("AttachRequired", "Whether volumes have to be attached to nodes."),
        flag("PodInfoOnMount", "Whether the driver is told of the pod."),
        flag("StorageCapacity", "Whether the driver tells how much space is left."),
        Column("TokenRequests", "For whom the driver gets tokens of service accounts."),
        flag("RequiresRepublish", "Whether the driver is called again and again."),
        Column("Modes", "Which kinds of volumes there are."),
        AGE,
    ),
    _csi_driver,
)


_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS: Final = 512
_MAX_PARAMETER_BYTES: Final = 256 * 1024
_MAX_NODE_ID: Final = 256
_FS_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_TEN_MINUTES: Final = 600


_TOKENS_IN_SECRETS: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, "
    "set to true to prevent possible logging of tokens in volume attributes"
)


def _default_class(found: Json) -> None:
    for field, value in (("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")):
        if found.get(field) is None:
            found[field] = value


def _check_class(found: Json) -> list[FieldError]:
    provisioner = (found.get("provisioner") or "").lower()
    wrong = names.qualified_name(provisioner)
    errors = [required("provisioner")]
    if provisioner:
        errors = invalids("provisioner", provisioner, wrong)
    errors += _check_parameters(found.get("parameters") or {})
    policy = found.get("reclaimPolicy")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("reclaimPolicy", policy, _RECLAIM))
    mode = found.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    elif mode not in _BINDING:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING))
    terms = found.get("allowedTopologies") or []
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}]"
        errors += validate_topology_term(term, path)
        if term in terms[:index]:
            errors.append(duplicate(f"{path}.matchLabelExpressions", ""))
    return errors


def _check_parameters(parameters: dict[str, str]) -> list[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long("parameters", _MAX_PARAMETERS)]
    errors = []
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
    if size > _MAX_PARAMETER_BYTES:
        errors.append(too_long("parameters", _MAX_PARAMETER_BYTES))
    return errors


def _check_class_change(new: Json, old: Json) -> list[FieldError]:
    errors = [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("parameters", "provisioner", "reclaimPolicy")
        if (new.get(field) or None) != (old.get(field) or None)
    ]
    after, before = new.get("volumeBindingMode"), old.get("volumeBindingMode")
    return errors + immutable(after, before, "volumeBindingMode")


def _warn_class(found: Json, old: Json | None) -> list[str]:
    del old
    return [
        f"allowedTopologies[{index}].matchLabelExpressions[{place}].key: {text}"
        for index, term in enumerate(found.get("allowedTopologies") or [])
        for place, expression in enumerate(term.get("matchLabelExpressions") or [])
        if (text := DEPRECATED_LABELS.get(expression.get("key") or ""))
    ]


STORAGE_CLASS: Final = KindRules(
    table=STORAGE_CLASS_TABLE,
    namespaced=False,
    default=_default_class,
    check=_check_class,
    check_change=_check_class_change,
    whole_first=True,
    rechecks_name=True,
    warn=_warn_class,
)


def _default_driver(driver: Json) -> None:
    spec = driver.setdefault("spec", {})
    for field, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        if spec.get(field) is None:
            spec[field] = value
    spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]


def _on_driver_update(new: Json, old: Json) -> None:
    # Drivers count changes although they have no first generation.
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _check_driver(driver: Json) -> list[FieldError]:
    spec = driver.get("spec") or {}
    errors: list[FieldError] = []
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _FS_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_POLICIES))
    requests = spec.get("tokenRequests") or []
    for index, request in enumerate(requests):
        errors += _check_token_request(request, requests[:index], f"spec.tokenRequests[{index}]")
    known = ("Persistent", "Ephemeral")
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, known)
        for mode in spec.get("volumeLifecycleModes") or []
        if mode not in known
    ]
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        path = "spec.nodeAllocatableUpdatePeriodSeconds"
        errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
    secret = spec.get("serviceAccountTokenInSecrets")
    if secret is not None and not requests:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", secret, detail))
    return errors


def _check_token_request(request: Json, earlier: list[Json], path: str) -> list[FieldError]:
    audience = request.get("audience") or ""
    if any((other.get("audience") or "") == audience for other in earlier):
        return [duplicate(f"{path}.audience", audience)]
    seconds = request.get("expirationSeconds")
    place = f"{path}.expirationSeconds"
    if seconds is None:
        return []
    if seconds < _TEN_MINUTES:
        return [invalid(place, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > 1 << 32:
        return [invalid(place, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _check_driver_change(new: Json, old: Json) -> list[FieldError]:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    errors = immutable(
        after.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired"
    )
    field = "volumeLifecycleModes"
    return errors + immutable(after.get(field), before.get(field), f"spec.{field}")


def _warn_driver(driver: Json, old: Json | None) -> list[str]:
    spec = driver.get("spec") or {}
    requests = spec.get("tokenRequests") or []
    before = ((old or {}).get("spec") or {}).get("tokenRequests") or []
    if requests == before or spec.get("serviceAccountTokenInSecrets") is not None:
        return []
    return [_TOKENS_IN_SECRETS] if requests else []


CSI_DRIVER: Final = KindRules(
    table=CSI_DRIVER_TABLE,
    namespaced=False,
    default=_default_driver,
    on_update=_on_driver_update,
    check=_check_driver,
    check_change=_check_driver_change,
    warn=_warn_driver,
)


def _check_csi_node(node: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or []):
        path = f"spec.drivers[{index}]"
        name, node_id = driver.get("name") or "", driver.get("nodeID") or ""
        errors += validate_driver_name(name, f"{path}.name")
        if not node_id:
            errors.append(required(f"{path}.nodeID"))
        elif len(node_id) > _MAX_NODE_ID:
            detail = f"must be {_MAX_NODE_ID} characters or less"
            errors.append(invalid(f"{path}.nodeID", node_id, detail))
        errors += not_negative(driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _check_topology_keys(driver.get("topologyKeys") or [], path)
    return errors


def _check_topology_keys(keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        errors += invalids(path, key, names.qualified_name(key))
    return errors


def _check_csi_node_change(new: Json, old: Json) -> list[FieldError]:
    before = {d.get("name"): d for d in (old.get("spec") or {}).get("drivers") or []}
    errors: list[FieldError] = []
    for driver in (new.get("spec") or {}).get("drivers") or []:
        was = before.get(driver.get("name"))
        if was is not None:
            after = {k: v for k, v in driver.items() if k != "allocatable"}
            fixed = {k: v for k, v in was.items() if k != "allocatable"}
            errors += immutable(after, fixed, "spec.drivers")
    return errors


CSI_NODE: Final = KindRules(
    table=CSI_NODE_TABLE,
    namespaced=False,
    own_metadata_change=False,
    check=_check_csi_node,
    rechecks_twice=True,
    check_change=_check_csi_node_change,
    rechecks_name=True,
)


def _check_attachment_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("spec"), old.get("spec"), "spec")


def _prepare_attachment_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)


VOLUME_ATTACHMENT: Final = KindRules(
    namespaced=False,
    own_metadata_change=False,
    parts={"status": PartRules(prepare=_prepare_attachment_status)},
    check_change=_check_attachment_change,
    rechecks_name=True,
)
