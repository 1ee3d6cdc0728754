"""The table of features: whatever a world can have, with the values that it can take.

A new capability adds a row here, and `generate` learns what its values mean. `covering` makes sure
that every two values of different rows meet in some world, and every three of rows whose values
change state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table.

    Attributes:
        changes: whether its values change the state of a running cluster.
    """

    name: str
    values: tuple[str, ...]
    changes: bool = False


MACHINES: Final = {
    "one-zone": "1 socket, 6 cores, smt 2, 16Gi, gpu 2, hugepages-2Mi 512",
    "two-sockets": "2 sockets, 4 cores, smt 2, 16Gi, gpu 2, hugepages-2Mi 512",
    "no-smt": "2 sockets, 6 cores, 12Gi, gpu 1, hugepages-2Mi 256",
    "four-zones": "2 sockets, 2 numa each, 2 cores, smt 2, 8Gi, gpu 1, hugepages-2Mi 256",
    "caches": "2 sockets, 8 cores, smt 2, uncore 4, 16Gi, gpu 2, hugepages-2Mi 512",
    "uneven": "2 sockets, 4/2 cores, smt 2, 16Gi/4Gi, gpu 2/0, hugepages-2Mi 512/-",
    "memory-only": "2 sockets, 4 cores, smt 2, 8Gi, cxl 16Gi, gpu 1, hugepages-2Mi 256",
    "eight-zones": "2 sockets, 4 numa each, 2 cores, smt 2, 4Gi, gpu 1, hugepages-2Mi 64",
    "sixteen-zones": "2 sockets, 8 numa each, 2 cores, smt 2, 2Gi, gpu 1, hugepages-2Mi 64",
    "shared-devices": "2 sockets, 2 numa each, 2 cores, smt 2, 8Gi, gpu 1@0+1 1@2+3",
    "islands": "2 sockets, 4 cores, smt 2, 16Gi, gpu 4, 2 switches, islands 4 gpu,"
    " hugepages-2Mi 512",
    "superchip": "2 sockets, 8 cores, 16Gi, gpu 2, 32 cxl 1Gi, hugepages-2Mi 64",
}

FEATURES: Final = (
    Feature("machine", (*MACHINES, "mixed")),
    Feature("policy", ("single-numa-node", "restricted", "best-effort", "none", "mixed")),
    Feature("scope", ("container", "pod")),
    Feature(
        "option",
        (
            "",
            "full-pcpus-only=true",
            "distribute-cpus-across-numa=true",
            "prefer-align-cpus-by-uncorecache=true",
            "prefer-closest-numa-nodes=true",
            "strict-cpu-reservation=true",
        ),
    ),
    Feature("kubelet", ("1.32", "1.34", "1.35", "1.36", "1.37", "mixed")),
    Feature("producer", ("ours", "pod", "surprises", "rte", "nfd", "none", "mixed")),
    Feature("measured", ("no", "yes")),
    Feature("schedulers", ("one", "two", "shards", "beside-default", "extender")),
    Feature("devices", ("plugin", "claims")),
    Feature(
        "pods",
        (
            "guaranteed",
            "burstable",
            "besteffort",
            "containers",
            "init",
            "sidecar",
            "pod-level",
            "hugepages",
        ),
    ),
    Feature(
        "virtual-machines",
        ("none", "shared", "dedicated", "isolated", "hugepages", "passthrough"),
    ),
    Feature("claims", ("none", "template", "shared", "extended")),
    Feature(
        "gang",
        (
            "none",
            "labels",
            "coscheduling",
            "volcano",
            "elastic",
            "required-rack",
            "kueue-rack",
            "preferred-rack",
            "slices",
            "balanced",
        ),
    ),
    Feature("claimed-cpus", ("none", "alone", "gang")),
    Feature("gang-claims", ("no", "yes")),
    Feature("disks", ("none", "local", "rack", "at-once", "offered", "stateful")),
    Feature("owner", ("none", "deployment", "statefulset", "job", "daemonset")),
    Feature(
        "constraint",
        (
            "none",
            "spread",
            "apart",
            "together",
            "selector",
            "gate",
            "zones-apart",
            "zones-spread",
            "linked",
        ),
    ),
    Feature("priority", ("none", "preempting", "preempting-at-once", "low")),
    Feature("aligned-by", ("kubelet", "annotation", "annotation-by-container")),
    Feature(
        "event",
        (
            "none",
            "pods-end",
            "force-delete",
            "drain",
            "cordon",
            "node-joins",
            "node-leaves",
            "scale",
            "ungate",
            "resize",
            "device-breaks",
            "taint",
            "rebalancer",
            "minimum-raised",
        ),
        changes=True,
    ),
    Feature(
        "fault",
        (
            "none",
            "kubelet-restart",
            "kubelet-pause",
            "reconfigure",
            "exporter-dies",
            "takeover",
            "scheduler-killed",
            "scheduler-stopped",
            "schedulers-gone",
            "extender-killed",
            "watches-dropped",
            "history-expired",
            "server-killed",
            "upgrade",
        ),
        changes=True,
    ),
    Feature(
        "probe",
        (
            "none",
            "fits",
            "simulate",
            "explain",
            "explain-device",
            "changes",
            "advise",
            "hold",
            "defrag",
            "components",
            "operator",
        ),
        changes=True,
    ),
    Feature("end", ("none", "cleared")),
)
BY_NAME: Final = {feature.name: feature for feature in FEATURES}
