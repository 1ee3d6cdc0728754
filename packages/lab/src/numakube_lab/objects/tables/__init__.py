"""Tables: what ``kubectl get`` shows of objects.

The server makes the table; ``kubectl`` merely prints it. A kind's table has columns, some of
which are only shown when asked for, and for each object a row of cells. Kinds without a table of
their own show their name and when they were created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables import (
    autoscalers,
    cluster,
    networks,
    pods,
    policies,
    storage,
    workloads,
)
from numakube_lab.objects.tables.columns import NAME, Column, Row, Table, name_of
from numakube_lab.objects.tables.durations import UNKNOWN, human_age, human_duration

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import GVK, Json, JsonValue

__all__ = ["Row", "human_age", "human_duration", "table_columns", "table_row"]


def _plain(obj: Json, now: datetime) -> list[JsonValue]:
    del now
    return [name_of(obj), obj["metadata"].get("creationTimestamp") or UNKNOWN]


_PLAIN: Final = Table(
    (NAME, Column("Created At", "When the object was created.", type="date")), _plain
)

_ADMISSION: Final = "admissionregistration.k8s.io"
_DEVICES: Final = "resource.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_NETWORK: Final = "networking.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_STORAGE: Final = "storage.k8s.io"

_TABLES: Final[dict[tuple[str, str], Table]] = {
    ("", "ConfigMap"): cluster.CONFIG_MAP,
    ("", "Endpoints"): networks.ENDPOINTS,
    ("", "Event"): cluster.CORE_EVENT,
    ("", "Namespace"): cluster.NAMESPACE,
    ("", "Node"): cluster.NODE,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "PodTemplate"): workloads.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): cluster.RESOURCE_QUOTA,
    ("", "Secret"): cluster.SECRET,
    ("", "Service"): networks.SERVICE,
    ("", "ServiceAccount"): cluster.AGED,
    (_ADMISSION, "MutatingAdmissionPolicy"): policies.MUTATING_POLICY,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): policies.POLICY_BINDING,
    (_ADMISSION, "MutatingWebhookConfiguration"): policies.WEBHOOK_CONFIGURATION,
    (_ADMISSION, "ValidatingAdmissionPolicy"): policies.VALIDATING_POLICY,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): policies.POLICY_BINDING,
    (_ADMISSION, "ValidatingWebhookConfiguration"): policies.WEBHOOK_CONFIGURATION,
    ("apiregistration.k8s.io", "APIService"): policies.API_SERVICE,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.AUTOSCALER,
    ("autoscaling", "Scale"): autoscalers.SCALE,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("certificates.k8s.io", "CertificateSigningRequest"): policies.SIGNING_REQUEST,
    ("coordination.k8s.io", "Lease"): cluster.LEASE,
    ("coordination.k8s.io", "LeaseCandidate"): cluster.LEASE_CANDIDATE,
    ("discovery.k8s.io", "EndpointSlice"): networks.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): cluster.NEW_EVENT,
    (_FLOW, "FlowSchema"): policies.FLOW_SCHEMA,
    (_FLOW, "PriorityLevelConfiguration"): policies.PRIORITY_LEVEL,
    (_NETWORK, "Ingress"): networks.INGRESS,
    (_NETWORK, "IngressClass"): networks.INGRESS_CLASS,
    (_NETWORK, "IPAddress"): networks.IP_ADDRESS,
    (_NETWORK, "NetworkPolicy"): networks.NETWORK_POLICY,
    (_NETWORK, "ServiceCIDR"): networks.SERVICE_RANGE,
    ("node.k8s.io", "RuntimeClass"): cluster.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): autoscalers.DISRUPTION_BUDGET,
    (_RBAC, "ClusterRoleBinding"): policies.ROLE_BINDING,
    (_RBAC, "RoleBinding"): policies.ROLE_BINDING,
    (_DEVICES, "DeviceClass"): cluster.AGED,
    (_DEVICES, "DeviceTaintRule"): policies.DEVICE_TAINT,
    (_DEVICES, "ResourceClaim"): policies.RESOURCE_CLAIM,
    (_DEVICES, "ResourceClaimTemplate"): cluster.AGED,
    (_DEVICES, "ResourceSlice"): policies.RESOURCE_SLICE,
    ("scheduling.k8s.io", "PriorityClass"): cluster.PRIORITY_CLASS,
    ("scheduling.k8s.io", "Workload"): cluster.AGED,
    (_STORAGE, "CSIDriver"): storage.CSI_DRIVER,
    (_STORAGE, "CSINode"): storage.CSI_NODE,
    (_STORAGE, "CSIStorageCapacity"): storage.CSI_STORAGE_CAPACITY,
    (_STORAGE, "StorageClass"): storage.STORAGE_CLASS,
    (_STORAGE, "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    (_STORAGE, "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
}

# The kinds whose fields have other names in another version.
_OF_VERSION: Final[dict[tuple[str, str, str], Table]] = {
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): autoscalers.AUTOSCALER_V1,
}


def _table_of(gvk: GVK) -> Table:
    return _OF_VERSION.get(gvk) or _TABLES.get((gvk.group, gvk.kind), _PLAIN)


def table_columns(gvk: GVK) -> list[Json]:
    """Return the definitions of the columns in which objects of a kind are shown."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in _table_of(gvk).columns
    ]


def table_row(gvk: GVK, obj: Json, now: datetime) -> Row:
    """Return what is shown of an object at a time."""
    table = _table_of(gvk)
    return Row(table.cells(obj, now), table.conditions(obj))
