"""Tables: the columns that ``kubectl get`` shows.

The server makes the table; ``kubectl`` merely prints it. A kind's table has columns, some of
which are only shown when asked for, and for each object a row of cells. Kinds without a table of
their own show their name and when they were created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables import (
    autoscaler_columns,
    cluster_columns,
    pod_columns,
    resource_columns,
    workload_columns,
)
from numakube_lab.objects.tables.age_texts import UNKNOWN, human_age
from numakube_lab.objects.tables.table_columns import NAME, Column, Row, Table, name_of

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import GVK, Json, JsonValue

__all__ = ["Row", "human_age", "table_columns", "table_row"]


def _plain(obj: Json, now: datetime) -> list[JsonValue]:
    del now
    return [name_of(obj), obj["metadata"].get("creationTimestamp") or UNKNOWN]


_PLAIN: Final = Table(
    (NAME, Column("Created At", "When the object was created.", type="date")), _plain
)

_DEVICES: Final = "resource.k8s.io"
_NETWORK: Final = "networking.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_STORAGE: Final = "storage.k8s.io"

_TABLES: Final[dict[tuple[str, str], Table]] = {
    ("", "ConfigMap"): cluster_columns.CONFIG_MAP,
    ("", "Endpoints"): resource_columns.ENDPOINTS,
    ("", "Event"): cluster_columns.CORE_EVENT,
    ("", "Namespace"): cluster_columns.NAMESPACE,
    ("", "Node"): cluster_columns.NODE,
    ("", "PersistentVolume"): resource_columns.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): resource_columns.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pod_columns.POD,
    ("", "PodTemplate"): workload_columns.POD_TEMPLATE,
    ("", "ReplicationController"): workload_columns.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): cluster_columns.RESOURCE_QUOTA,
    ("", "Secret"): cluster_columns.SECRET,
    ("", "Service"): resource_columns.SERVICE,
    ("", "ServiceAccount"): cluster_columns.AGED,
    ("apps", "ControllerRevision"): workload_columns.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workload_columns.DAEMON_SET,
    ("apps", "Deployment"): workload_columns.DEPLOYMENT,
    ("apps", "ReplicaSet"): workload_columns.REPLICA_SET,
    ("apps", "StatefulSet"): workload_columns.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaler_columns.AUTOSCALER,
    ("autoscaling", "Scale"): autoscaler_columns.SCALE,
    ("batch", "CronJob"): workload_columns.CRON_JOB,
    ("batch", "Job"): workload_columns.JOB,
    ("coordination.k8s.io", "Lease"): cluster_columns.LEASE,
    ("discovery.k8s.io", "EndpointSlice"): resource_columns.ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): cluster_columns.NEW_EVENT,
    (_NETWORK, "Ingress"): resource_columns.INGRESS,
    (_NETWORK, "NetworkPolicy"): resource_columns.NETWORK_POLICY,
    ("node.k8s.io", "RuntimeClass"): cluster_columns.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): resource_columns.DISRUPTION_BUDGET,
    (_RBAC, "ClusterRoleBinding"): resource_columns.ROLE_BINDING,
    (_RBAC, "RoleBinding"): resource_columns.ROLE_BINDING,
    (_DEVICES, "DeviceClass"): cluster_columns.AGED,
    (_DEVICES, "DeviceTaintRule"): resource_columns.DEVICE_TAINT_RULE,
    (_DEVICES, "ResourceClaim"): resource_columns.RESOURCE_CLAIM,
    (_DEVICES, "ResourceClaimTemplate"): cluster_columns.AGED,
    (_DEVICES, "ResourceSlice"): resource_columns.RESOURCE_SLICE,
    ("scheduling.k8s.io", "PriorityClass"): cluster_columns.PRIORITY_CLASS,
    ("scheduling.k8s.io", "Workload"): cluster_columns.AGED,
    (_STORAGE, "CSIDriver"): resource_columns.CSI_DRIVER,
    (_STORAGE, "CSINode"): resource_columns.CSI_NODE,
    (_STORAGE, "StorageClass"): resource_columns.STORAGE_CLASS,
}

# The kinds whose fields have other names in another version.
_OF_VERSION: Final[dict[tuple[str, str, str], Table]] = {
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): autoscaler_columns.AUTOSCALER_V1,
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
