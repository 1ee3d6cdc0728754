"""Which rules hold for which kind."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.kind_rules import KindRules
from numakube_lab.objects.cluster.config_map_rules import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from numakube_lab.objects.cluster.event_rules import CORE_EVENT, NEW_EVENT
from numakube_lab.objects.cluster.limit_range_rules import LIMIT_RANGE
from numakube_lab.objects.cluster.namespace_rules import NAMESPACE, RESOURCE_QUOTA
from numakube_lab.objects.cluster.node_rules import NODE
from numakube_lab.objects.cluster.priority_class_rules import LEASE, PRIORITY_CLASS, RUNTIME_CLASS
from numakube_lab.objects.cluster.role_rules import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
)
from numakube_lab.objects.cluster.stored_kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CHECKED_BY_TYPE,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
)
from numakube_lab.objects.devices.device_claim_rules import (
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
)
from numakube_lab.objects.devices.device_taint_rules import DEVICE_TAINT_RULE
from numakube_lab.objects.devices.resource_slice_rules import RESOURCE_SLICE
from numakube_lab.objects.networking.endpoint_rules import ENDPOINT_SLICE, ENDPOINTS
from numakube_lab.objects.networking.ingress_rules import INGRESS, INGRESS_CLASS, NETWORK_POLICY
from numakube_lab.objects.networking.service_rules import SERVICE
from numakube_lab.objects.pod.pod_rules import POD
from numakube_lab.objects.storage.persistent_volume_rules import (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
)
from numakube_lab.objects.storage.storage_class_rules import (
    CSI_DRIVER,
    CSI_NODE,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from numakube_lab.objects.workloads.autoscaler_rules import AUTOSCALER, AUTOSCALER_V1, SCALE
from numakube_lab.objects.workloads.cron_job_rules import CRON_JOB
from numakube_lab.objects.workloads.daemon_set_rules import DAEMON_SET
from numakube_lab.objects.workloads.deployment_rules import DEPLOYMENT
from numakube_lab.objects.workloads.job_rules import JOB
from numakube_lab.objects.workloads.replica_set_rules import (
    DISRUPTION_BUDGET,
    POD_TEMPLATE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
)
from numakube_lab.objects.workloads.stateful_set_rules import CONTROLLER_REVISION, STATEFUL_SET

if TYPE_CHECKING:
    from numakube_lab.kinds import GVK

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
    ("resource.k8s.io", "ResourceClaim"): RESOURCE_CLAIM,
    ("resource.k8s.io", "ResourceClaimTemplate"): RESOURCE_CLAIM_TEMPLATE,
    ("resource.k8s.io", "ResourceSlice"): RESOURCE_SLICE,
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


@lru_cache(maxsize=1024)
def rules_of(gvk: GVK) -> KindRules:
    """Return the rules of a kind; one that is not known has none."""
    own = _OF_VERSION.get(gvk)
    return own or _RULES.get((gvk.group, gvk.kind), _PLAIN)
