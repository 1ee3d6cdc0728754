"""The environment of a container, put together as the kubelet does, and the downward API.

Later variables win over earlier ones and may refer to them with ``$(NAME)``. Other services' host
and port variables are not provided: only those of the API server are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.values.quantity import milli_value, value
from numakube.values.resources import CPU
from numakube_lab.processes.container_tasks import CannotStart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.processes.config_sources import InsideAddress, Sources
    from numakube_lab.processes.full_pod_spec import (
        ResourceFieldRef,
        RunnableContainer,
        RunnablePod,
        ValueSource,
        VariablesFrom,
    )


async def environment_of(
    pod: RunnablePod, container: RunnableContainer, sources: Sources
) -> dict[str, str]:
    """Return the environment of a container.

    Raises:
        CannotStart: something that it refers to is missing.
    """
    known = _given(pod, sources.inside)
    for group in container.env_from:
        known |= await _all_of(pod, group, sources)
    for variable in container.env:
        if variable.value_from is None:
            known[variable.name] = expand(variable.value, known)
            continue
        value = await _value(pod, container, variable.value_from, sources)
        if value is not None:
            known[variable.name] = value
    return known


def _given(pod: RunnablePod, inside: InsideAddress) -> dict[str, str]:
    """Return what every container has without asking."""
    host, port = inside.host, str(inside.port)
    spec = pod.spec
    name = spec.node_name if spec.host_network else spec.hostname or pod.metadata.name
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOSTNAME": name,
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{host}:{port}",
    }


async def _all_of(pod: RunnablePod, group: VariablesFrom, sources: Sources) -> Mapping[str, str]:
    namespace = pod.metadata.namespace
    keys = None
    if (ref := group.config_map_ref) is not None:
        keys = await sources.config_map(namespace, ref.name, optional=ref.optional)
    elif (ref := group.secret_ref) is not None:
        keys = await sources.secret(namespace, ref.name, optional=ref.optional)
    data = {} if keys is None else keys.data
    return {f"{group.prefix}{key}": _text(value) for key, value in data.items()}


async def _value(
    pod: RunnablePod, container: RunnableContainer, source: ValueSource, sources: Sources
) -> str | None:
    """Return the value that a variable refers to; ``None`` if it may be missing and is."""
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        allocatable = await sources.allocatable(pod.spec.node_name)
        ref = source.resource_field_ref
        return resource_value(pod, ref, container=container.name, allocatable=allocatable)
    return await _key(pod, source, sources)


async def _key(pod: RunnablePod, source: ValueSource, sources: Sources) -> str | None:
    namespace = pod.metadata.namespace
    keys = None
    if (ref := source.config_map_key_ref) is not None:
        keys = await sources.config_map(namespace, ref.name, optional=ref.optional)
    elif (ref := source.secret_key_ref) is not None:
        keys = await sources.secret(namespace, ref.name, optional=ref.optional)
    if keys is None or ref is None:
        return None
    value = keys.get(ref.key, optional=ref.optional)
    return None if value is None else _text(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return *text* with references to *known* variables replaced.

    >>> expand("--node=$(NODE) $(OTHER) $$(NODE)", {"NODE": "n1"})
    '--node=n1 $(OTHER) $(NODE)'
    """

    def replaced(match: re.Match[str]) -> str:
        dollar, name = match.groups()
        return "$" if dollar else known.get(name, match[0])

    return _REFERENCE.sub(replaced, text)


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
