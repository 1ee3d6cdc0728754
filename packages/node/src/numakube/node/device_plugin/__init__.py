"""The device plugin protocol between a kubelet and the plugins on its node.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.device_plugin.plugin_messages import (
        VERSION,
        Allocation,
        PluginOptions,
        PluginRegistration,
    )
    from numakube.node.device_plugin.plugin_protocol import (
        KUBELET_SOCKET,
        DevicePluginError,
        PluginClient,
        RegistrationServer,
    )
    from numakube.node.device_plugin.plugin_registration import (
        DEVICE_PLUGIN,
        PluginInfo,
        RegistryClient,
    )

__all__ = [
    "DEVICE_PLUGIN",
    "KUBELET_SOCKET",
    "VERSION",
    "Allocation",
    "DevicePluginError",
    "PluginClient",
    "PluginInfo",
    "PluginOptions",
    "PluginRegistration",
    "RegistrationServer",
    "RegistryClient",
]

__getattr__ = lazy_names(
    __name__,
    {
        "plugin_messages": "Allocation PluginOptions PluginRegistration VERSION",
        "plugin_protocol": "DevicePluginError KUBELET_SOCKET PluginClient RegistrationServer",
        "plugin_registration": "DEVICE_PLUGIN PluginInfo RegistryClient",
    },
)
