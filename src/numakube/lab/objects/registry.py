"""Which rules hold for which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.objects.autoscalers import AUTOSCALER, AUTOSCALER_V1, SCALE
from numakube.lab.objects.config_maps import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from numakube.lab.objects.cron_jobs import CRON_JOB
from numakube.lab.objects.daemon_sets import DAEMON_SET
from numakube.lab.objects.deployments import DEPLOYMENT
from numakube.lab.objects.disruption_budgets import DISRUPTION_BUDGET
from numakube.lab.objects.endpoints import ENDPOINT_SLICE, ENDPOINTS
from numakube.lab.objects.events import CORE_EVENT, NEW_EVENT
from numakube.lab.objects.jobs import JOB
from numakube.lab.objects.kind_rules import KindRules
from numakube.lab.objects.namespaces import NAMESPACE
from numakube.lab.objects.networking import INGRESS, INGRESS_CLASS, NETWORK_POLICY
from numakube.lab.objects.nodes import NODE
from numakube.lab.objects.persistent_volumes import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from numakube.lab.objects.pods import POD
from numakube.lab.objects.quotas import LIMIT_RANGE, RESOURCE_QUOTA
from numakube.lab.objects.replica_sets import POD_TEMPLATE, REPLICA_SET, REPLICATION_CONTROLLER
from numakube.lab.objects.roles import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
)
from numakube.lab.objects.scheduling_classes import LEASE, PRIORITY_CLASS, RUNTIME_CLASS
from numakube.lab.objects.services import SERVICE
from numakube.lab.objects.stateful_sets import CONTROLLER_REVISION, STATEFUL_SET
from numakube.lab.objects.storage_classes import (
    CSI_DRIVER,
    CSI_NODE,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)

if TYPE_CHECKING:
    from numakube.lab.kinds import GVK

_PLAIN: Final = KindRules()

_RULES: Final[dict[tuple[str, str], KindRules]] = {
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


def rules_of(gvk: GVK) -> KindRules:
    """Return the rules of a kind; of one that is not known only the metadata is checked."""
    own = _OF_VERSION.get(gvk)
    return own or _RULES.get((gvk.group, gvk.kind), _PLAIN)
