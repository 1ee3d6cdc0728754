"""Kinds that configure the API server itself, and a few that few clients write.

Their defaults are filled in and what may not change does not; the rest is checked by their types
alone. The lab's server calls no webhooks and enforces no policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values import names
from numakube_lab.objects.checks.kind_rules import STATUS, KindRules, PartRules, keep, keep_metadata
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.field_errors import (
        FieldError,
    )
    from numakube_lab.kinds import Json


_QUEUING: Final = (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50))


def _default_flow_schema(schema: Json) -> None:
    spec = schema.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _default_priority_level(level: Json) -> None:
    spec = level.setdefault("spec", {})
    for kind, shares in (("exempt", 0), ("limited", 30)):
        if (settings := spec.get(kind)) is None:
            continue
        for field, value in (("nominalConcurrencyShares", shares), ("lendablePercent", 0)):
            if settings.get(field) is None:
                settings[field] = value
        queuing = (settings.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            queuing.update({field: queuing.get(field) or value for field, value in _QUEUING})


def _default_api_service(service: Json) -> None:
    reference = (service.get("spec") or {}).get("service")
    if reference is not None and reference.get("port") is None:
        reference["port"] = 443


def _on_api_service(service: Json) -> None:
    if (service.get("spec") or {}).get("service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": service["metadata"].get("creationTimestamp"),
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        service["status"] = {"conditions": [condition]}


def _keep_all_but_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)


def _on_request_update(new: Json, old: Json) -> None:
    keep(new, old, "spec")


def _check_attributes_change(new: Json, old: Json) -> list[FieldError]:
    return [
        error
        for field in ("driverName", "parameters")
        for error in immutable(new.get(field), old.get(field), field)
    ]


def _check_capacity_change(new: Json, old: Json) -> list[FieldError]:
    return [
        error
        for field in ("nodeTopology", "storageClassName")
        for error in immutable(new.get(field), old.get(field), field)
    ]


FLOW_SCHEMA: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_flow_schema,
)
PRIORITY_LEVEL: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_priority_level,
)
API_SERVICE: Final = KindRules(
    namespaced=False,
    name_check=names.path_segment,
    parts={"status": PartRules(prepare=_keep_all_but_status)},
    default=_default_api_service,
    on_create=_on_api_service,
)
SIGNING_REQUEST: Final = KindRules(
    namespaced=False,
    parts={
        "status": PartRules(prepare=_keep_all_but_status),
        "approval": PartRules(),
    },
    on_update=_on_request_update,
)
VOLUME_ATTRIBUTES_CLASS: Final = KindRules(namespaced=False, check_change=_check_attributes_change)
CSI_STORAGE_CAPACITY: Final = KindRules(check_change=_check_capacity_change)
CLUSTER_WIDE: Final = KindRules(namespaced=False)
"""Kinds without a namespace of which only the metadata is checked."""
CLUSTER_WIDE_WITH_STATUS: Final = KindRules(namespaced=False, parts=STATUS)


def _default_hook(hook: Json) -> None:
    for field, value in (("failurePolicy", "Fail"), ("timeoutSeconds", 10)):
        if hook.get(field) is None:
            hook[field] = value
    _default_match(hook)
    _default_rules(hook.get("rules"))
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


def _default_match(match: Json) -> None:
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field) is None:
            match[field] = {}


def _default_rules(rules: Sequence[Json] | None) -> None:
    for rule in rules or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"


def _default_validating(configuration: Json) -> None:
    for hook in configuration.get("webhooks") or []:
        _default_hook(hook)


def _default_mutating(configuration: Json) -> None:
    for hook in configuration.get("webhooks") or []:
        _default_hook(hook)
        if hook.get("reinvocationPolicy") is None:
            hook["reinvocationPolicy"] = "Never"


def _default_policy(policy: Json) -> None:
    spec = policy.setdefault("spec", {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
    _default_resources(spec.get("matchConstraints"))


def _default_policy_binding(binding: Json) -> None:
    _default_resources((binding.get("spec") or {}).get("matchResources"))


def _default_resources(match: Json | None) -> None:
    if match is None:
        return
    _default_match(match)
    for field in ("resourceRules", "excludeResourceRules"):
        _default_rules(match.get(field))


VALIDATING_WEBHOOKS: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("webhooks",),
    default=_default_validating,
    rechecks_name=True,
)
MUTATING_WEBHOOKS: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("webhooks",),
    default=_default_mutating,
    rechecks_name=True,
)
VALIDATING_POLICY: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_policy,
)
VALIDATING_POLICY_BINDING: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("spec",),
    default=_default_policy_binding,
)
