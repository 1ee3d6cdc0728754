"""What Koordinator's node agent adds to the NRTs that it writes.

koordlet reports what a node has, not what is left: ``available`` always equals ``allocatable``.
The kubelet's CPU Manager configuration stands in an annotation.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from numakube.api.meta import ObjectMeta

_LABEL: Final = "app.kubernetes.io/managed-by"
_LABEL_VALUE: Final = "Koordinator"
_CPU_POLICY: Final = "kubelet.koordinator.sh/cpu-manager-policy"


class KubeletCpuPolicy(msgspec.Struct, frozen=True):
    """The kubelet's CPU Manager configuration."""

    policy: str = ""
    options: dict[str, str] = {}


def is_written_by_koordlet(meta: ObjectMeta) -> bool:
    """Tell whether an NRT is koordlet's."""
    return meta.labels.get(_LABEL) == _LABEL_VALUE or _CPU_POLICY in meta.annotations


def cpu_policy_of(annotations: Mapping[str, str], problems: list[str]) -> KubeletCpuPolicy | None:
    """Return the CPU Manager configuration in *annotations*, if there is one that can be read."""
    text = annotations.get(_CPU_POLICY)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=KubeletCpuPolicy)
    except (msgspec.DecodeError, UnicodeError) as error:
        problems.append(f"annotation {_CPU_POLICY} ignored: {error}")
        return None
