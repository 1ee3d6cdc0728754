"""How the plugins of this package are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.podlevel.device_share import DeviceShare
from numakube.scheduling.podlevel.plugin import NodeNUMAResource

if TYPE_CHECKING:
    from numakube.scheduling.framework.registry import Registry

REGISTRY: Final[Registry] = {
    NodeNUMAResource.name: NodeNUMAResource.make,
    DeviceShare.name: DeviceShare.make,
}
