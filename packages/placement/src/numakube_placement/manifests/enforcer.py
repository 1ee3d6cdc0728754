"""The enforcer on every node: a DaemonSet that may write control groups, and nothing else there.

Root owns the host's control groups, so it runs as root; it has no capability, is not privileged and
sees neither processes nor devices of the host. Where SELinux is enforced, only an unconfined type
may write them. On nodes without pods that were given CPUs it writes nothing. Where the runtime
offers NRI its socket is in a folder of the host, which is mounted as a whole: the socket is made
again when the runtime starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
    allotments_by_schedulers,
    allow_api_server,
    allow_scraping,
    deny_all,
)
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY
from numakube.manifests.rbac_rules import cluster_role, rule, service_account
from numakube_placement import ENFORCER_PORT

NAME: Final = "numakube-enforcer"
_PORT: Final = ENFORCER_PORT
_STATE: Final = "/var/lib/numakube-enforcer"
_NRI: Final = "/host/nri"
_FOLDERS: Final = (
    HostFolder(name="sys", path="/sys", inside="/host/sys"),
    HostFolder(name="cgroup", path="/sys/fs/cgroup", inside="/host/cgroup", writable=True),
    HostFolder(name="nri", path="/var/run/nri", inside=_NRI, type=CREATED),
    HostFolder(name="state", path=_STATE, type=CREATED, writable=True),
)
_KUBELET: Final = kubelet_state("kubelet", "/host/kubelet")
_LABELS: Final = {"app.kubernetes.io/name": NAME}
_SECURITY: Final = {**POD_SECURITY, "seLinuxOptions": {"type": "spc_t"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcerManifest:
    """What is deployed.

    Attributes:
        memory: whether memory follows what was allotted, too.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    memory: bool = True

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role(NAME, self._rules(), account),
            *allotments_by_schedulers(),
            deny_all(f"{NAME}-default-deny", self.namespace, _LABELS),
            allow_api_server(f"{NAME}-egress-to-api-server", self.namespace, _LABELS),
            allow_scraping(f"{NAME}-ingress-to-metrics", self.namespace, _LABELS, _PORT),
            self.daemon_set(),
        ]

    def daemon_set(self) -> dict[str, Any]:
        """Return the DaemonSet."""
        volumes, mounts = host_paths(_FOLDERS)
        container = {**self._container(), "volumeMounts": [*_KUBELET.mounts, *mounts]}
        pod: dict[str, Any] = {
            "serviceAccountName": NAME,
            "securityContext": _SECURITY,
            "initContainers": [_KUBELET.first(container)],
            "containers": [container],
            "volumes": [*_KUBELET.volumes, *volumes],
        }
        return daemon_set(NAME, self.namespace, pod)

    @staticmethod
    def _rules() -> list[dict[str, Any]]:
        return [
            rule("", ["pods", "nodes"], ["list", "watch"]),
            rule("", ["events"], ["create", "patch"]),
        ]

    def _container(self) -> dict[str, Any]:
        args = [
            "enforcer",
            "--cgroup-root=/host/cgroup",
            "--sysfs=/host/sys",
            "--kubelet-state-dir=/host/kubelet",
            f"--nri-socket={_NRI}/nri.sock",
            f"--state-dir={_STATE}",
            f"--bind-address=0.0.0.0:{_PORT}",
            "--insecure-serving",
        ]
        return {
            "name": "enforcer",
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": args if self.memory else [*args, "--no-memory"],
            "env": [
                {
                    "name": "NODE_NAME",
                    "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                }
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            **probes("metrics"),
            "resources": {
                "requests": {"cpu": "50m", "memory": "96Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
        }
