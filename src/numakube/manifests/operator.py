"""The operator: its kinds, its account, its rights and its Deployment.

A subject cannot grant rights that it does not have, so the operator holds those of everything it
runs besides its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.annexes import Group, loaded
from numakube.api.crds import NRT_CRD, OPERATOR_CRD, SCHEDULER_CRD, UPDATE_CRD, crd
from numakube.manifests import cluster_policies as debug_access
from numakube.manifests import exporter, extender, scheduler, secondary_scheduler
from numakube.manifests.cluster_policies import flow_control, only_serves
from numakube.manifests.controller_deployment import companions
from numakube.manifests.node_agents import AdditionSite
from numakube.manifests.pod_template_parts import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    budget,
    on_control_plane,
)
from numakube.manifests.rbac_rules import READ, cluster_role, role, rule, service_account, view_role
from numakube.manifests.release_image import IMAGE
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from numakube.manifests.controller_deployment import ControllerManifest

NAME: Final = "numaresources-controller-manager"
LEASE: Final = "0e2a6bd3.openshift-kni.io"
"""The lease of the NUMA Resources Operator, so that never both of them work."""
EXTENDER: Final = "numaresources-extender"
"""What the operator's extender is called."""
_PORT: Final = PROGRAMS["operator"].port
_LABELS: Final = {"app": "numaresources-operator", "control-plane": "controller-manager"}
_WRITE: Final = (*READ, "create", "patch", "delete")
_GROUP: Final = "nodetopology.openshift.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_DEFINITIONS: Final = tuple(crd(name)["metadata"]["name"] for name in (NRT_CRD, UPDATE_CRD))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorManifest:
    """What is deployed."""

    namespace: str = "numaresources"
    image: str = IMAGE
    replicas: int = 1

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        return [
            crd(OPERATOR_CRD),
            crd(SCHEDULER_CRD),
            view_role(),
            *flow_control(self.namespace),
            self.namespace_object(),
            *self.access(),
            only_serves(NAME, self.namespace, _LABELS, (_PORT,)),
            budget(NAME, self.namespace, _LABELS),
            self.deployment(),
        ]

    def namespace_object(self) -> dict[str, Any]:
        """Return the namespace; exporters need to see their hosts."""
        labels = {
            "control-plane": "controller-manager",
            "pod-security.kubernetes.io/enforce": "privileged",
        }
        metadata = {"name": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def access(self) -> list[dict[str, Any]]:
        """Return account and rights."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role("numaresources-manager-role", cluster_rules(), account),
            *role("numaresources-manager-role", self.namespace, namespace_rules(), account),
        ]

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.namespace, "labels": dict(_LABELS)},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": dict(_LABELS)},
                "template": {"metadata": {"labels": dict(_LABELS)}, "spec": self._pod()},
            },
        }

    def _pod(self) -> dict[str, Any]:
        return {
            "serviceAccountName": NAME,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            "terminationGracePeriodSeconds": 10,
            **on_control_plane(),
            "containers": [self._container()],
        }

    def _container(self) -> dict[str, Any]:
        return {
            "name": "manager",
            "image": self.image,
            "args": ["operator", f"--bind-address=0.0.0.0:{_PORT}", "--insecure-serving"],
            "env": [
                exporter.from_field("NAMESPACE", "metadata.namespace"),
                exporter.from_field("PODNAME", "metadata.name"),
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"memory": "512Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }


def cluster_rules() -> list[dict[str, Any]]:
    """Return what the operator does all over the cluster, and gives to what it runs."""
    definitions = "customresourcedefinitions"
    rules = [
        rule(_GROUP, ["numaresourcesoperators", "numaresourcesschedulers"], READ),
        rule(
            _GROUP,
            ["numaresourcesoperators/status", "numaresourcesschedulers/status"],
            ["patch"],
        ),
        rule(
            _GROUP,
            ["numaresourcesoperators/finalizers", "numaresourcesschedulers/finalizers"],
            ["update"],
        ),
        rule("apiextensions.k8s.io", [definitions], ["list", "watch", "create"]),
        rule("apiextensions.k8s.io", [definitions], ["get", "patch"], names=list(_DEFINITIONS)),
        *_made(_RBAC, ["clusterroles", "clusterrolebindings"], "ClusterRole"),
        *_made(
            "admissionregistration.k8s.io",
            ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "ValidatingAdmissionPolicy",
        ),
        rule("machineconfiguration.openshift.io", ["machineconfigpools", "kubeletconfigs"], READ),
        *_made(
            "security.openshift.io", ["securitycontextconstraints"], "SecurityContextConstraints"
        ),
        *exporter.cluster_rules(),
        *scheduler.cluster_rules(),
        *extender.cluster_rules(),
        *debug_access.debugging_rules(),
        # A class for each pool of PCI functions, which groups name as they like.
        rule("resource.k8s.io", ["deviceclasses"], _WRITE),
    ]
    more = [
        *(one for each in _controllers() for one in each.cluster_rules()),
        *(one for document in _additions() for one in _granted(document)),
    ]
    return rules + [one for one in more if not any(_is_within(one, other) for other in rules)]


def _controllers() -> list[ControllerManifest]:
    """Return what it may be asked to run beside a scheduler."""
    return [kind(scheduler=secondary_scheduler.NAME) for kind in companions()]


def _additions() -> list[dict[str, Any]]:
    """Return what pods of annexes on node groups have in common."""
    site = AdditionSite(openshift=True)
    added = loaded(Group.NODE_GROUPS).values()
    return [document for addition in added for document in addition.shared(site)]


def _granted(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a role allows; anything else allows nothing."""
    rules: list[dict[str, Any]] = document["rules"] if document["kind"] == "ClusterRole" else []
    return rules


def _made(group: str, resources: list[str], kind: str) -> list[dict[str, Any]]:
    """Return the rights to objects of the cluster: only its own are read, changed and deleted.

    To watch its own it has to watch all; what it creates gives nobody more than it has itself.
    """
    documents = [
        *exporter.PoolExporters(namespace="", image="", openshift=True).objects(),
        *secondary_scheduler.SecondaryScheduler(namespace="", image="", profiles={}).objects(),
        *extender.ExtenderManifest(namespace="", name=EXTENDER, second=False).access(),
        *debug_access.debugging_access(EXTENDER, ""),
        *(one for each in _controllers() for one in each.objects()),
        *_additions(),
    ]
    names = dict.fromkeys(
        document["metadata"]["name"] for document in documents if document["kind"] == kind
    )
    return [
        rule(group, resources, ["list", "watch", "create"]),
        rule(group, resources, ["get", "patch", "delete"], names=list(names)),
    ]


def _is_within(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether *other* allows everything that *one* does."""
    parts = ("apiGroups", "resources", "verbs")
    whole = "resourceNames" not in other and all(part in other for part in parts)
    return whole and all(set(one.get(part, "?")) <= set(other[part]) for part in parts)


def namespace_rules() -> list[dict[str, Any]]:
    """Return what the operator does in its own namespace, and gives to what it runs."""
    return [
        rule("", ["configmaps", "serviceaccounts", "services"], _WRITE),
        rule("apps", ["daemonsets", "deployments"], _WRITE),
        rule("networking.k8s.io", ["networkpolicies"], _WRITE),
        rule("policy", ["poddisruptionbudgets"], _WRITE),
        rule(_RBAC, ["roles", "rolebindings"], _WRITE),
        rule("", ["pods/proxy"], ["get"]),
        *exporter.own_pod_rules(),
        *scheduler.lease_rules(secondary_scheduler.LEASE),
        *scheduler.lease_rules(LEASE),
        *extender.claim_rules(),
        *(one for each in _controllers() for one in each.namespace_rules()),
    ]
