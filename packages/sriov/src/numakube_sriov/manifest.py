"""The SR-IOV device plugin: its configuration and its DaemonSet; it needs no rights at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests import (
    CONTAINER_SECURITY,
    CREATED,
    IMAGE,
    KUBELET,
    POD_SECURITY,
    HostFolder,
    daemon_set,
    host_paths,
    only_serves,
    probes,
    service_account,
)
from numakube_sriov.annex import ANNEX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.manifests import Choices

NAME: Final = "numakube-sriov"
CONFIG_KEY: Final = "config.json"
_PORT: Final = ANNEX.programs[0].port
_CONFIG: Final = "/etc/pcidp"
_FOLDERS: Final = (
    HostFolder(name="sys", path="/sys", inside="/host/sys"),
    HostFolder(name="dev", path="/dev", inside="/host/dev"),
    HostFolder(name="proc", path="/proc", inside="/host/proc"),
    HostFolder(name="device-plugins", path=f"{KUBELET}/device-plugins", writable=True),
    HostFolder(name="pod-resources", path=f"{KUBELET}/pod-resources"),
    HostFolder(name="registry", path=f"{KUBELET}/plugins_registry", writable=True),
    HostFolder(
        name="device-info",
        path="/var/run/k8s.cni.cncf.io/devinfo/dp",
        type=CREATED,
        writable=True,
    ),
)
_CDI: Final = HostFolder(name="cdi", path="/var/run/cdi", type=CREATED, writable=True)

EXAMPLE: Final[Sequence[Mapping[str, Any]]] = (
    {"resourceName": "sriov_netdevice", "selectors": {"vendors": ["8086"], "drivers": ["iavf"]}},
    {"resourceName": "sriov_dpdk", "selectors": {"vendors": ["8086"], "drivers": ["vfio-pci"]}},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SriovManifest:
    """What is deployed.

    Attributes:
        name: of the DaemonSet and its configuration.
        account: what the pods run as; of the same name by default.
        where: fields of a pod that say on which nodes it runs; on all of them by default.
        pools: the resources to offer, as in upstream's ``resourceList``.
        use_cdi: whether runtimes get device files by CDI.
        host_network: needed for selectors by DDP profile alone: devlink belongs to the network.
    """

    namespace: str = "numakube"
    name: str = NAME
    account: str = ""
    where: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    image: str = IMAGE
    pools: Sequence[Mapping[str, Any]] = field(default=EXAMPLE)
    use_cdi: bool = False
    host_network: bool = False

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        account = service_account(self.account or self.name, self.namespace)
        labels = {"app.kubernetes.io/name": self.name}
        guard = only_serves(self.name, self.namespace, labels, (_PORT,))
        return [account, guard, self.config_map(), self.daemon_set()]

    def config_map(self) -> dict[str, Any]:
        """Return the configuration, which is read again when it changes."""
        text = json.dumps({"resourceList": list(self.pools)}, indent=2) + "\n"
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {CONFIG_KEY: text},
        }

    def daemon_set(self) -> dict[str, Any]:
        """Return the DaemonSet."""
        folders = (*_FOLDERS, _CDI) if self.use_cdi else _FOLDERS
        volumes, mounts = host_paths(folders)
        volumes.append({"name": "config", "configMap": {"name": self.name}})
        mounts.append({"name": "config", "mountPath": _CONFIG, "readOnly": True})
        pod: dict[str, Any] = {
            "serviceAccountName": self.account or self.name,
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [{**self._container(), "volumeMounts": mounts}],
            "volumes": volumes,
            **self.where,
        }
        if self.host_network:
            pod["hostNetwork"] = True
        return daemon_set(self.name, self.namespace, pod)

    def _container(self) -> dict[str, Any]:
        args = [
            "sriov",
            f"--config-file={_CONFIG}/{CONFIG_KEY}",
            "--sysfs=/host/sys",
            "--dev=/host/dev",
            "--proc=/host/proc",
            f"--bind-address=0.0.0.0:{_PORT}",
            "--insecure-serving",
        ]
        return {
            "name": "sriov",
            "image": self.image,
            "args": [*args, "--use-cdi"] if self.use_cdi else args,
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            **probes("metrics"),
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "200Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
        }


def component(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the component ``sriov`` of ``numakube deploy``."""
    return SriovManifest(
        namespace=choices.namespace, image=choices.image, pools=choices.pools or EXAMPLE
    ).objects()
