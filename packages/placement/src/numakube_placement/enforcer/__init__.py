"""The enforcer: writes CPUs and memory nodes that a scheduler allotted into control groups.

For nodes whose kubelet aligns nothing. `allowed_cpus` says, as a pure function of the node's pods
and its CPUs, what every container may run on; `group_settings` turns that into settings of control
groups, `group_writing` writes them and remembers what was there before, and `enforce_loop` does so
whenever something changes. Kubelets with a static CPU Manager keep what is theirs: pods that they
pinned are never touched.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube_placement.enforcer.allowed_cpus import MachineReader, PodState, state_of
    from numakube_placement.enforcer.enforce_loop import Enforcer
    from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
    from numakube_placement.enforcer.group_writing import GroupWriter
    from numakube_placement.enforcer.metrics import EnforcerMetrics, Reporter
    from numakube_placement.enforcer.nri import NriLink, NriPlugin
    from numakube_placement.enforcer.settings import NRI_MODES

__all__ = [
    "NRI_MODES",
    "Enforcer",
    "EnforcerMetrics",
    "GroupWriter",
    "MachineReader",
    "NriLink",
    "NriPlugin",
    "OriginalsFile",
    "PodState",
    "Reporter",
    "state_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "allowed_cpus": "MachineReader PodState state_of",
        "enforce_loop": "Enforcer",
        "enforcer_state_file": "OriginalsFile",
        "group_writing": "GroupWriter",
        "metrics": "EnforcerMetrics Reporter",
        "nri": "NriLink NriPlugin",
        "settings": "NRI_MODES",
    },
)
