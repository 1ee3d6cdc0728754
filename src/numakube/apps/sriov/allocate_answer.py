"""The answer to a container that gets devices: variables, device files, mounts, CDI names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.apps.sriov.cdi import qualified_name
from numakube.node.device_plugin.plugin_messages import Allocation
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.sriov.config import Pool
    from numakube.apps.sriov.device_needs import Description
    from numakube.node.host_files import DeviceFile

_VARIABLE: Final = "PCIDEVICE"
_ODD: Final = re.compile(r"[^A-Z0-9_]")


def answer(pool: Pool, devices: Mapping[str, Description], *, use_cdi: bool) -> Allocation:
    """Return what a container needs that gets *devices*, in their order.

    With CDI the runtime takes device files and mounts from the specification that the names in the
    answer lead to; variables are in the answer in either case.
    """
    envs = environment(pool, devices)
    if use_cdi:
        names = tuple(qualified_name(pool, id_) for id_ in devices)
        return Allocation(envs=envs, cdi_devices=names)
    nodes: dict[str, DeviceFile] = {}
    for description in devices.values():
        for node in description.nodes:
            nodes.setdefault(node.host_path, node)
    mounts = [mount for description in devices.values() for mount in description.mounts]
    return Allocation(envs=envs, devices=tuple(nodes.values()), mounts=tuple(dict.fromkeys(mounts)))


def environment(pool: Pool, devices: Mapping[str, Description]) -> dict[str, str]:
    """Return the variables: ids, information about them, and what static devices bring along."""
    envs: dict[str, str] = {}
    for description in devices.values():
        envs |= description.envs
    ids = ",".join(devices)
    info = go_json({id_: description.info for id_, description in devices.items()})
    for name in variable_names(pool):
        envs[name] = ids
        envs[f"{name}_INFO"] = info
    return envs


def variable_names(pool: Pool) -> tuple[str, ...]:
    """Return the variable of a pool, and the same with letters that a shell can take if it differs.

    Upstream replaces dots only, so that a hyphen makes a variable that no shell can name.
    """
    name = f"{_VARIABLE}_{pool.prefix}_{pool.name}".replace(".", "_").upper()
    return tuple(dict.fromkeys((name, _ODD.sub("_", name))))
