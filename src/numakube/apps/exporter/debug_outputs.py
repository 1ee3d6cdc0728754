"""What people look at who search for a difference: PodResources now, and pods behind fingerprints.

The socket is on the node and for root; who has the right to this path sees what it says, through
``kubectl numa debug podresources``. The document has everything, claims of dynamic resource
allocation included, also what no report contains.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiohttp import web

from numakube.errors import KubeletUnavailable
from numakube.values.cpuset import CpuSet
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from numakube.apps.exporter.node_scan import PodResourcesReader
    from numakube.apps.exporter.report import Report
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.clock import Clock
    from numakube.node.podresources_client import (
        AllocatableResources,
        ContainerResources,
        Devices,
        DynamicResource,
        Memory,
        PodResources,
    )


PATH: Final = "/debug/podresources"


class PodResourcesEndpoint:
    """Asks the kubelet of *node* whenever it is asked."""

    def __init__(self, node: str, kubelet: PodResourcesReader) -> None:
        self._node = node
        self._kubelet = kubelet

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return what to serve."""
        return [web.get(PATH, access.guarded(self._show))]

    async def _show(self, request: web.Request) -> web.Response:
        del request
        try:
            pods = await self._kubelet.list_pods()
            allocatable = await self._kubelet.allocatable()
        except KubeletUnavailable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return web.json_response(document_of(self._node, pods, allocatable))


def document_of(
    node: str, pods: Iterable[PodResources], allocatable: AllocatableResources
) -> dict[str, Any]:
    """Return the answers of a kubelet as plain data."""
    return {
        "node": node,
        "pods": [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                **_held(pod.cpu_ids, pod.memory),
                "containers": [_container(container) for container in pod.containers],
            }
            for pod in pods
        ],
        "allocatable": {
            **_held(allocatable.cpu_ids, allocatable.memory),
            "devices": [_devices(device) for device in allocatable.devices],
        },
    }


def _container(container: ContainerResources) -> dict[str, Any]:
    return {
        "name": container.name,
        **_held(container.cpu_ids, container.memory),
        "devices": [_devices(device) for device in container.devices],
        "dynamicResources": [_claim(resource) for resource in container.dynamic_resources],
    }


def _held(cpu_ids: Iterable[int], memory: Iterable[Memory]) -> dict[str, Any]:
    return {
        "cpus": str(CpuSet.of(cpu_ids)),
        "memory": [
            {"type": other.type, "bytes": other.size_bytes, "numaNodes": list(other.numa_nodes)}
            for other in memory
        ],
    }


def _devices(devices: Devices) -> dict[str, Any]:
    return {
        "resource": devices.resource,
        "ids": list(devices.ids),
        "numaNodes": list(devices.numa_nodes),
    }


def _claim(claim: DynamicResource) -> dict[str, Any]:
    return {
        "claim": f"{claim.claim_namespace}/{claim.claim_name}",
        "devices": [
            {
                "driver": device.driver,
                "pool": device.pool,
                "device": device.device,
                "shareID": device.share_id,
                "cdiDevices": list(device.cdi_devices),
            }
            for device in claim.devices
        ],
    }


# The pods behind fingerprints, in files for people who look for a difference.
#
# A `StatusFile` has the last report only, as RTE writes it. A `StatusRing` keeps the last ten with
# their times, as numaresources-operator's agents do, in a folder that must exist already. Keys and
# their order are podfingerprint's, capitalised ``Namespace`` and ``Name`` included. Files are
# replaced as a whole; one that cannot be written is no reason to stop.


SAMPLES: Final = 10
"""How many reports a ring keeps."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _StatusPod(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The last fingerprint that was computed for a node, and when, in RFC 3339 if recorded."""

    fingerprint_computed: str = ""
    pods: tuple[_StatusPod, ...] = ()
    node_name: str = ""
    record_time: str = ""


def _status_of(report: Report, node: str, *, now: datetime | None = None) -> _Status:
    """Return the status of *report*, with the time if it is to be recorded."""
    return _Status(
        node_name=node,
        pods=tuple(_StatusPod(pod.namespace, pod.name) for pod in report.fingerprinted),
        fingerprint_computed=report.fingerprints[report.method],
        record_time="" if now is None else format_micro_time(now),
    )


class StatusFile:
    """The status of the last report."""

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._last: _Status | None = None

    def keep(self, report: Report) -> None:
        """Write the file if something has changed."""
        status = _status_of(report, self._node)
        if status != self._last and _replace(self._path, msgspec.json.encode(status)):
            self._last = status


class StatusRing:
    """The statuses of the last reports, each written once until it changes."""

    def __init__(self, folder: Path, node: str, clock: Clock) -> None:
        self._path = folder / node.replace(".", "_")
        self._node = node
        self._clock = clock
        self._last: _Status | None = None
        self._samples: deque[_Status] = deque(maxlen=SAMPLES)

    def keep(self, report: Report) -> None:
        """Add *report* if something has changed, and write the file."""
        status = _status_of(report, self._node)
        if status == self._last or not self._path.parent.is_dir():
            return
        self._samples.append(_status_of(report, self._node, now=self._clock.now()))
        self._last = status
        _replace(self._path, msgspec.json.encode(list(self._samples)))


def _replace(path: Path, content: bytes) -> bool:
    """Replace a file as a whole; tell whether that worked."""
    temporary = path.with_name(f"__{path.name}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        _log.warning("fingerprint_status_not_written", file=str(path), error=str(error))
        return False
    return True
