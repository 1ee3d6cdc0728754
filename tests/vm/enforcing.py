"""What processes of pods may run on, by the kernel itself, and what the enforcer makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.vm.cluster import Cluster
from tests.vm.kubelets import Choice
from tests.vm.pods import IMAGE

from numakube.api.pod import Pod
from numakube.values.cpuset import CpuSet

NOTHING_ALIGNED: Final = Choice(policy="none", cpu="none", memory="None")
"""A kubelet that leaves everything to the enforcer."""
STATUS: Final = "scheduling.koordinator.sh/resource-status"
# All processes of a pod's control groups, by uid with either of the drivers' spellings; some may
# be gone meanwhile.
_LOOK: Final = """
for group in $(find /sys/fs/cgroup -type d \\( -name '*pod{uid}*' -o -name '*pod{escaped}*' \\)); do
  cat $(find $group -name cgroup.procs)
done 2>/dev/null | sort -u | while read pid; do
  awk '/^(Cpus|Mems)_allowed_list/ {{ printf "%s ", $2 }} END {{ print "" }}' /proc/$pid/status
done 2>/dev/null || true
"""
_DRIFT: Final = """
for group in $(find /sys/fs/cgroup -type d \\( -name '*pod{uid}*' -o -name '*pod{escaped}*' \\)); do
  for file in $(find $group -name cpuset.cpus); do echo {cpus} > $file || true; done
done
"""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where the processes of a pod may run, and where their memory may be."""

    cpus: frozenset[CpuSet]
    nodes: frozenset[CpuSet]


def running_pod(
    name: str, node: str, *, allotment: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a pod that runs until it is deleted, with what a scheduler allots to it."""
    annotations = {STATUS: json.dumps(allotment)} if allotment else {}
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/bin/sleep", "1000000"],
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


async def allowed(cluster: Cluster, pod: Pod) -> Allowed:
    """Return what the kernel says of the processes of *pod*."""
    uid = pod.metadata.uid
    script = _LOOK.format(uid=uid, escaped=uid.replace("-", "_"))
    rows = [line.split() for line in (await cluster.node.run(script)).splitlines()]
    found = [row for row in rows if len(row) == 2]
    return Allowed(
        frozenset(CpuSet.parse(cpus) for cpus, _ in found),
        frozenset(CpuSet.parse(nodes) for _, nodes in found),
    )


async def until_allowed(cluster: Cluster, pod: Pod, *, cpus: str, within: float = 30.0) -> None:
    """Wait until all processes of *pod* may run on *cpus* and nowhere else.

    Raises:
        NotInTime: with what they may run on.
    """
    wanted = frozenset({CpuSet.parse(cpus)})

    async def differ() -> str:
        found = (await allowed(cluster, pod)).cpus
        if found == wanted:
            return ""
        said = " and ".join(sorted(map(str, found))) or "nothing: it has no process"
        return f"{pod.metadata.name} may run on {said}, not {cpus}"

    await cluster.until(differ, within=within)


async def drift(cluster: Cluster, pod: Pod, cpus: str) -> None:
    """Let somebody else write the control groups of *pod*."""
    uid = pod.metadata.uid
    await cluster.node.run(_DRIFT.format(uid=uid, escaped=uid.replace("-", "_"), cpus=cpus))
