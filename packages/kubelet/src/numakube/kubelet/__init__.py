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
        NO_ANSWER,
        UNEXPECTED,
        Admitted,
        ContainerPlacement,
        MemoryBlock,
        Rejected,
        unexpected,
    )
    from numakube.kubelet.admission_trace import AdmissionTrace
    from numakube.kubelet.config_from_words import (
        UNALIGNED,
        lab_configuration,
        overridden,
        parse_kubelet_options,
    )
    from numakube.kubelet.device_manager import PreferredAllocation
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.kubelet_versions import DEFAULT
    from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
    from numakube.kubelet.machines.cadvisor_machine import (
        from_cadvisor,
        read_devices,
        to_cadvisor,
        write_devices,
    )
    from numakube.kubelet.machines.shape import PRESETS
    from numakube.kubelet.machines.shape_text import from_shape, to_shape
    from numakube.kubelet.manager_settings import (
        KubeletSettings,
        allocatable_of,
        capacity_of,
        settings_of,
    )
    from numakube.kubelet.predicates import (
        DEFERRED,
        check_fit,
        check_placement,
        check_system,
        is_resized,
        resize_refusal,
        room_refusal,
        with_resources_of,
    )
    from numakube.kubelet.state_files import StateFiles, restore, save, states_of

__all__ = [
    "DEFAULT",
    "DEFERRED",
    "NO_ANSWER",
    "PRESETS",
    "UNALIGNED",
    "UNEXPECTED",
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
    "PreferredAllocation",
    "Rejected",
    "StateFiles",
    "allocatable_of",
    "capacity_of",
    "check_fit",
    "check_placement",
    "check_system",
    "from_cadvisor",
    "from_shape",
    "is_resized",
    "lab_configuration",
    "overridden",
    "parse_kubelet_options",
    "read_devices",
    "resize_refusal",
    "restore",
    "room_refusal",
    "save",
    "settings_of",
    "states_of",
    "to_cadvisor",
    "to_shape",
    "unexpected",
    "with_resources_of",
    "write_devices",
]

__getattr__ = lazy_names(
    __name__,
    {
        "admission_outcome": (
            "Admitted ContainerPlacement MemoryBlock NO_ANSWER Rejected UNEXPECTED unexpected"
        ),
        "admission_trace": "AdmissionTrace",
        "config_from_words": "UNALIGNED lab_configuration overridden parse_kubelet_options",
        "device_manager": "PreferredAllocation",
        "kubelet_model": "KubeletNode",
        "kubelet_versions": "DEFAULT",
        "machine": "Core Device HugePages Machine NumaNode",
        "machines.cadvisor_machine": "from_cadvisor read_devices to_cadvisor write_devices",
        "machines.shape": "PRESETS",
        "machines.shape_text": "from_shape to_shape",
        "manager_settings": "KubeletSettings allocatable_of capacity_of settings_of",
        "predicates": (
            "DEFERRED check_fit check_placement check_system is_resized resize_refusal room_refusal"
            " with_resources_of"
        ),
        "state_files": "StateFiles restore save states_of",
    },
)
