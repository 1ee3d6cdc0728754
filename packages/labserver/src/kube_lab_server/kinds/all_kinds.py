"""Which rules hold for which kind.

Kinds that the types alone check.

The lab's server calls no webhooks. Webhooks and policies have defaults, because operators compare
what they wrote with what is stored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.autoscalers import AUTOSCALER, AUTOSCALER_V1, SCALE
from kube_lab_server.kinds.config_maps import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from kube_lab_server.kinds.cron_jobs import CRON_JOB
from kube_lab_server.kinds.daemon_sets import DAEMON_SET
from kube_lab_server.kinds.deployments import DEPLOYMENT
from kube_lab_server.kinds.device_claims import (
    DEVICE_CLASS,
    resource_claim,
    resource_claim_template,
)
from kube_lab_server.kinds.endpoints import ENDPOINT_SLICE, ENDPOINTS
from kube_lab_server.kinds.events import CORE_EVENT, NEW_EVENT
from kube_lab_server.kinds.ingresses import INGRESS, INGRESS_CLASS, NETWORK_POLICY
from kube_lab_server.kinds.jobs import JOB
from kube_lab_server.kinds.kind_rules import STATUS, KindRules
from kube_lab_server.kinds.limit_ranges import LIMIT_RANGE
from kube_lab_server.kinds.namespaces import NAMESPACE, RESOURCE_QUOTA
from kube_lab_server.kinds.nodes import NODE
from kube_lab_server.kinds.persistent_volumes import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from kube_lab_server.kinds.pods import POD
from kube_lab_server.kinds.priority_classes import LEASE, PRIORITY_CLASS, RUNTIME_CLASS
from kube_lab_server.kinds.replica_sets import (
    DISRUPTION_BUDGET,
    POD_TEMPLATE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
)
from kube_lab_server.kinds.resource_slices import DEVICE_TAINT_RULE, resource_slice
from kube_lab_server.kinds.roles import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from kube_lab_server.kinds.services import SERVICE
from kube_lab_server.kinds.stateful_sets import CONTROLLER_REVISION, STATEFUL_SET
from kube_lab_server.kinds.storage_classes import (
    CSI_DRIVER,
    CSI_NODE,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_lab_server.kind_names import GVK, Json


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


_PLAIN: Final = KindRules(own_metadata=False)

_RULES: Final[dict[tuple[str, str], KindRules]] = {
    **CHECKED_BY_TYPE,
    ("", "ConfigMap"): CONFIG_MAP,
    ("", "Endpoints"): ENDPOINTS,
    ("", "Event"): CORE_EVENT,
    ("", "LimitRange"): LIMIT_RANGE,
    ("", "Namespace"): NAMESPACE,
    ("", "Node"): NODE,
    ("", "PersistentVolume"): PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): POD,
    ("", "PodTemplate"): POD_TEMPLATE,
    ("", "ReplicationController"): REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): RESOURCE_QUOTA,
    ("", "Secret"): SECRET,
    ("", "Service"): SERVICE,
    ("", "ServiceAccount"): SERVICE_ACCOUNT,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): MUTATING_WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): ADMISSION_POLICIES,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): ADMISSION_POLICY_BINDINGS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): VALIDATING_WEBHOOKS,
    ("apps", "ControllerRevision"): CONTROLLER_REVISION,
    ("apps", "DaemonSet"): DAEMON_SET,
    ("apps", "Deployment"): DEPLOYMENT,
    ("apps", "ReplicaSet"): REPLICA_SET,
    ("apps", "StatefulSet"): STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): AUTOSCALER,
    ("autoscaling", "Scale"): SCALE,
    ("batch", "CronJob"): CRON_JOB,
    ("batch", "Job"): JOB,
    ("coordination.k8s.io", "Lease"): LEASE,
    ("discovery.k8s.io", "EndpointSlice"): ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): NEW_EVENT,
    ("networking.k8s.io", "Ingress"): INGRESS,
    ("networking.k8s.io", "IngressClass"): INGRESS_CLASS,
    ("networking.k8s.io", "NetworkPolicy"): NETWORK_POLICY,
    ("node.k8s.io", "RuntimeClass"): RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): DISRUPTION_BUDGET,
    ("rbac.authorization.k8s.io", "ClusterRole"): CLUSTER_ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): CLUSTER_ROLE_BINDING,
    ("rbac.authorization.k8s.io", "Role"): ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): ROLE_BINDING,
    ("resource.k8s.io", "DeviceClass"): DEVICE_CLASS,
    ("resource.k8s.io", "DeviceTaintRule"): DEVICE_TAINT_RULE,
    ("resource.k8s.io", "ResourceClaim"): resource_claim(shares=False),
    ("resource.k8s.io", "ResourceClaimTemplate"): resource_claim_template(shares=False),
    ("resource.k8s.io", "ResourceSlice"): resource_slice(shares=False),
    ("scheduling.k8s.io", "PriorityClass"): PRIORITY_CLASS,
    ("storage.k8s.io", "CSIDriver"): CSI_DRIVER,
    ("storage.k8s.io", "CSINode"): CSI_NODE,
    ("storage.k8s.io", "StorageClass"): STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): VOLUME_ATTACHMENT,
}

# The kinds whose fields, and so rules, differ between versions.
_OF_VERSION: Final[dict[tuple[str, str, str], KindRules]] = {
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): AUTOSCALER_V1,
}


SHARES: Final = "DRAConsumableCapacity"
"""The gate of a feature that is off by default up to 1.35: devices that several claims share."""
LISTS: Final = "DRAListTypeAttributes"
"""The gate of attributes of devices that have several values; off by default up to 1.37."""
_BY_GATES: Final[dict[tuple[str, str], Callable[[frozenset[str]], KindRules]]] = {
    ("resource.k8s.io", "ResourceClaim"): lambda gates: resource_claim(shares=SHARES in gates),
    ("resource.k8s.io", "ResourceClaimTemplate"): lambda gates: resource_claim_template(
        shares=SHARES in gates
    ),
    ("resource.k8s.io", "ResourceSlice"): lambda gates: resource_slice(
        shares=SHARES in gates, lists=LISTS in gates
    ),
}
GATES: Final = frozenset({SHARES, LISTS})
"""The gates that can be set."""


@lru_cache(maxsize=1024)
def rules_of(gvk: GVK, gates: frozenset[str] = frozenset()) -> KindRules:
    """Return the rules of a kind with some *gates* on; one that is not known has none."""
    name = (gvk.group, gvk.kind)
    if gates & GATES and name in _BY_GATES:
        return _BY_GATES[name](gates)
    own = _OF_VERSION.get(gvk)
    return own or _RULES.get(name, _PLAIN)
