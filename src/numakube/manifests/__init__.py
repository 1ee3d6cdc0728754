"""Builds every object that numakube deploys: the one source for all ways to install it.

Objects are plain documents, complete and in the form that ``kubectl apply`` takes.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.manifests.cluster_policies import only_serves
    from numakube.manifests.components import Choices, objects_of
    from numakube.manifests.controller_deployment import ControllerManifest
    from numakube.manifests.exporter import node_affinity
    from numakube.manifests.node_agents import (
        CREATED,
        KUBELET,
        POD_SECURITY,
        AdditionSite,
        HostFolder,
        daemon_set,
        host_paths,
        kubelet_state,
        probes,
        security_constraints,
    )
    from numakube.manifests.pod_template_parts import CONTAINER_SECURITY, budget
    from numakube.manifests.rbac_rules import service_account
    from numakube.manifests.release_image import IMAGE

__all__ = [
    "CONTAINER_SECURITY",
    "CREATED",
    "IMAGE",
    "KUBELET",
    "POD_SECURITY",
    "AdditionSite",
    "Choices",
    "ControllerManifest",
    "HostFolder",
    "budget",
    "daemon_set",
    "host_paths",
    "kubelet_state",
    "node_affinity",
    "objects_of",
    "only_serves",
    "probes",
    "security_constraints",
    "service_account",
]

__getattr__ = lazy_names(
    __name__,
    {
        "components": "Choices objects_of",
        "exporter": "node_affinity",
        "cluster_policies": "only_serves",
        "node_agents": (
            "CREATED AdditionSite HostFolder KUBELET POD_SECURITY daemon_set "
            "host_paths probes security_constraints kubelet_state"
        ),
        "pod_template_parts": "CONTAINER_SECURITY budget",
        "rbac_rules": "service_account",
        "release_image": "IMAGE",
        "controller_deployment": "ControllerManifest",
    },
)
