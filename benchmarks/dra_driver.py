"""What the DRA driver takes: to prepare a claim, and to publish a node's devices.

A claim is prepared with everything on the disk that has to be there before the answer. The API
server answers in the same process, and no group of a pod has to change: both cost more on a node.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry

from kube_lab_server import ApiServer
from kube_lab_server.kinds.all_kinds import GATES
from numakube.api.codec import encode
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.dra_plugin import ClaimRef
from numakube_dra_driver.cdi import CdiFiles
from numakube_dra_driver.device_metadata import MetadataFiles, NetworkInfoFiles
from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER, Grouping
from numakube_dra_driver.ledger import Disk, Ledger
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.offer import Offer, OfferOptions, make_offer
from numakube_dra_driver.preparing import Preparer
from numakube_dra_driver.slices import MOST_DEVICES
from numakube_lab.inprocess_transport import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MACHINE: Final = "2 sockets, 4 numa each, 16 cores, smt 2, 64Gi, hugepages-2Mi 512, hugepages-1Gi 4"
CACHES: Final = "2 sockets, 96 cores, smt 2, uncore 8, 384Gi"
CLAIMS: Final = 100
P50_MS: Final = 15
P99_MS: Final = 60
SLICE_KB: Final = 16
_POOL: Final = "n/compute"


class _Nobody:
    """Has no groups."""

    async def settle(self) -> str:
        return ""

    def runs(self, uid: str) -> bool:
        del uid
        return False


def run() -> Iterator[dict[str, object]]:
    """Yield the times of calls and the sizes of slices."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    prepare, unprepare, cpu_ms = asyncio.run(_timed())
    yield {"metric": "prepare and unprepare a claim, CPU", "value": round(cpu_ms, 2), "unit": "ms"}
    for name, times in (("prepare", prepare), ("unprepare", unprepare)):
        for metric, value, budget in (
            ("p50", statistics.median(times), P50_MS),
            ("p99", statistics.quantiles(times, n=100)[98], P99_MS),
        ):
            yield {
                "metric": f"{name} a claim, {metric}",
                "value": round(value, 2),
                "unit": "ms",
                "budget": budget,
            }
    for name, shape, grouping in (
        ("8 NUMA nodes", MACHINE, Grouping.NUMA),
        ("384 CPUs by cache", CACHES, Grouping.L3),
    ):
        yield from _slices(name, _offer(shape, grouping))


def _slices(name: str, offer: Offer) -> Iterator[dict[str, object]]:
    count = -(-len(offer.devices) // MOST_DEVICES)
    yield {"metric": f"slices, {name}", "value": count, "unit": "slices", "budget": 1}
    size = sum(len(encode(device)) for device in offer.devices) / 1024
    yield {
        "metric": f"devices, {name}",
        "value": round(size, 1),
        "unit": "KB",
        "budget": SLICE_KB,
    }


def _offer(shape: str, grouping: Grouping = Grouping.NUMA) -> Offer:
    nowhere = Path("/none")
    options = OfferOptions(sysfs=nowhere, kubelet_config=nowhere, grouping=grouping)
    return make_offer(from_shape(shape), KubeletConfiguration(), options)


async def _timed() -> tuple[list[float], list[float], float]:
    """Return how long each call took, and the CPU time of a claim, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        async with ApiServer(rng=Random(7), gates=GATES) as server:
            client = Client(InProcess(server), clock=SystemClock(), rng=Random(7), rate=0)
            driver = _driver(client, Path(folder))
            refs = [await _claim(client, number) for number in range(CLAIMS)]
            began_cpu = time.process_time()
            prepare = [await _seconds(driver, ref) for ref in refs]
            unprepare = []
            for ref in refs:
                began = time.perf_counter()
                await driver.unprepare([ref])
                unprepare.append((time.perf_counter() - began) * 1000)
            spent = time.process_time() - began_cpu
            return prepare, unprepare, spent * 1000 / CLAIMS


async def _seconds(driver: Preparer, ref: ClaimRef) -> float:
    began = time.perf_counter()
    answer = (await driver.prepare([ref]))[ref.uid]
    taken = (time.perf_counter() - began) * 1000
    assert not answer.error, answer.error
    return taken


def _driver(client: Client, folder: Path) -> Preparer:
    offer, disk, cdi = _offer(MACHINE), Disk(), folder / "cdi"
    devices = {device.name: device for device in offer.devices}
    return Preparer(
        client,
        Ledger(folder / "state", SystemClock()),
        CdiFiles(cdi, disk),
        pools=(_POOL,),
        offer=lambda: offer,
        metrics=DraMetrics(CollectorRegistry()),
        confining=_Nobody(),
        metadata=MetadataFiles(
            DRIVER, disk, folder=folder, cdi_folder=cdi, devices=lambda: devices
        ),
        network_info=NetworkInfoFiles(folder / "devinfo", disk),
    )


async def _claim(client: Client, number: int) -> ClaimRef:
    """Return a claim for a core, allocated as a scheduler does."""
    name = f"c{number}"
    requests = [{"name": "cpus", "exactly": {"deviceClassName": "numa-cpus"}}]
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    }
    made = await client.create(RESOURCE_CLAIMS, document)
    result: dict[str, Any] = {
        "request": "cpus",
        "driver": DRIVER,
        "pool": _POOL,
        "device": f"cpu-numa{number % 8}",
        "consumedCapacity": {CPU_CAPACITY: "2"},
        "shareID": f"{number:08x}-0000-4000-8000-000000000000",
    }
    users: Sequence[dict[str, str]] = [{"resource": "pods", "name": name, "uid": name}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    await client.update(RESOURCE_CLAIMS, {**made, "status": status}, subresource="status")
    return ClaimRef("default", name, str(made["metadata"]["uid"]))
