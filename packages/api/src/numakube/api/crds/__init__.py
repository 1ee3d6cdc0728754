"""The custom resource definitions that numakube ships, as YAML files."""

import copy
import functools
from importlib import resources
from typing import Any, Final

from numakube.api.yaml_text import load_manifests

__all__ = [
    "NRT_CRD",
    "OPERATOR_CRD",
    "PROPOSED_VERSION",
    "SCHEDULER_CRD",
    "UPDATE_CRD",
    "crd",
    "crd_text",
    "crd_with_v1beta1",
]

NRT_CRD: Final = "topology.node.k8s.io_noderesourcetopologies.yaml"
UPDATE_CRD: Final = "topology.numakube.dev_noderesourcetopologyupdates.yaml"
OPERATOR_CRD: Final = "nodetopology.openshift.io_numaresourcesoperators.yaml"
SCHEDULER_CRD: Final = "nodetopology.openshift.io_numaresourcesschedulers.yaml"

PROPOSED_VERSION: Final = "proposed_v1beta1_version.yaml"
"""An entry of ``spec.versions`` of the first of them, see docs/contribute/nrt-v1beta1.md."""


def crd_text(name: str = NRT_CRD) -> str:
    """Return the YAML text of a definition, ready for ``kubectl apply``."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def crd(name: str = NRT_CRD) -> dict[str, Any]:
    """Return a definition as a tree of the caller's own."""
    return copy.deepcopy(_loaded(name))


@functools.cache
def _loaded(name: str) -> dict[str, Any]:
    (definition,) = load_manifests(crd_text(name), name)
    return definition


def crd_with_v1beta1(client_config: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of NodeResourceTopology with the proposed version.

    Args:
        client_config: how API servers reach the webhook that converts.
    """
    definition = crd()
    (proposed,) = load_manifests(crd_text(PROPOSED_VERSION), PROPOSED_VERSION)
    definition["spec"]["versions"].append(proposed)
    definition["spec"]["names"]["shortNames"].append("nrt")
    definition["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    }
    return definition
