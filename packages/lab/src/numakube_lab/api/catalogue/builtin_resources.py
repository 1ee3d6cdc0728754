"""The built-in resources of Kubernetes 1.35: the groups and versions that are on by default."""

from __future__ import annotations

from typing import Final

from numakube_lab.api.catalogue.resources import (
    EVERY_VERB,
    Habits,
    Orphaning,
    Resource,
    Subresource,
)
from numakube_lab.kinds import GVK

_PART: Final = ("get", "patch", "update")
_PROXY: Final = ("create", "delete", "get", "patch", "update")
_STREAM: Final = ("create", "get")

_SCALE: Final = GVK("autoscaling", "v1", "Scale")
_RETURNS: Final = Habits(returns_deleted=True)
_UPSERTS: Final = Habits(create_on_update=True)
_VERSIONED: Final = Habits(unconditional_update=False)

GROUPS: Final = (
    ("apiregistration.k8s.io", ("v1",)),
    ("apps", ("v1",)),
    ("events.k8s.io", ("v1",)),
    ("authentication.k8s.io", ("v1",)),
    ("authorization.k8s.io", ("v1",)),
    ("autoscaling", ("v2", "v1")),
    ("batch", ("v1",)),
    ("certificates.k8s.io", ("v1",)),
    ("networking.k8s.io", ("v1",)),
    ("policy", ("v1",)),
    ("rbac.authorization.k8s.io", ("v1",)),
    ("storage.k8s.io", ("v1",)),
    ("admissionregistration.k8s.io", ("v1",)),
    ("apiextensions.k8s.io", ("v1",)),
    ("scheduling.k8s.io", ("v1",)),
    ("coordination.k8s.io", ("v1",)),
    ("node.k8s.io", ("v1",)),
    ("discovery.k8s.io", ("v1",)),
    ("resource.k8s.io", ("v1",)),
    ("flowcontrol.apiserver.k8s.io", ("v1",)),
)
"""The named groups in the order of discovery, each with its versions, the preferred one first."""


def _resource(
    api_version: str,
    kind: str,
    plural: str,
    *parts: Subresource,
    namespaced: bool = True,
    short: str = "",
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = EVERY_VERB,
    status: bool = False,
    scale: bool = False,
    habits: Habits = Habits(),  # noqa: B008 - immutable
    shelf: str = "",
    stored_as: str = "",
) -> Resource:
    group, _, version = api_version.rpartition("/")
    gvk = GVK(group, version, kind)
    subresources = list(parts)
    if scale:
        subresources.append(Subresource("scale", _SCALE, _PART))
    if status:
        subresources.append(Subresource("status", gvk, _PART))
    return Resource(
        kind=gvk,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        namespaced=namespaced,
        shelf=shelf or (f"{group}/{plural}" if group else plural),
        stored_as=GVK.of({"apiVersion": stored_as or api_version, "kind": kind}),
        short_names=tuple(short.split()),
        categories=categories,
        verbs=verbs,
        subresources=tuple(sorted(subresources, key=lambda sub: sub.name)),
        habits=habits,
    )


def _part(name: str, kind: str, verbs: tuple[str, ...], api_version: str = "v1") -> Subresource:
    return Subresource(name, GVK.of({"apiVersion": api_version, "kind": kind}), verbs)


_ALL: Final = ("all",)
_EXTENSIONS: Final = ("api-extensions",)

