"""The bundle by which the Operator Lifecycle Manager installs the operator."""

from __future__ import annotations

from typing import Any, Final

from numakube.api.crds import OPERATOR_CRD, SCHEDULER_CRD, crd_text
from numakube.api.yamls import dump_yaml
from numakube.manifests.operator import NAME, OperatorManifest, cluster_rules, namespace_rules
from numakube.manifests.release_image import VERSION

PACKAGE: Final = "numakube-operator"
CHANNEL: Final = "alpha"
_INSTALL_MODES: Final = {
    "OwnNamespace": True,
    "SingleNamespace": True,
    "MultiNamespace": False,
    "AllNamespaces": True,
}


def bundle() -> dict[str, str]:
    """Return the files of the bundle by path."""
    return {
        "metadata/annotations.yaml": dump_yaml({"annotations": _annotations()}),
        f"manifests/{PACKAGE}.clusterserviceversion.yaml": dump_yaml(service_version()),
        **{f"manifests/{name}": crd_text(name) for name in (OPERATOR_CRD, SCHEDULER_CRD)},
    }


def service_version() -> dict[str, Any]:
    """Return what is installed, with which rights, and which kinds it owns."""
    deployment = OperatorManifest().deployment()
    strategy = {
        "deployments": [{"name": NAME, "spec": deployment["spec"]}],
        "clusterPermissions": [{"serviceAccountName": NAME, "rules": cluster_rules()}],
        "permissions": [{"serviceAccountName": NAME, "rules": namespace_rules()}],
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{PACKAGE}.v{VERSION}",
            "annotations": {"capabilities": "Seamless Upgrades", "categories": "Scheduling"},
        },
        "spec": {
            "displayName": "numakube",
            "description": "NUMA-aware scheduling: exporters, a scheduler, and their life cycle.",
            "version": VERSION,
            "minKubeVersion": "1.31.0",
            "maturity": CHANNEL,
            "provider": {"name": "numakube"},
            "keywords": ["numa", "scheduler", "topology"],
            "installModes": [
                {"type": mode, "supported": supported} for mode, supported in _INSTALL_MODES.items()
            ],
            "install": {"strategy": "deployment", "spec": strategy},
            "customresourcedefinitions": {
                "owned": [_owned("NUMAResourcesOperator"), _owned("NUMAResourcesScheduler")]
            },
        },
    }


def _owned(kind: str) -> dict[str, str]:
    return {
        "name": f"{kind.lower()}s.nodetopology.openshift.io",
        "kind": kind,
        "version": "v1",
        "displayName": kind,
    }


def _annotations() -> dict[str, str]:
    prefix = "operators.operatorframework.io.bundle"
    return {
        f"{prefix}.mediatype.v1": "registry+v1",
        f"{prefix}.manifests.v1": "manifests/",
        f"{prefix}.metadata.v1": "metadata/",
        f"{prefix}.package.v1": PACKAGE,
        f"{prefix}.channels.v1": CHANNEL,
        f"{prefix}.channel.default.v1": CHANNEL,
    }
