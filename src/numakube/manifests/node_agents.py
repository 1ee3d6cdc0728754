"""What the programs that run on every node have in common: a DaemonSet with paths of the host.

They run as root because the kubelet's sockets are root's, but without any capability, with a
read-only file system, and without being privileged. Where SELinux is enforced, a type that may
reach the kubelet's folders has to be asked for by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CREATED: Final = "DirectoryOrCreate"

POD_SECURITY: Final = {
    "runAsUser": 0,
    "seLinuxOptions": {"type": "container_device_plugin_t", "level": "s0"},
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFolder:
    """A folder of the host.

    Attributes:
        name: of the volume.
        path: on the host.
        inside: in the container; the same if empty.
        type: what the kubelet makes sure of, if anything.
        writable: whether the program writes there.
    """

    name: str
    path: str
    inside: str = ""
    type: str = ""
    writable: bool = False

    def volume(self) -> dict[str, Any]:
        """Return the pod's volume."""
        source = {"path": self.path, "type": self.type} if self.type else {"path": self.path}
        return {"name": self.name, "hostPath": source}

    def mount(self) -> dict[str, Any]:
        """Return the container's mount."""
        mount: dict[str, Any] = {"name": self.name, "mountPath": self.inside or self.path}
        return mount if self.writable else {**mount, "readOnly": True}


def host_paths(folders: Sequence[HostFolder]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return volumes and mounts of *folders*."""
    return [one.volume() for one in folders], [one.mount() for one in folders]


def probes(port: str) -> dict[str, Any]:
    """Return the probes of a process that serves its health on *port*."""
    return {
        "livenessProbe": {"httpGet": {"path": "/livez", "port": port}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}},
    }


def daemon_set(name: str, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Return a DaemonSet of *pod* for every node, whatever its taints."""
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "numakube"}
    spec = {
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        **pod,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
