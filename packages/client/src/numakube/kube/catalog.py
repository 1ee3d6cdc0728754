"""The resources numakube works with, and which version of a kind an API server has.

Kinds that are read often have types of their own; the rest are documents. Any other resource is one
`Resource(...)` away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from numakube.api import nrt_update
from numakube.api.codec import Wire
from numakube.api.meta import CoreEvent, Event, Lease
from numakube.api.nodes import Node
from numakube.api.nrt import GROUP, KIND, PLURAL, NodeResourceTopology
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.api.pod import Pod
from numakube.errors import Forbidden, NotFound
from numakube.kube.connection.transport import Request
from numakube.kube.decode import read_answer
from numakube.kube.resource_types import Document, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kube.client import Client


T = TypeVar("T")


def _core(plural: str, kind: str, type_: type[T], *, namespaced: bool = True) -> Resource[T]:
    return Resource(
        version="v1", plural=plural, kind=kind, namespaced=namespaced, object_type=type_
    )


def _document(group: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Document]:
    return Resource(
        group=group,
        version="v1",
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        object_type=dict[str, Any],
        whole=True,
    )


PODS = _core("pods", "Pod", Pod)
NODES = _core("nodes", "Node", Node, namespaced=False)
CORE_EVENTS = _core("events", "Event", CoreEvent)
EVENTS = Resource(
    group="events.k8s.io",
    version="v1",
    plural="events",
    kind="Event",
    namespaced=True,
    object_type=Event,
)
LEASES = Resource(
    group="coordination.k8s.io",
    version="v1",
    plural="leases",
    kind="Lease",
    namespaced=True,
    object_type=Lease,
    whole=True,
)

NODE_RESOURCE_TOPOLOGIES = Resource(
    group=GROUP,
    version="v1alpha2",
    plural=PLURAL,
    kind=KIND,
    namespaced=False,
    object_type=NodeResourceTopology,
)
NODE_RESOURCE_TOPOLOGY_UPDATES = Resource(
    group=nrt_update.GROUP,
    version=nrt_update.VERSION,
    plural=nrt_update.PLURAL,
    kind=nrt_update.KIND,
    namespaced=False,
    object_type=NodeResourceTopologyUpdate,
    whole=True,
)

NAMESPACES = _document("", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = _document("", "configmaps", "ConfigMap")
SECRETS = _document("", "secrets", "Secret")
SERVICES = _document("", "services", "Service")
SERVICE_ACCOUNTS = _document("", "serviceaccounts", "ServiceAccount")
PERSISTENT_VOLUME_CLAIMS = _document("", "persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS = _document("apps", "deployments", "Deployment")
REPLICA_SETS = _document("apps", "replicasets", "ReplicaSet")
STATEFUL_SETS = _document("apps", "statefulsets", "StatefulSet")
DAEMON_SETS = _document("apps", "daemonsets", "DaemonSet")
JOBS = _document("batch", "jobs", "Job")
RESOURCE_CLAIMS = _document("resource.k8s.io", "resourceclaims", "ResourceClaim")
RESOURCE_SLICES = _document("resource.k8s.io", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCE_CLAIM_TEMPLATES = _document(
    "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate"
)
DEVICE_CLASSES = _document("resource.k8s.io", "deviceclasses", "DeviceClass", namespaced=False)
POD_DISRUPTION_BUDGETS = _document("policy", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES = _document(
    "scheduling.k8s.io", "priorityclasses", "PriorityClass", namespaced=False
)
ROLES = _document("rbac.authorization.k8s.io", "roles", "Role")
ROLE_BINDINGS = _document("rbac.authorization.k8s.io", "rolebindings", "RoleBinding")
CLUSTER_ROLES = _document(
    "rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False
)
CLUSTER_ROLE_BINDINGS = _document(
    "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = _document(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES = _document(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = _document(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_WEBHOOK_CONFIGURATIONS = _document(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATIONS = _document(
    "admissionregistration.k8s.io",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
NETWORK_POLICIES = _document("networking.k8s.io", "networkpolicies", "NetworkPolicy")
SECURITY_CONTEXT_CONSTRAINTS = _document(
    "security.openshift.io",
    "securitycontextconstraints",
    "SecurityContextConstraints",
    namespaced=False,
)
FLOW_SCHEMAS = _document(
    "flowcontrol.apiserver.k8s.io", "flowschemas", "FlowSchema", namespaced=False
)
PRIORITY_LEVELS = _document(
    "flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)
TOKEN_REVIEWS = _document("authentication.k8s.io", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = _document(
    "authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


_DOCUMENTS = (
    LEASES.raw,
    NAMESPACES,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    DEPLOYMENTS,
    DAEMON_SETS,
    PRIORITY_CLASSES,
    DEVICE_CLASSES,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    NETWORK_POLICIES,
    SECURITY_CONTEXT_CONSTRAINTS,
    POD_DISRUPTION_BUDGETS,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
)
_BY_KIND = {(document.api_version, document.kind): document for document in _DOCUMENTS}


def resource_of(document: Document) -> Resource[Document]:
    """Return the resource of an object that we deploy.

    Raises:
        KeyError: we deploy no such kind.
    """
    return _BY_KIND[document["apiVersion"], document["kind"]]


# Which version of a kind an API server has, where it may be one of several.
#
# Kubernetes serves a kind that has become stable as ``v1`` and, unless told to, no longer as a beta
# version. Objects are the same in all of them, so a reader takes the first that is there:
#
#     groups = await served(client, POD_GROUPS, ("v1beta1", "v1"))    # NotFound if there is none


_NOT_FOUND: Final = 404


class ServedKind(Wire, frozen=True):
    """A kind as a server describes it."""

    name: str = ""
    namespaced: bool = False


class _ServedList(Wire, frozen=True):
    resources: tuple[ServedKind, ...] | None = None


async def served(client: Client, resource: Resource[T], versions: Iterable[str]) -> Resource[T]:
    """Return *resource* in the first of *versions* that is served.

    Raises:
        NotFound: none of them is.
    """
    tried = tuple(versions)
    for version in tried:
        try:
            found = await served_in(client, resource.group, version, resource.plural)
        except NotFound:
            continue
        except Forbidden:
            # Who may not ask what there is can still read what there usually is.
            return resource
        if found is not None:
            return replace(resource, version=version)
    name = f"{resource.plural}.{resource.group}"
    text = f"the cluster serves {name} in none of {', '.join(tried)}"
    raise NotFound(text, code=_NOT_FOUND, reason="NotFound")


async def served_in(client: Client, group: str, version: str, plural: str) -> ServedKind | None:
    """Return what the server says of a kind in *version* of its group; nothing if it lacks it.

    Raises:
        NotFound: there is no such version of the group.
    """
    request = Request(method="GET", path=f"/apis/{group}/{version}")
    response = await client.request(request)
    listed = read_answer(_ServedList, response.body, str(request)).resources or ()
    return next((kind for kind in listed if kind.name == plural), None)
