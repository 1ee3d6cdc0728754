"""What kubelets and container runtimes call the groups of pods and containers.

With the systemd driver every level repeats the names above it, and dashes of the uid become
underscores; with the cgroupfs driver names are plain:

    kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-ID.scope
    kubepods/burstable/pod1-2/ID

Guaranteed pods have no level of their own. Below a ``--cgroup-root`` the first level is inside it,
such as ``kubelet.slice/kubelet-kubepods.slice``. Follows Kubernetes 1.35, pkg/kubelet/cm.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from numakube.api.pod_resources import BEST_EFFORT, BURSTABLE

SYSTEMD_PARENTS: Final = ("kubepods.slice", "kubelet.slice/kubelet-kubepods.slice")
CGROUPFS_PARENTS: Final = ("kubepods", "kubelet/kubepods")
PARENTS: Final = (*SYSTEMD_PARENTS, *CGROUPFS_PARENTS)
"""Where kubelets keep their pods, the usual places first."""

QOS_LEVELS: Final = {BURSTABLE: "burstable", BEST_EFFORT: "besteffort"}

_SLICE: Final = ".slice"
_SCOPE: Final = ".scope"
_PREFIXES: Final = {"containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}
_POD: Final = re.compile(r"(?:^|-)pod(?P<uid>[0-9A-Za-z_-]+?)(?:\.slice)?$")
_CONTAINER: Final = re.compile(
    r"(?:(?:cri-containerd|crio|docker|podman|libpod)-)?(?P<id>[0-9a-f]{32,})(?:\.scope)?$"
)


class Driver(StrEnum):
    """Who makes the groups."""

    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


def driver_of(parent: str) -> Driver:
    """Return the driver that made the group *parent* of all pods."""
    return Driver.SYSTEMD if parent.endswith(_SLICE) else Driver.CGROUPFS


def qos_group(parent: str, qos_class: str) -> str:
    """Return the group in which pods of a QoS class are."""
    level = QOS_LEVELS.get(qos_class)
    if level is None:
        return parent
    if driver_of(parent) is Driver.CGROUPFS:
        return f"{parent}/{level}"
    return f"{parent}/{_stem(parent)}-{level}{_SLICE}"


def pod_group(parent: str, qos_class: str, uid: str) -> str:
    """Return the group of a pod."""
    above = qos_group(parent, qos_class)
    if driver_of(parent) is Driver.CGROUPFS:
        return f"{above}/pod{uid}"
    return f"{above}/{_stem(above)}-pod{uid.replace('-', '_')}{_SLICE}"


def container_group(pod: str, container_id: str) -> str:
    """Return the group of a container whose id a pod's status gives as ``runtime://ID``."""
    runtime, _, identity = container_id.rpartition("://")
    prefix = _PREFIXES.get(runtime, runtime)
    if pod.endswith(_SLICE):
        return f"{pod}/{prefix}-{identity}{_SCOPE}"
    return f"{pod}/crio-{identity}" if runtime == "cri-o" else f"{pod}/{identity}"


def uid_of(folder: str) -> str | None:
    """Return the uid of the pod whose group's last name is *folder*, if it is one of a pod."""
    found = _POD.search(folder)
    if found is None:
        return None
    uid = found["uid"]
    return uid.replace("_", "-") if folder.endswith(_SLICE) else uid


def container_id_of(folder: str) -> str | None:
    """Return the id of the container whose group's last name is *folder*, without its runtime."""
    found = _CONTAINER.fullmatch(folder)
    return None if found is None else found["id"]


def bare_id(container_id: str) -> str:
    """Return a container's id without its runtime."""
    return container_id.rpartition("://")[2]


def _stem(group: str) -> str:
    return group.rpartition("/")[2].removesuffix(_SLICE)
