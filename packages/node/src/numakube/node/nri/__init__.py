"""NRI, the Node Resource Interface of containerd and CRI-O, from the plugin's side.

A plugin connects to a socket of the runtime and is then asked about every container before it is
started. Both ends call each other over that one socket: two ttrpc conversations, each in frames
with the number of the conversation (`ttrpc_frames`). `ttrpc` makes and answers calls,
`nri_objects` has what they are about, and `nri_plugin` speaks as a plugin does. `fake_runtime` is
the other end, for tests and for the lab.

Follows NRI 0.3 to 0.12 (containerd 1.7 and 2.x, CRI-O 1.26 and later) and ttrpc 1.2.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.nri.nri_objects import (
        STOPPED,
        ContainerAdjustment,
        CpuLimits,
        NriContainer,
        Sandbox,
        Update,
    )
    from numakube.node.nri.nri_plugin import DEFAULT_SOCKET, ConnectedRuntime, NriEvent, Session

__all__ = [
    "DEFAULT_SOCKET",
    "STOPPED",
    "ConnectedRuntime",
    "ContainerAdjustment",
    "CpuLimits",
    "NriContainer",
    "NriEvent",
    "Sandbox",
    "Session",
    "Update",
]

__getattr__ = lazy_names(
    __name__,
    {
        "nri_objects": "ContainerAdjustment CpuLimits NriContainer STOPPED Sandbox Update",
        "nri_plugin": "ConnectedRuntime DEFAULT_SOCKET NriEvent Session",
    },
)
