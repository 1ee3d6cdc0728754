"""The CPU time of one scan of the exporter on a large node: 256 CPUs, 8 zones, 110 pods.

The kubelet's PodResources service runs in a process of its own, so that what is measured is the
exporter's: asking it, reading sysfs and the state files, computing and encoding the object. Pods
come and go between scans, so that every scan has to read all state files again.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration, MemoryReservation, with_defaults
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.apps.exporter.kubelet_checkpoints import read_checkpoints
from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.kubelet.state_files import StateFiles, save
from numakube.node.podresources_client import PodResourcesClient
from numakube.node.podresources_server import PodResourcesServer
from numakube.node.sysfs_machine import write_tree
from numakube_lab.nodes.node_folder import allocatable_resources, pod_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.connection import Connection

    from numakube.api.codec import ResourceList
    from numakube.node.podresources_client import AllocatableResources, PodResources

PODS: Final = 110
RESOURCES: Final = 20
ROUNDS: Final = 40
BUDGET_MS: Final = 20
KEYS: Final = ("kubelet", "sysfs", "state files", "report", "encoding")

CONFIG: Final = with_defaults(
    KubeletConfiguration(
        topology_manager_policy="single-numa-node",
        cpu_manager_policy="static",
        memory_manager_policy="Static",
        reserved_system_cpus="0",
        reserved_memory=(MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),),
        system_reserved={"memory": "1Gi"},
        eviction_hard={},
    )
)


class BusyNode:
    """A kubelet whose pods are all different; the source of its PodResources service."""

    def __init__(self) -> None:
        devices = ", ".join(f"vendor.example/r{number} 4" for number in range(RESOURCES))
        shape = f"2 sockets, 4 numa each, 16 cores, smt 2, 64Gi, hugepages-2Mi 512, {devices}"
        self.machine = from_shape(shape)
        self.model = KubeletNode(self.machine, settings_of(CONFIG, self.machine))
        self.pods = [self._admitted(number) for number in range(PODS)]

    def pod_resources(self) -> Iterable[PodResources]:
        """Return the active pods."""
        return pod_resources(self.model, self.pods)

    def allocatable_resources(self) -> AllocatableResources:
        """Return what the node has to give."""
        return allocatable_resources(self.model)

    def replace_pod(self, number: int) -> None:
        """End a pod and start another one in its place."""
        self.model.remove(self.pods[number % PODS].metadata.uid)
        self.pods[number % PODS] = self._admitted(PODS + number)

    def _admitted(self, number: int) -> Pod:
        amounts: ResourceList = {
            "cpu": "2",
            "memory": "2Gi",
            f"vendor.example/r{number % RESOURCES}": "2",
        }
        name = f"workload-{number:04d}-7d4b9c6f5d-x2x7k"
        containers = (
            _container("main", amounts),
            _container("logs", {"cpu": "100m", "memory": "64Mi"}),
        )
        pod = Pod(
            metadata=ObjectMeta(name=name, namespace="team", uid=f"{number:08d}-2f6a-4c1b-9d1e"),
            spec=PodSpec(containers=containers),
        )
        assert isinstance(self.model.admit(pod), Admitted)
        return pod


def _container(name: str, amounts: ResourceList) -> Container:
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return Container(name=name, resources=resources)


def run() -> Iterator[dict[str, object]]:
    """Yield the CPU time of a scan and of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = multiprocessing.Pipe()
        kubelet = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(folder, theirs), daemon=True
        )
        kubelet.start()
        try:
            ours.recv()
            rounds = asyncio.run(_scans(Path(folder), ours))
        finally:
            kubelet.terminate()
            kubelet.join()
    for key in KEYS:
        yield _ms(f"{key}, median", statistics.median(times[key] for times in rounds))
    totals = [sum(times.values()) for times in rounds]
    yield _ms("one scan, median", statistics.median(totals)) | {"budget": BUDGET_MS}
    yield _ms("one scan, worst", max(totals))


def _serve(folder: str, pipe: Connection) -> None:
    """Be the kubelet: serve PodResources, and replace a pod whenever asked."""
    asyncio.run(_kubelet(Path(folder), pipe))


async def _kubelet(folder: Path, pipe: Connection) -> None:
    node = BusyNode()
    write_tree(node.machine, folder / "sys")
    server = PodResourcesServer(node, folder / "kubelet.sock", clock=time.monotonic)
    await server.start()
    pipe.send("ready")
    while True:
        number = await asyncio.to_thread(pipe.recv)
        node.replace_pod(number)
        names = {(pod.metadata.namespace, pod.metadata.name): pod.metadata.uid for pod in node.pods}
        pipe.send((save(node.model), names))


async def _scans(folder: Path, kubelet: Connection) -> list[dict[str, float]]:
    reader = HardwareReader(folder / "sys")
    hardware = reader.read()
    rounds = []
    client = PodResourcesClient(folder / "kubelet.sock")
    for number in range(ROUNDS):
        kubelet.send(number)
        files, uids = await asyncio.to_thread(kubelet.recv)
        inputs = NodeInputs(
            hardware=hardware,
            kubelet=KubeletFacts(config=CONFIG, version="v1.35.7"),
            uids=uids,
        )
        rounds.append(await _scan(client, reader, inputs, files))
    return rounds


async def _scan(
    client: PodResourcesClient, reader: HardwareReader, inputs: NodeInputs, files: StateFiles
) -> dict[str, float]:
    moments = [time.process_time()]
    inputs = replace(inputs, pods=await client.list_pods(), allocatable=await client.allocatable())
    moments.append(time.process_time())
    inputs = replace(inputs, hardware=reader.read())
    moments.append(time.process_time())
    inputs = replace(inputs, checkpoints=read_checkpoints(files))
    moments.append(time.process_time())
    report = topology_of(inputs, ReportOptions(node_name="node"), cause=ScanCause.REACTIVE)
    moments.append(time.process_time())
    msgspec.json.encode(report.topology("node"))
    moments.append(time.process_time())
    assert not report.problems, report.problems
    return {key: end - start for key, (start, end) in zip(KEYS, pairwise(moments), strict=True)}


def _ms(metric: str, seconds: float) -> dict[str, object]:
    return {"metric": f"{metric}, CPU time", "value": round(seconds * 1e3, 2), "unit": "ms"}
