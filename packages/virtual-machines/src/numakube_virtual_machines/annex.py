"""What understanding virtual machines adds to numakube."""

from __future__ import annotations

from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="virtual-machines",
    summary="Virtual machines of KubeVirt: what their pods ask for, and the guest's NUMA cells.",
    extra="virtual-machines",
    follows="KubeVirt 1.5",
    pages=("reference/virtual-machines.md",),
    pod_kinds=(
        Added(name="VirtualMachine", summary="The pod that a virtual machine runs in."),
        Added(name="VirtualMachineInstance", summary="The pod that an instance runs in."),
    ),
    explainers=(
        Added(name="virtual-machine", summary="What a machine's pod asks for, and guest cells."),
    ),
    observations=(Added(name="virtual-machine", summary="Which virtual machine runs in a pod."),),
)
