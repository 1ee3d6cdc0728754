"""The custom resource definitions that numakube ships, as YAML files."""

from importlib import resources
from typing import Any, Final

from numakube.api.yamls import load_manifests

NRT_CRD: Final = "topology.node.k8s.io_noderesourcetopologies.yaml"
OPERATOR_CRD: Final = "nodetopology.openshift.io_numaresourcesoperators.yaml"
SCHEDULER_CRD: Final = "nodetopology.openshift.io_numaresourcesschedulers.yaml"


def crd_text(name: str = NRT_CRD) -> str:
    """Return the YAML text of a definition, ready for ``kubectl apply``."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def crd(name: str = NRT_CRD) -> dict[str, Any]:
    """Return a definition as a tree."""
    (definition,) = load_manifests(crd_text(name), name)
    return definition
