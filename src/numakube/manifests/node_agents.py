"""What the programs that run on every node have in common: a DaemonSet with paths of the host.

They run as root because the kubelet's sockets are root's, but without any capability, with a
read-only file system, and without being privileged. Where SELinux is enforced, a type that may
reach the kubelet's folders has to be asked for by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CREATED: Final = "DirectoryOrCreate"

POD_SECURITY: Final[dict[str, Any]] = {
    "runAsUser": 0,
    "seLinuxOptions": {"type": "container_device_plugin_t", "level": "s0"},
    "seccompProfile": {"type": "RuntimeDefault"},
}
KUBELET: Final = "/var/lib/kubelet"
_HIDDEN: Final = ("pods", "plugins", "plugins_registry", "pki")
"""Folders of the kubelet with what belongs to pods and volumes, and with its own key."""
_PKI: Final = "kubelet-pki"


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
    return [folder.volume() for folder in folders], [folder.mount() for folder in folders]


def kubelet_state(name: str, inside: str) -> KubeletStateMounts:
    """Return how the kubelet's state files are seen at *inside*, and little else of its folder.

    The kubelet replaces its files, so a mount of a single one would show its first content for
    ever: the folder itself is mounted. What is in it of others is hidden by an empty folder on top,
    which takes a capability to remove.

    A folder that does not exist cannot be covered. All but ``pki`` the kubelet makes itself; where
    keys are kept elsewhere (k3s, RKE2), a mount into a container that does nothing makes it.
    """
    folder = HostFolder(name=name, path=KUBELET, inside=inside, type="Directory")
    keys = HostFolder(name=_PKI, path=f"{KUBELET}/pki", inside="/pki", type=CREATED)
    cover = {"name": "hidden", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    covers = [
        {"name": "hidden", "mountPath": f"{inside}/{one}", "readOnly": True} for one in _HIDDEN
    ]
    return KubeletStateMounts(
        volumes=[folder.volume(), cover, keys.volume()],
        mounts=[folder.mount(), *covers],
        first_mounts=[keys.mount()],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStateMounts:
    """The volumes and mounts by which an agent reads the kubelet's state files.

    Attributes:
        mounts: of the agent's container; ``first_mounts`` are of one that ends before it starts.
    """

    volumes: list[dict[str, Any]]
    mounts: list[dict[str, Any]]
    first_mounts: list[dict[str, Any]]

    def first(self, container: dict[str, Any]) -> dict[str, Any]:
        """Return the container that runs before the agent's, in the image of *container*."""
        copied = ("image", "imagePullPolicy", "securityContext")
        return {
            "name": "kubelet-folders",
            **{key: container[key] for key in copied if key in container},
            "args": ["--version"],
            "resources": {
                "requests": {"cpu": "10m", "memory": "32Mi"},
                "limits": {"memory": "64Mi"},
            },
            "volumeMounts": self.first_mounts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AdditionSite:
    """Where what annexes run on the nodes of an operator's node groups lives.

    Attributes:
        image: what their pods run.
        openshift: whether the platform asks for security context constraints.
    """

    namespace: str = ""
    image: str = ""
    openshift: bool = False


def security_constraints(
    name: str, users: Sequence[str], selinux: Mapping[str, str]
) -> dict[str, Any]:
    """Return what OpenShift lets pods of *users* do on their hosts."""
    anything = {"type": "RunAsAny"}
    return {
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": name},
        "allowHostDirVolumePlugin": True,
        "fsGroup": anything,
        "runAsUser": anything,
        "supplementalGroups": anything,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "requiredDropCapabilities": ["ALL"],
        # Without a list no profile may be asked for.
        "seccompProfiles": ["runtime/default"],
        "seLinuxContext": {"type": "MustRunAs", "seLinuxOptions": dict(selinux)},
        "users": list(users),
        "volumes": ["configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret"],
    }


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
