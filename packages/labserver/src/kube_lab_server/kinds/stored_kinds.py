"""Kinds that the types alone check.

The lab's server calls no webhooks. Webhooks and policies have defaults, because operators compare
what they wrote with what is stored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import STATUS, KindRules
from numakube.values import names

if TYPE_CHECKING:
    from kube_lab_server.kind_names import Json


_CLUSTER_WIDE: Final = KindRules(namespaced=False, counted=("spec",), parts=STATUS)

CHECKED_BY_TYPE: Final[dict[tuple[str, str], KindRules]] = {
    ("apiregistration.k8s.io", "APIService"): KindRules(
        namespaced=False, name_check=names.path_segment, parts=STATUS
    ),
    ("certificates.k8s.io", "CertificateSigningRequest"): _CLUSTER_WIDE,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _CLUSTER_WIDE,
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): _CLUSTER_WIDE,
    ("networking.k8s.io", "IPAddress"): KindRules(namespaced=False),
    ("networking.k8s.io", "ServiceCIDR"): KindRules(namespaced=False, parts=STATUS),
    ("storage.k8s.io", "CSIStorageCapacity"): KindRules(),
    ("storage.k8s.io", "VolumeAttributesClass"): KindRules(namespaced=False),
}
"""Kinds of whose objects nothing but types and metadata is checked, and nothing is filled in."""


def _default_webhooks(configuration: Json, **more: str) -> None:
    for hook in configuration.get("webhooks") or []:
        _fill(hook, failurePolicy="Fail", timeoutSeconds=10, matchPolicy="Equivalent")
        _fill(hook, namespaceSelector={}, objectSelector={}, **more)
        for rule in hook.get("rules") or ():
            _fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            _fill(service, port=443)


def _fill(part: Json, **values: object) -> None:
    part.update({field: value for field, value in values.items() if part.get(field) is None})


def _default_policy(policy: Json) -> None:
    spec = policy["spec"]
    _fill(spec, failurePolicy="Fail")
    _default_matching(spec.get("matchConstraints"))


def _default_policy_binding(binding: Json) -> None:
    _default_matching(binding["spec"].get("matchResources"))


def _default_matching(resources: Json | None) -> None:
    if resources is None:
        return
    _fill(resources, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in (
        *(resources.get("resourceRules") or ()),
        *(resources.get("excludeResourceRules") or ()),
    ):
        _fill(rule, scope="*")


ADMISSION_POLICIES: Final = replace(_CLUSTER_WIDE, default=_default_policy)
ADMISSION_POLICY_BINDINGS: Final = replace(_CLUSTER_WIDE, default=_default_policy_binding)
VALIDATING_WEBHOOKS: Final = KindRules(
    namespaced=False,
    knows_finalizers=False,
    counted=("webhooks",),
    default=_default_webhooks,
    rechecks_name=True,
)
MUTATING_WEBHOOKS: Final = replace(
    VALIDATING_WEBHOOKS, default=partial(_default_webhooks, reinvocationPolicy="Never")
)