_CORE: Final = (
    _resource("v1", "Binding", "bindings", verbs=("create",)),
    _resource(
        "v1",
        "ComponentStatus",
        "componentstatuses",
        namespaced=False,
        short="cs",
        verbs=("get", "list"),
    ),
    _resource("v1", "ConfigMap", "configmaps", short="cm"),
    _resource("v1", "Endpoints", "endpoints", short="ep", habits=_UPSERTS),
    _resource(
        "v1",
        "Event",
        "events",
        short="ev",
        habits=Habits(create_on_update=True, orphaning=Orphaning.UNSUPPORTED),
    ),
    _resource("v1", "LimitRange", "limitranges", short="limits", habits=_UPSERTS),
    _resource(
        "v1",
        "Namespace",
        "namespaces",
        _part("finalize", "Namespace", ("update",)),
        namespaced=False,
        short="ns",
        verbs=tuple(verb for verb in EVERY_VERB if verb != "deletecollection"),
        status=True,
        habits=_RETURNS,
    ),
    _resource(
        "v1",
        "Node",
        "nodes",
        _part("proxy", "NodeProxyOptions", _PROXY),
        namespaced=False,
        short="no",
        status=True,
    ),
    _resource(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short="pvc",
        status=True,
        habits=_RETURNS,
    ),
    _resource(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short="pv",
        status=True,
        habits=_RETURNS,
    ),
    _resource(
        "v1",
        "Pod",
        "pods",
        _part("attach", "PodAttachOptions", _STREAM),
        _part("binding", "Binding", ("create",)),
        _part("ephemeralcontainers", "Pod", _PART),
        _part("eviction", "Eviction", ("create",), "policy/v1"),
        _part("exec", "PodExecOptions", _STREAM),
        _part("log", "Pod", ("get",)),
        _part("portforward", "PodPortForwardOptions", _STREAM),
        _part("proxy", "PodProxyOptions", _PROXY),
        _part("resize", "Pod", _PART),
        short="po",
        categories=_ALL,
        status=True,
        habits=_RETURNS,
    ),
    _resource("v1", "PodTemplate", "podtemplates", habits=_RETURNS),
    _resource(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        short="rc",
        categories=_ALL,
        status=True,
        scale=True,
        habits=Habits(orphaning=Orphaning.ORPHAN),
    ),
    _resource("v1", "ResourceQuota", "resourcequotas", short="quota", status=True, habits=_RETURNS),
    _resource("v1", "Secret", "secrets"),
    _resource(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        _part("token", "TokenRequest", ("create",), "authentication.k8s.io/v1"),
        short="sa",
        habits=_RETURNS,
    ),
    _resource(
        "v1",
        "Service",
        "services",
        _part("proxy", "ServiceProxyOptions", _PROXY),
        short="svc",
        categories=_ALL,
        status=True,
        habits=Habits(create_on_update=True, returns_deleted=True),
    ),
)

_WORKLOADS: Final = (
    _resource("apps/v1", "ControllerRevision", "controllerrevisions"),
    _resource("apps/v1", "DaemonSet", "daemonsets", short="ds", categories=_ALL, status=True),
    _resource(
        "apps/v1",
        "Deployment",
        "deployments",
        short="deploy",
        categories=_ALL,
        status=True,
        scale=True,
    ),
    _resource(
        "apps/v1", "ReplicaSet", "replicasets", short="rs", categories=_ALL, status=True, scale=True
    ),
    _resource(
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        short="sts",
        categories=_ALL,
        status=True,
        scale=True,
    ),
    _resource(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short="hpa",
        categories=_ALL,
        status=True,
    ),
    _resource(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short="hpa",
        categories=_ALL,
        status=True,
        stored_as="autoscaling/v2",
    ),
    _resource("batch/v1", "CronJob", "cronjobs", short="cj", categories=_ALL, status=True),
    _resource(
        "batch/v1",
        "Job",
        "jobs",
        categories=_ALL,
        status=True,
        habits=Habits(orphaning=Orphaning.ORPHAN),
    ),
    _resource(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short="pdb",
        status=True,
        habits=_VERSIONED,
    ),
    _resource(
        "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False, short="pc"
    ),
)

_REVIEWS: Final = tuple(
    _resource(api_version, kind, plural, namespaced=namespaced, verbs=("create",))
    for api_version, kind, plural, namespaced in (
        ("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", False),
        ("authentication.k8s.io/v1", "TokenReview", "tokenreviews", False),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False),
        ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", False),
    )
)

