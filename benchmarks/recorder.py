"""What the flight recorder adds to scheduling a pod.

A real scheduler works on a cluster of nodes with exact reports; only the network is left out, since
every request is answered at once. Everything that it writes down of a pod is timed: why it was
tried, the decision, the booking, the binding, that the kubelet took it. The rest of its time is
what scheduling the pod takes. Budget: 5 % of that, for pods that are placed and pods that are
refused. Times are CPU time of one thread, so that a busy machine does not spoil them.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks._fleet import kubelet_of, plans_of
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.flight_recording import Recording
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kube.connection.transport import Request, Response
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.cycle import Refused
from numakube.scheduling.recorder.flight_recorder import FlightRecorder
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import nrt_of
from numakube.values.resources import quantities_of
from numakube_lab.nodes.node_documents import base_offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLOCK: Final = SystemClock()
SIZES: Final = (3, 100, 1000, 5000)
PODS: Final = 300
SHAPE: Final = "2 sockets, 32 cores, smt 2, 256Gi"
KUBELET: Final = "policy=single-numa-node,scope=container"
BUDGET_PERCENT: Final = 5.0
_TIMED: Final = (
    "tried", "begin", "reserved", "bound", "not_bound", "placed", "cache_changed", "flush",
)  # fmt: skip


def run() -> Iterator[dict[str, object]]:
    """Yield the share of scheduling a pod that recording takes."""
    for nodes in SIZES:
        for name, cpus in (("placed", 1), ("refused", 70)):
            pods = min(PODS, 60 * nodes)
            spent, recorded = asyncio.run(_measure(nodes, pods, cpus))
            yield {
                "metric": f"recording a pod that is {name}, {nodes} nodes",
                "value": round(100 * recorded / (spent - recorded), 2),
                "unit": "% of scheduling it",
                "budget": BUDGET_PERCENT,
                "pod_us": round(1e6 * (spent - recorded) / pods),
            }


class Timed(Recording):
    """A recording that knows how long it took."""

    def __init__(self, *args: Any) -> None:  # noqa: ANN401 - those of a recording
        super().__init__(*args)
        self.seconds = 0.0
        self.left = 0
        self.done = asyncio.Event()
        self._inside = False
        for name in _TIMED:
            setattr(self, name, self._timed(name, getattr(self, name)))

    def _timed(self, name: str, method: Callable[..., None]) -> Callable[..., None]:
        def timed(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of the method
            if self._inside:
                method(*args, **kwargs)
                return
            self._inside, begin = True, time.thread_time()
            method(*args, **kwargs)
            self.seconds += time.thread_time() - begin
            self._inside = False
            if name == "bound" or (name == "tried" and isinstance(args[1], Refused)):
                self.left -= 1
                if not self.left:
                    self.done.set()

        return timed


class Nowhere:
    """A transport that says yes to everything."""

    async def send(self, request: Request) -> Response:
        """Answer at once."""
        return Response(201, {}, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')

    def open(self, request: Request) -> Any:  # noqa: ANN401 - never called
        """Refuse to watch."""
        raise NotImplementedError(str(request))

    async def aclose(self) -> None:
        """Do nothing."""


async def _measure(nodes: int, pods: int, cpus: int) -> tuple[float, float]:
    """Return the seconds that scheduling took, and those of them that recording took."""
    process = SchedulerProcess(default_configuration(), Client(Nowhere(), rate=0))
    _fill(process, nodes)
    scheduler, cluster, listener = (
        process.scheduler,
        process.mirror.cluster,
        process.mirror.listener,
    )
    assert listener is not None
    timed = scheduler.results.recording = Timed(FlightRecorder(), cluster, CLOCK)
    timed.left = pods
    gc.collect()
    gc.freeze()  # what was there before is not looked at again
    loop = asyncio.create_task(scheduler.run())
    begin = time.thread_time()
    for number in range(pods):
        # Different sizes, so that a refusal is not remembered.
        listener.pod_waits(pod(f"p-{number}", cpus, number))
    await timed.done.wait()
    for node in list(cluster.nodes()):
        for one in list(node.pods.values()):
            listener.pod_placed(started(one, node.name))
    timed.flush()
    spent = time.thread_time() - begin
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    return spent, timed.seconds


def _fill(process: SchedulerProcess, count: int) -> None:
    """Make *count* equal nodes, each with an exact report."""
    (plan,) = plans_of(1, SHAPE, KUBELET)
    report, offer = nrt_of("", kubelet_of(plan)), base_offer(plan)
    amounts = quantities_of(offer.allocatable)
    for number in range(count):
        name = f"n{number}"
        metadata = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name})
        status = NodeStatus(allocatable=amounts)
        process.mirror.cluster.set_node(Node(metadata=metadata, status=status))
        own = msgspec.structs.replace(report.metadata, name=name, resource_version="1")
        named = msgspec.structs.replace(report, metadata=own)
        process.mirror.apply(process.mirror.cache.set_report(named))


def pod(name: str, cpus: int, memory_mib: int) -> PodInfo:
    """Return a guaranteed pod."""
    amounts = {"cpu": str(cpus), "memory": f"{1024 + memory_mib}Mi"}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    container = Container(name="main", image="registry.example/app:1", resources=resources)
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=name),
            spec=PodSpec(containers=(container,), scheduler_name=SCHEDULER_NAME),
        )
    )


def started(info: PodInfo, node: str) -> PodInfo:
    """Return the pod as it is when its kubelet has taken it."""
    spec = msgspec.structs.replace(info.pod.spec, node_name=node)
    status = PodStatus(phase="Running", start_time="2026-01-01T00:00:00Z")
    return PodInfo(msgspec.structs.replace(info.pod, spec=spec, status=status))
