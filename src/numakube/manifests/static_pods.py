"""The main scheduler of a kubeadm cluster: kube-scheduler with the extender, or ours in its place.

kubeadm (1.35) runs kube-scheduler as a static pod on each machine of the control plane. Its file is
``/etc/kubernetes/manifests/kube-scheduler.yaml``, and its credentials are in
``/etc/kubernetes/scheduler.conf``. Static pods mount files of their machine, not ConfigMaps, so the
configuration is a file beside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from numakube.api.scheduler_config import (
    DEFAULT_SCHEDULER,
    MAIN_LEASE,
    SCHEDULER_NAME,
    configuration_tree,
    numa_configuration,
)
from numakube.api.yaml_text import dump_yaml
from numakube.manifests.extender import MAIN_KUBECONFIG, TLS_FOLDER, ExtenderManifest
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY
from numakube.manifests.rbac_rules import cluster_role, role
from numakube.manifests.release_image import IMAGE
from numakube.manifests.scheduler import CONFIG_KEY, NAME, cluster_rules, lease_rules
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

KUBE_SCHEDULER: Final = "kube-scheduler"
MANIFEST: Final = "etc/kubernetes/manifests/kube-scheduler.yaml"
FOLDER: Final = "etc/kubernetes/numakube"
OBJECTS: Final = "objects.yaml"
PATCH: Final = "patches/kube-scheduler0+json.yaml"
"""For ``kubeadm --patches``: it keeps the change when the cluster is upgraded."""
_PORT: Final = PROGRAMS["scheduler"].port
_USER: Final = {
    "apiGroup": "rbac.authorization.k8s.io",
    "kind": "User",
    "name": "system:kube-scheduler",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPods:
    """What is written.

    Attributes:
        image: ours.
        extender: how kube-scheduler reaches the extender, and which kube-scheduler it is.
    """

    image: str = IMAGE
    extender: ExtenderManifest = field(default_factory=lambda: ExtenderManifest(second=False))

    def files(self, main: str) -> dict[str, str]:
        """Return the files by path, with ``scheduler`` or ``extender`` as the *main* scheduler."""
        return self._with_extender() if main == "extender" else self._replaced()

    def _with_extender(self) -> dict[str, str]:
        folders = {"numakube": f"/{FOLDER}"}
        if self.extender.tls:
            folders["numakube-extender"] = TLS_FOLDER
        flag = f"--config=/{FOLDER}/{CONFIG_KEY}"
        flags = (
            f"--{name}-kubeconfig={MAIN_KUBECONFIG}" for name in ("authentication", "authorization")
        )
        container = {
            "image": self.extender.kube_scheduler_image,
            "command": [KUBE_SCHEDULER, *flags, "--bind-address=127.0.0.1", flag],
            **_probes("HTTPS"),
        }
        return {
            MANIFEST: dump_yaml(_pod(container, folders)),
            f"{FOLDER}/{CONFIG_KEY}": dump_yaml(self.extender.configuration()),
            PATCH: dump_yaml(_patch(flag, folders)),
        }

    def _replaced(self) -> dict[str, str]:
        container = {
            "image": self.image,
            "args": [
                "scheduler",
                f"--config=/{FOLDER}/{CONFIG_KEY}",
                f"--kubeconfig={MAIN_KUBECONFIG}",
                f"--bind-address=127.0.0.1:{_PORT}",
            ],
            **_probes("HTTP"),
        }
        return {
            MANIFEST: dump_yaml(_pod(container, {"numakube": f"/{FOLDER}"})),
            f"{FOLDER}/{CONFIG_KEY}": dump_yaml(main_configuration()),
            OBJECTS: "---\n".join(dump_yaml(right) for right in _rights()),
        }


def main_configuration() -> dict[str, Any]:
    """Return the configuration of our scheduler as the main one, under kube-scheduler's lease."""
    namespace, lease = MAIN_LEASE
    election = {"leaderElect": True, "resourceNamespace": namespace, "resourceName": lease}
    tree = configuration_tree(numa_configuration((DEFAULT_SCHEDULER, SCHEDULER_NAME)))
    return {**tree, "leaderElection": election}


def _pod(container: dict[str, Any], folders: Mapping[str, str]) -> dict[str, Any]:
    labels = {"component": KUBE_SCHEDULER, "tier": "control-plane"}
    # As kubeadm has it: the credentials are root's.
    security = {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    kubeconfig = {"name": "kubeconfig", "mountPath": MAIN_KUBECONFIG, "readOnly": True}
    host = {"path": MAIN_KUBECONFIG, "type": "FileOrCreate"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": KUBE_SCHEDULER, "namespace": "kube-system", "labels": labels},
        "spec": {
            "hostNetwork": True,
            "priority": 2000001000,
            "priorityClassName": "system-node-critical",
            "securityContext": security,
            "containers": [
                {
                    "name": KUBE_SCHEDULER,
                    "imagePullPolicy": "IfNotPresent",
                    **container,
                    "resources": {"requests": {"cpu": "100m"}},
                    "securityContext": CONTAINER_SECURITY,
                    "volumeMounts": [kubeconfig, *(_mount(*item) for item in folders.items())],
                }
            ],
            "volumes": [
                {"name": "kubeconfig", "hostPath": host},
                *(_volume(*item) for item in folders.items()),
            ],
        },
    }


def _probes(scheme: str) -> dict[str, Any]:
    def probe(path: str, failures: int) -> dict[str, Any]:
        get = {"host": "127.0.0.1", "path": path, "port": _PORT, "scheme": scheme}
        return {"httpGet": get, "failureThreshold": failures, "timeoutSeconds": 15}

    return {
        "startupProbe": {**probe("/livez", 24), "initialDelaySeconds": 10},
        "livenessProbe": probe("/livez", 8),
        "readinessProbe": {**probe("/readyz", 3), "periodSeconds": 1},
    }


def _mount(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "readOnly": True}


def _volume(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}


def _patch(flag: str, folders: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what kubeadm adds to the static pod that it writes itself."""
    added: list[tuple[str, object]] = [("/spec/containers/0/command/-", flag)]
    for item in folders.items():
        added.append(("/spec/containers/0/volumeMounts/-", _mount(*item)))
        added.append(("/spec/volumes/-", _volume(*item)))
    return [{"op": "add", "path": path, "value": value} for path, value in added]


def _rights() -> list[dict[str, Any]]:
    """Return what our scheduler may besides, as the user that kube-scheduler is."""
    namespace, lease = MAIN_LEASE
    rights = [
        *cluster_role(NAME, cluster_rules(), _ACCOUNT),
        *role(NAME, namespace, lease_rules(lease), _ACCOUNT),
    ]
    for right in rights:
        if "subjects" in right:
            right["subjects"] = [dict(_USER)]
    return rights


_ACCOUNT: Final[dict[str, Any]] = {"metadata": {"name": NAME, "namespace": MAIN_LEASE[0]}}