_RBAC: Final = tuple(
    _resource("rbac.authorization.k8s.io/v1", kind, plural, namespaced=namespaced, habits=_UPSERTS)
    for kind, plural, namespaced in (
        ("ClusterRoleBinding", "clusterrolebindings", False),
        ("ClusterRole", "clusterroles", False),
        ("RoleBinding", "rolebindings", True),
        ("Role", "roles", True),
    )
)

_NETWORK: Final = (
    _resource("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False),
    _resource("networking.k8s.io/v1", "Ingress", "ingresses", short="ing", status=True),
    _resource("networking.k8s.io/v1", "IPAddress", "ipaddresses", namespaced=False, short="ip"),
    _resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", short="netpol"),
    _resource("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", namespaced=False, status=True),
    _resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
)

_STORAGE: Final = (
    _resource(
        "storage.k8s.io/v1",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        habits=Habits(unconditional_update=False, returns_deleted=True),
    ),
    _resource(
        "storage.k8s.io/v1",
        "CSINode",
        "csinodes",
        namespaced=False,
        habits=Habits(unconditional_update=False, returns_deleted=True),
    ),
    _resource("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", habits=_VERSIONED),
    _resource(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        namespaced=False,
        short="sc",
        habits=_RETURNS,
    ),
    _resource(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments",
        namespaced=False,
        status=True,
        habits=Habits(unconditional_update=False, returns_deleted=True),
    ),
    _resource(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        namespaced=False,
        short="vac",
        habits=_RETURNS,
        stored_as="storage.k8s.io/v1beta1",
    ),
)

_DEVICES: Final = (
    _resource(
        "resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False, habits=_RETURNS
    ),
    _resource(
        "resource.k8s.io/v1", "ResourceClaim", "resourceclaims", status=True, habits=_RETURNS
    ),
    _resource(
        "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", habits=_RETURNS
    ),
    _resource(
        "resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False, habits=_RETURNS
    ),
)

_ADMISSION: Final = tuple(
    _resource(
        "admissionregistration.k8s.io/v1",
        kind,
        plural,
        namespaced=False,
        categories=_EXTENSIONS,
        status=status,
        habits=_VERSIONED,
    )
    for kind, plural, status in (
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", True),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
    )
)

_OTHERS: Final = (
    _resource(
        "apiregistration.k8s.io/v1",
        "APIService",
        "apiservices",
        namespaced=False,
        categories=_EXTENSIONS,
        status=True,
        habits=_VERSIONED,
    ),
    _resource(
        "events.k8s.io/v1",
        "Event",
        "events",
        short="ev",
        shelf="events",
        stored_as="v1",
        habits=Habits(create_on_update=True, orphaning=Orphaning.UNSUPPORTED),
    ),
    _resource(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        Subresource(
            "approval",
            GVK("certificates.k8s.io", "v1", "CertificateSigningRequest"),
            _PART,
        ),
        namespaced=False,
        short="csr",
        status=True,
    ),
    _resource(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short="crd crds",
        categories=_EXTENSIONS,
        status=True,
        habits=_VERSIONED,
        stored_as="apiextensions.k8s.io/v1beta1",
    ),
    _resource(
        "coordination.k8s.io/v1",
        "Lease",
        "leases",
        habits=Habits(create_on_update=True, unconditional_update=False),
    ),
    _resource(
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        namespaced=False,
        habits=Habits(create_on_update=True, unconditional_update=False),
    ),
    _resource(
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        "flowschemas",
        namespaced=False,
        status=True,
    ),
    _resource(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        namespaced=False,
        status=True,
    ),
)

RESOURCES: Final[tuple[Resource, ...]] = (
    *_CORE,
    *_WORKLOADS,
    *_REVIEWS,
    *_RBAC,
    *_NETWORK,
    *_STORAGE,
    *_DEVICES,
    *_ADMISSION,
    *_OTHERS,
)
"""Every built-in resource; within a group and version in the order of discovery."""
