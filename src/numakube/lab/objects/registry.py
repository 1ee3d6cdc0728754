"""Which rules hold for which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.objects.config_maps import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from numakube.lab.objects.cron_jobs import CRON_JOB
from numakube.lab.objects.daemon_sets import DAEMON_SET
from numakube.lab.objects.deployments import DEPLOYMENT
from numakube.lab.objects.endpoints import ENDPOINT_SLICE, ENDPOINTS
from numakube.lab.objects.events import CORE_EVENT, NEW_EVENT
from numakube.lab.objects.jobs import JOB
from numakube.lab.objects.kind_rules import KindRules
from numakube.lab.objects.namespaces import NAMESPACE
from numakube.lab.objects.nodes import NODE
from numakube.lab.objects.pods import POD
from numakube.lab.objects.quotas import LIMIT_RANGE, RESOURCE_QUOTA
from numakube.lab.objects.replica_sets import POD_TEMPLATE, REPLICA_SET, REPLICATION_CONTROLLER
from numakube.lab.objects.services import SERVICE
from numakube.lab.objects.stateful_sets import CONTROLLER_REVISION, STATEFUL_SET

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
    ("batch", "CronJob"): CRON_JOB,
    ("batch", "Job"): JOB,
    ("discovery.k8s.io", "EndpointSlice"): ENDPOINT_SLICE,
    ("events.k8s.io", "Event"): NEW_EVENT,
}


def rules_of(gvk: GVK) -> KindRules:
    """Return the rules of a kind; of one that is not known only the metadata is checked."""
    return _RULES.get((gvk.group, gvk.kind), _PLAIN)
