"""What Koordinator's node agent adds to the NRTs that it writes.

koordlet reports what a node has, not what is left: ``available`` always equals ``allocatable``.
The kubelet's CPU Manager configuration stands in an annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.codec import decode
from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import CpuManagerPolicy
from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.meta import ObjectMeta


def is_written_by_koordlet(meta: ObjectMeta) -> bool:
    """Tell whether an NRT is koordlet's."""
    return (
        meta.labels.get(keys.MANAGED_BY) == keys.KOORDINATOR
        or keys.CPU_MANAGER_POLICY in meta.annotations
    )


def cpu_policy_of(annotations: Mapping[str, str], problems: list[str]) -> CpuManagerPolicy | None:
    """Return the CPU Manager configuration in *annotations*, if there is one that can be read."""
    text = annotations.get(keys.CPU_MANAGER_POLICY)
    if text is None:
        return None
    try:
        return decode(CpuManagerPolicy, text, f"annotation {keys.CPU_MANAGER_POLICY} ignored")
    except MalformedObject as error:
        problems.append(str(error))
        return None
