"""The driver on every node: a DaemonSet, its rights, and the class of the devices.

It runs as root because control groups and the kubelet's folders are root's, and otherwise as the
enforcer does: without a capability, not privileged. A pod that is replaced serves until the new one
is ready, so that no claim waits for an update. The account may write slices; a policy of the API
server keeps each pod to those of its own node, which rights cannot say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from numakube.manifests.node_agents import (
    CREATED,
    POD_SECURITY,
    HostFolder,
    daemon_set,
    host_paths,
    kubelet_state,
    probes,
)
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY
from numakube.manifests.rbac_rules import cluster_role, rule, service_account
from numakube_dra_driver.annex import PORT
from numakube_dra_driver.devices import DRIVER

if TYPE_CHECKING:
    from numakube.manifests.components import Choices

NAME: Final = "numakube-dra-driver"
CLASS: Final = "numa-cpus"
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
_KUBELET: Final = kubelet_state("kubelet", "/host/kubelet")
_LABELS: Final = {"app.kubernetes.io/name": NAME}
_SECURITY: Final = {**POD_SECURITY, "seLinuxOptions": {"type": "spc_t"}}
_SLICES: Final = "resource.k8s.io"


def objects(choices: Choices) -> list[dict[str, Any]]:
    """Return everything, in the order of creation."""
    account = service_account(NAME, choices.namespace)
    return [
        account,
        *cluster_role(NAME, _rules(), account),
        *own_slices(choices.namespace),
        device_class(),
        deny_all(f"{NAME}-default-deny", choices.namespace, _LABELS),
        allow_api_server(f"{NAME}-egress-to-api-server", choices.namespace, _LABELS),
        allow_scraping(f"{NAME}-ingress-to-metrics", choices.namespace, _LABELS, PORT),
        _daemon_set(choices),
    ]


def device_class() -> dict[str, Any]:
    """Return the class of the CPUs that nodes offer."""
    rule = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "cpu"'
    return {
        "apiVersion": f"{_SLICES}/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": rule}}]},
    }


def own_slices(namespace: str) -> list[dict[str, Any]]:
    """Return what keeps a driver's pod to the slices of its own node and driver."""
    return policy(
        "numakube-dra-slices",
        [writes(_SLICES, ["resourceslices"], ["CREATE", "UPDATE", "DELETE"])],
        only={"by-the-driver": is_account(namespace, NAME)},
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
                f"variables.slice.spec.driver == '{DRIVER}'",
                f"'only slices of driver {DRIVER} may be written'",
            ),
        ],
    )


def _rules() -> list[dict[str, Any]]:
    return [
        rule(_SLICES, ["resourceslices"], ["get", "list", "watch", "create", "update", "delete"]),
        rule(_SLICES, ["resourceclaims"], ["get"]),
        rule(_SLICES, ["resourceclaims/status"], ["patch"]),
        # What else Kubernetes 1.36 asks of drivers that write statuses.
        rule(_SLICES, ["resourceclaims/driver"], ["associated-node:patch"], names=[DRIVER]),
        rule("", ["nodes"], ["get"]),
        rule("", ["pods"], ["list", "watch"]),
        rule("", ["events"], ["create", "patch"]),
    ]


def _daemon_set(choices: Choices) -> dict[str, Any]:
    volumes, mounts = host_paths(_FOLDERS)
    container = {**_container(choices), "volumeMounts": [*_KUBELET.mounts, *mounts]}
    pod: dict[str, Any] = {
        "serviceAccountName": NAME,
        "securityContext": _SECURITY,
        "initContainers": [_KUBELET.first(container)],
        "containers": [container],
        "volumes": [*_KUBELET.volumes, *volumes],
    }
    document = daemon_set(NAME, choices.namespace, pod)
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return document


def _container(choices: Choices) -> dict[str, Any]:
    return {
        "name": "dra-driver",
        "image": choices.image,
        "imagePullPolicy": choices.pull_policy,
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
