"""The downward API: what a pod can learn about itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.values.quantity import milli_value, value
from numakube.values.resources import CPU
from numakube_lab.processes.tasks import CannotStart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.processes.podspec import ResourceFieldRef, RunnablePod

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def field_value(pod: RunnablePod, path: str) -> str:
    """Return the field of *pod* at *path*, in the form that containers see."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    maps = {"labels": metadata.labels, "annotations": metadata.annotations}
    if match := _SUBSCRIPT.fullmatch(path):
        return maps[match[1]].get(match[2], "")
    values = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "metadata.labels": _lines(metadata.labels),
        "metadata.annotations": _lines(metadata.annotations),
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name,
        "status.hostIP": status.host_ip,
        "status.hostIPs": status.host_ip,
        "status.podIP": status.pod_ip,
        "status.podIPs": status.pod_ip,
    }
    if path not in values:
        raise CannotStart.because(f"unsupported fieldPath: {path}")
    return values[path]


def resource_value(
    pod: RunnablePod, ref: ResourceFieldRef, *, container: str, allocatable: Mapping[str, str]
) -> str:
    """Return a request or limit of a container in units of the divisor, rounded up.

    A limit that is not set is what the node can give at most.
    """
    resources = pod.container(ref.container_name or container).resources
    kind, _, name = ref.resource.partition(".")
    if kind not in ("limits", "requests"):
        raise CannotStart.because(f"unsupported container resource : {ref.resource}")
    found = (resources.limits if kind == "limits" else resources.requests).get(name)
    if found is None and kind == "limits":
        found = allocatable.get(name)
    amount = milli_value if name == CPU else value
    unit = amount(ref.divisor) or amount(1)
    return str(-(-amount(found or 0) // unit))


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quoted(text)}" for key, text in sorted(values.items()))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
