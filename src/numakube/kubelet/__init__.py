"""The exact model of a kubelet's Topology, CPU, Memory and Device Managers. Pure.

    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi")
    node = KubeletNode(machine, settings_of(config, machine))
    outcome = node.admit(pod)      # Admitted, or Rejected in the kubelet's words

What `__all__` names is public; the modules themselves may change. A name is loaded when it is first
used, because most programs need a type or two and not the model.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.kubelet.admission_outcome import (
        Admitted,
        ContainerPlacement,
        MemoryBlock,
        Rejected,
    )
    from numakube.kubelet.admission_trace import AdmissionTrace
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
    from numakube.kubelet.machines.cadvisor_machine import from_cadvisor
    from numakube.kubelet.machines.presets import PRESETS
    from numakube.kubelet.machines.shape_text import from_shape, to_shape
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.settings_from_config import allocatable_of, capacity_of, settings_of

__all__ = [
    "PRESETS",
    "AdmissionTrace",
    "Admitted",
    "ContainerPlacement",
    "Core",
    "Device",
    "HugePages",
    "KubeletNode",
    "KubeletSettings",
    "Machine",
    "MemoryBlock",
    "NumaNode",
    "Rejected",
    "allocatable_of",
    "capacity_of",
    "from_cadvisor",
    "from_shape",
    "settings_of",
    "to_shape",
]

__getattr__ = lazy_names(
    __name__,
    {
        "admission_outcome": "Admitted ContainerPlacement MemoryBlock Rejected",
        "admission_trace": "AdmissionTrace",
        "kubelet_model": "KubeletNode",
        "machine": "Core Device HugePages Machine NumaNode",
        "machines.cadvisor_machine": "from_cadvisor",
        "machines.presets": "PRESETS",
        "machines.shape_text": "from_shape to_shape",
        "manager_settings": "KubeletSettings",
        "settings_from_config": "allocatable_of capacity_of settings_of",
    },
)
