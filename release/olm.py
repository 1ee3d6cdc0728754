"""The bundle by which the Operator Lifecycle Manager installs the operator, and samples for it.

A bundle becomes an image by ``bundle.Dockerfile``, a catalog that names it by
``catalog.Dockerfile``. A cluster gets the catalog by a CatalogSource, and the operator by a
Subscription.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from numakube.api.crds import OPERATOR_CRD, SCHEDULER_CRD, crd_text
from numakube.api.yaml_text import dump_yaml
from numakube.manifests.operator import NAME, OperatorManifest, cluster_rules, namespace_rules
from numakube.manifests.release_image import IMAGE, VERSION
from release.project import CAPABILITIES, ICON, ROOT

PACKAGE: Final = "numakube-operator"
CHANNEL: Final = "alpha"
CATALOG: Final = "numakube"
NAMESPACE: Final = "openshift-numaresources"
"""Where documents of the NUMA Resources Operator have it."""
_MARKETPLACE: Final = "openshift-marketplace"
_REPOSITORY: Final = IMAGE.rpartition(":")[0]
BUNDLE_IMAGE: Final = f"{_REPOSITORY}-bundle:{VERSION}"
CATALOG_IMAGE: Final = f"{_REPOSITORY}-catalog:{VERSION}"
_WORKERS: Final = {
    "machineConfigPoolSelector": {
        "matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}
    }
}
_BUNDLE_IMAGE: Final = """\
# podman build -f bundle.Dockerfile -t IMAGE . in this folder
FROM scratch
COPY manifests /manifests/
COPY metadata /metadata/
"""
_CATALOG_IMAGE: Final = """\
# podman build -f catalog.Dockerfile -t IMAGE . in this folder
FROM quay.io/operator-framework/opm:latest
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
COPY catalog /configs/numakube-operator/
LABEL operators.operatorframework.io.index.configs.v1=/configs
"""
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
        "bundle.Dockerfile": _BUNDLE_IMAGE + _labels(),
        "catalog.Dockerfile": _CATALOG_IMAGE,
        f"catalog/{PACKAGE}.yaml": _text(catalog()),
        "samples/catalog-source.yaml": dump_yaml(catalog_source()),
        "samples/operator.yaml": _text(subscription()),
        "samples/nrop.yaml": dump_yaml(_sample("NUMAResourcesOperator", nodeGroups=[_WORKERS])),
        "samples/scheduler.yaml": dump_yaml(_sample("NUMAResourcesScheduler", imageSpec=IMAGE)),
    }


def catalog() -> list[dict[str, Any]]:
    """Return a file-based catalog with the one version of the one package."""
    name = f"{PACKAGE}.v{VERSION}"
    version = {"packageName": PACKAGE, "version": VERSION}
    return [
        {"schema": "olm.package", "name": PACKAGE, "defaultChannel": CHANNEL},
        {
            "schema": "olm.channel",
            "package": PACKAGE,
            "name": CHANNEL,
            "entries": [{"name": name}],
        },
        {
            "schema": "olm.bundle",
            "package": PACKAGE,
            "name": name,
            "image": BUNDLE_IMAGE,
            "properties": [{"type": "olm.package", "value": version}],
        },
    ]


def catalog_source() -> dict[str, Any]:
    """Return what brings the catalog onto a cluster."""
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": CATALOG, "namespace": _MARKETPLACE},
        "spec": {
            "sourceType": "grpc",
            "image": CATALOG_IMAGE,
            "displayName": "numakube",
            "publisher": "numakube",
            "grpcPodConfig": {"securityContextConfig": "restricted"},
        },
    }


def subscription() -> list[dict[str, Any]]:
    """Return the namespace, what the operator may see, and the wish to have it."""
    labels = {
        "openshift.io/cluster-monitoring": "true",
        "pod-security.kubernetes.io/enforce": "privileged",
        "security.openshift.io/scc.podSecurityLabelSync": "false",
    }
    place = {"name": PACKAGE, "namespace": NAMESPACE}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": labels},
        },
        {
            "apiVersion": "operators.coreos.com/v1",
            "kind": "OperatorGroup",
            "metadata": place,
            "spec": {"targetNamespaces": [NAMESPACE]},
        },
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": dict(place),
            "spec": {
                "name": PACKAGE,
                "channel": CHANNEL,
                "source": CATALOG,
                "sourceNamespace": _MARKETPLACE,
            },
        },
    ]


def _sample(kind: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the kind
    return {
        "apiVersion": "nodetopology.openshift.io/v1",
        "kind": kind,
        "metadata": {"name": kind.lower()},
        "spec": spec,
    }


def _text(documents: list[dict[str, Any]]) -> str:
    return "---\n".join(dump_yaml(document) for document in documents)


def _labels() -> str:
    return "".join(f"LABEL {key}={value}\n" for key, value in _annotations().items())


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
            "annotations": {"capabilities": CAPABILITIES, "categories": "Scheduling"},
        },
        "spec": {
            "displayName": "numakube",
            "description": "NUMA-aware scheduling: exporters, a scheduler, and their life cycle.",
            "version": VERSION,
            "minKubeVersion": "1.31.0",
            "maturity": CHANNEL,
            "provider": {"name": "numakube"},
            "icon": [{"base64data": _icon(), "mediatype": "image/svg+xml"}],
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


def _icon() -> str:
    """Return the picture by which consoles show the operator."""
    return b64encode((ROOT / ICON).read_bytes()).decode()


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
