"""The driver on every node: a DaemonSet, its rights, and the classes of its devices.

It runs as root because control groups and the kubelet's folders are root's, and otherwise as the
enforcer does: without a capability, not privileged. A pod that is replaced serves until the new one
is ready, so that no claim waits for an update. The account may write slices; a policy of the API
server keeps each pod to those of its own node, which rights cannot say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests import (
    CREATED,
    IMAGE,
    POD_SECURITY,
    HostFolder,
    daemon_set,
    host_paths,
    kubelet_state,
    probes,
)
from numakube.manifests.cluster_policies import (
    allow_api_server,
    allow_scraping,
    deny_all,
    is_account,
    must,
    policy,
    token_of,
    writes,
)
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY
from numakube.manifests.rbac_rules import cluster_role, rule, service_account
from numakube.node.host_files import INFO_FOLDER
from numakube_dra_driver.annex import PORT
from numakube_dra_driver.device_classes import class_documents, dra_cpu_class, pool_classes
from numakube_dra_driver.devices import DRA_CPU, DRIVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.manifests import Choices

NAME: Final = "numakube-dra-driver"
_STATE: Final = "/var/lib/numakube-dra"
_PLUGIN: Final = f"/var/lib/kubelet/plugins/{DRIVER}"
_FOLDERS: Final = (
    HostFolder(name="sys", path="/sys", inside="/host/sys"),
    HostFolder(name="cgroup", path="/sys/fs/cgroup", inside="/host/cgroup", writable=True),
    HostFolder(name="nri", path="/var/run/nri", inside="/host/nri", type=CREATED),
    HostFolder(name="cdi", path="/var/run/cdi", type=CREATED, writable=True),
    # The kubelet connects to the path that it is told: it has to be the same inside.
    HostFolder(name="plugin", path=_PLUGIN, type=CREATED, writable=True),
    HostFolder(name="registry", path="/var/lib/kubelet/plugins_registry", writable=True),
    HostFolder(name="pod-resources", path="/var/lib/kubelet/pod-resources"),
    HostFolder(name="state", path=_STATE, type=CREATED, writable=True),
)
_FOR_FUNCTIONS: Final = (
    HostFolder(name="dev", path="/dev", inside="/host/dev"),
    HostFolder(name="proc", path="/proc", inside="/host/proc"),
    HostFolder(name="device-info", path=INFO_FOLDER, type=CREATED, writable=True),
)
_CONFIG: Final = "/etc/pcidp"
CONFIG_KEY: Final = "config.json"
_DRA_CPU_PLUGIN: Final = (
    HostFolder(
        name="dra-cpu",
        path=f"/var/lib/kubelet/plugins/{DRA_CPU}",
        type=CREATED,
        writable=True,
    ),
)
_FUNCTION_FLAGS: Final = (
    f"--pci-config-file={_CONFIG}/{CONFIG_KEY}",
    "--dev=/host/dev",
    "--proc=/host/proc",
)
_KUBELET: Final = kubelet_state("kubelet", "/host/kubelet")
SELINUX: Final = {"type": "spc_t"}
_SECURITY: Final = {**POD_SECURITY, "seLinuxOptions": SELINUX}
_SLICES: Final = "resource.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraManifest:
    """What is deployed.

    Attributes:
        name: of the DaemonSet and its policies.
        account: what the pods run as, and the start of the names of their rights; by default that
            of the DaemonSet.
        where: fields of a pod that say on which nodes it runs; on all of them by default.
        options: further arguments of the program.
        constraints: what OpenShift's security context constraints for the pods are called, if
            there are any.
        compatible: CPUs are offered as dra-driver-cpu does.
        pools: PCI functions that are offered, as in the ``resourceList`` of ``numakube sriov``.
    """

    namespace: str = "numakube"
    name: str = NAME
    account: str = ""
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    where: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    options: tuple[str, ...] = ()
    constraints: str = ""
    compatible: bool = False
    pools: Sequence[Mapping[str, Any]] = ()

    @property
    def _drivers(self) -> tuple[str, ...]:
        """The names of the driver."""
        return (DRA_CPU, DRIVER) if self.compatible else (DRIVER,)

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        return [*self.shared(), *self.on_nodes()]

    def shared(self) -> list[dict[str, Any]]:
        """Return what several DaemonSets of one account have in common."""
        name = self.account or self.name
        account = service_account(name, self.namespace)
        return [
            account,
            *cluster_role(name, _rules(self._drivers), account),
            *own_slices(self.namespace, name, self._drivers),
            *class_documents(),
            *([dra_cpu_class()] if self.compatible else []),
            *pool_classes(self.pools),
        ]

    def on_nodes(self) -> list[dict[str, Any]]:
        """Return the DaemonSet, and who may talk with its pods."""
        labels = {"app.kubernetes.io/name": self.name}
        return [
            deny_all(f"{self.name}-default-deny", self.namespace, labels),
            allow_api_server(f"{self.name}-egress-to-api-server", self.namespace, labels),
            allow_scraping(f"{self.name}-ingress-to-metrics", self.namespace, labels, PORT),
            *([self.config_map()] if self.pools else []),
            self.daemon_set(),
        ]

    def config_map(self) -> dict[str, Any]:
        """Return the pools, which are read again when they change."""
        text = json.dumps({"resourceList": list(self.pools)}, indent=2) + "\n"
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {CONFIG_KEY: text},
        }

    def daemon_set(self) -> dict[str, Any]:
        """Return the DaemonSet."""
        other = _DRA_CPU_PLUGIN if self.compatible else ()
        functions = _FOR_FUNCTIONS if self.pools else ()
        volumes, mounts = host_paths((*_FOLDERS, *other, *functions))
        if self.pools:
            volumes.append({"name": "config", "configMap": {"name": self.name}})
            mounts.append({"name": "config", "mountPath": _CONFIG, "readOnly": True})
        container = {**self._container(), "volumeMounts": [*_KUBELET.mounts, *mounts]}
        pod: dict[str, Any] = {
            "serviceAccountName": self.account or self.name,
            "securityContext": _SECURITY,
            "initContainers": [_KUBELET.first(container)],
            "containers": [container],
            "volumes": [*_KUBELET.volumes, *volumes],
            **self.where,
        }
        document = daemon_set(self.name, self.namespace, pod)
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
        if self.constraints:
            template = document["spec"]["template"]["metadata"]
            template["annotations"] = {"openshift.io/required-scc": self.constraints}
        return document

    def _container(self) -> dict[str, Any]:
        return {
            "name": "dra-driver",
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [
                "dra-driver",
                "--cgroup-root=/host/cgroup",
                "--sysfs=/host/sys",
                "--kubelet-state-dir=/host/kubelet",
                "--kubelet-config-file=/host/kubelet/config.yaml",
                "--nri-socket=/host/nri/nri.sock",
                f"--state-dir={_STATE}",
                f"--bind-address=0.0.0.0:{PORT}",
                "--insecure-serving",
                *(["--compatible"] if self.compatible else []),
                *(_FUNCTION_FLAGS if self.pools else ()),
                *self.options,
            ],
            "env": [
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in (("NODE_NAME", "spec.nodeName"), ("POD_UID", "metadata.uid"))
            ],
            "ports": [{"name": "metrics", "containerPort": PORT}],
            **probes("metrics"),
            "resources": {
                "requests": {"cpu": "50m", "memory": "96Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
        }


def component(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the component ``dra`` of ``numakube deploy``."""
    return DraManifest(
        namespace=choices.namespace,
        image=choices.image,
        pull_policy=choices.pull_policy,
        pools=choices.pools,
    ).objects()


