"""Virtual machines of KubeVirt: the pods that they run in, and what their guests see.

create pod vm-0 vm=dedicated cpu=3 memory=1Gi
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numakube.api.pod import Pod
from numakube.insight.explain.explanation_document import Explanation
from numakube.testing.pods import GPU, IMAGE
from numakube_lab.nodes.lab_kubelet import LabKubelet
from numakube_virtual_machines.guest_cells import GuestCell, cells_of, guest_of
from numakube_virtual_machines.launcher_pod import COMPUTE, PASSTHROUGH, pod_of

SHARED: Final = "shared"
_PAGES: Final = {"hugepages": {"pageSize": "2Mi"}}
_KUBEVIRT: Final = "devices.kubevirt.io/"
"""Devices that every node has which runs machines, enough for all, and near no NUMA node."""


def as_launcher(document: dict[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """Return a pod as KubeVirt makes it for a machine of the size that *options* say."""
    name = document["metadata"]["name"]
    made = pod_of(_machine(name, options), name)
    containers = made["spec"]["containers"]
    for container in containers:
        container["image"] = IMAGE
        for amounts in container["resources"].values():
            for key in [key for key in amounts if key.startswith(_KUBEVIRT)]:
                del amounts[key]
    metadata = {**document["metadata"]}
    for field in ("labels", "annotations"):
        metadata[field] = {**made["metadata"][field], **metadata[field]}
    return {
        **document,
        "metadata": metadata,
        "spec": {**document["spec"], "containers": containers},
    }


def _machine(name: str, options: Mapping[str, str]) -> dict[str, Any]:
    kind, cpu = options["vm"], options.get("cpu", "1")
    cpus: dict[str, Any] = {"cores": int(cpu) if cpu.isdecimal() else 1}
    memory: dict[str, Any] = {"guest": options.get("memory", "256Mi")}
    if kind != SHARED:
        cpus["dedicatedCpuPlacement"] = True
    if kind == "isolated":
        cpus["isolateEmulatorThread"] = True
    if kind in ("hugepages", "passthrough"):
        memory |= _PAGES
    if kind == "passthrough":
        cpus["numa"] = {"guestMappingPassthrough": {}}
    gpus = [{"name": f"gpu{n}", "deviceName": GPU} for n in range(int(options.get("gpu", "0")))]
    domain = {"cpu": cpus, "memory": memory, "devices": {"gpus": gpus}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name},
        "spec": {"domain": domain},
    }


def seen_cells(kubelet: LabKubelet, pod: Pod) -> tuple[GuestCell, ...]:
    """Return the NUMA nodes that the guest of a pod sees by what its kubelet has given it."""
    guest, admission = guest_of(pod), kubelet.admission
    if guest is None or admission is None or PASSTHROUGH not in pod.metadata.annotations:
        return ()
    model = admission.model
    held = model.placement(pod.metadata.uid, COMPUTE).cpus
    zone_of = {
        cpu: node.id for node in model.machine.nodes for core in node.cores for cpu in core.threads
    }
    return cells_of(held, zone_of, guest[1], guest[0])


def told_of_cells(told: Explanation, cells: tuple[GuestCell, ...]) -> bool:
    """Tell whether an explanation names these cells, or none."""
    said = [note for note in told.notes if " its guest sees cell 0 " in note]
    return not said or (
        said[0].count("; cell ") + 1 == len(cells)
        and all(
            f"cell {number} on zone {cell.zone} with {cell.cpus} CPU" in said[0]
            for number, cell in enumerate(cells)
        )
    )