def own_slices(
    namespace: str, account: str, drivers: Sequence[str] = (DRIVER,)
) -> list[dict[str, Any]]:
    """Return what keeps a driver's pod to the slices of its own node and driver."""
    return policy(
        f"{account}-own-node",
        [writes(_SLICES, ["resourceslices"], ["CREATE", "UPDATE", "DELETE"])],
        only={"by-the-driver": is_account(namespace, account)},
        variables={
            "slice": "request.operation == 'DELETE' ? oldObject : object",
            "node": "variables.slice.spec.?nodeName.orValue('')",
            "writer": token_of("node"),
        },
        validations=[
            must(
                "variables.writer != '' && variables.node == variables.writer",
                "'a driver on node ' + variables.writer + ' may not write slices of node '"
                " + variables.node",
            ),
            must(
                " || ".join(f"variables.slice.spec.driver == '{driver}'" for driver in drivers),
                f"'only slices of driver {' and '.join(drivers)} may be written'",
            ),
        ],
    )


def _rules(drivers: Sequence[str]) -> list[dict[str, Any]]:
    return [
        rule(_SLICES, ["resourceslices"], ["get", "list", "watch", "create", "update", "delete"]),
        rule(_SLICES, ["resourceclaims"], ["get"]),
        rule(_SLICES, ["resourceclaims/status"], ["patch"]),
        # What else Kubernetes 1.36 asks of drivers that write statuses.
        rule(_SLICES, ["resourceclaims/driver"], ["associated-node:patch"], names=[*drivers]),
        rule("", ["nodes"], ["get"]),
        rule("", ["pods"], ["list", "watch"]),
        rule("", ["events"], ["create", "patch"]),
    ]
