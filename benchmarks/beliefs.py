"""What it costs to keep up beliefs: reports, reservations and pods, one event at a time."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from benchmarks._burst_nodes import BurstNode
from benchmarks._burst_pods import burst, pod_of
from numakube.api.codec import decode
from numakube.api.nrt import NodeResourceTopology
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numakube.api.pod import Pod

T = TypeVar("T")

_NODES: Final = 100
_PODS_PER_NODE: Final = 10
_MICRO: Final = 1e6


def run() -> Iterator[dict[str, object]]:
    """Yield the cost of each kind of event, and of memory."""
    nodes = [BurstNode(f"n{number}", exact=True) for number in range(_NODES)]
    pods = [pod for node in nodes for pod in _fill(node)]
    texts = [msgspec.json.encode(node.report(number + 1)) for number, node in enumerate(nodes)]
    reports = [decode(NodeResourceTopology, text) for text in texts]
    infos = [PodInfo(pod) for pod in pods]
    cache = Predict()
    yield _microseconds("a report with 10 pods", map_times(cache.set_report, reports))
    yield _microseconds("a pod that the report has", map_times(cache.pod_seen, infos))
    newcomers = {
        node.name: PodInfo(pod_of(f"new-{node.name}", burst(1, seed=number)[0].shape))
        for number, node in enumerate(nodes)
    }
    names = list(newcomers)
    yield _microseconds(
        "a reservation", map_times(lambda name: cache.reserve(newcomers[name], name), names)
    )
    bound = [_bound(info.pod, name) for name, info in newcomers.items()]
    yield _microseconds("its binding", map_times(cache.pod_seen, bound))
    for name, node in zip(names, nodes, strict=True):
        node.admit(newcomers[name].pod)
    confirming = [node.report(_NODES + number + 1) for number, node in enumerate(nodes)]
    yield _microseconds("the report that confirms it", map_times(cache.set_report, confirming))
    yield {
        "metric": f"memory of beliefs and reports, {_PODS_PER_NODE} pods a node",
        "value": round(_kilobytes_per_node(texts, infos), 1),
        "unit": "KB/node",
        "budget": 40,
    }


def map_times(act: Callable[[T], object], arguments: Iterable[T]) -> list[float]:
    """Return how long each call took."""
    times = []
    for argument in arguments:
        start = time.perf_counter()
        act(argument)
        times.append(time.perf_counter() - start)
    return times


def _fill(node: BurstNode) -> Iterator[Pod]:
    """Start pods on *node*."""
    for number, wanted in enumerate(burst(_PODS_PER_NODE, seed=int(node.name[1:]))):
        pod = pod_of(f"{node.name}-{number}", wanted.shape)
        pod = _bound(pod, node.name).pod
        if node.admit(pod):
            yield pod


def _bound(pod: Pod, node: str) -> PodInfo:
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return PodInfo(msgspec.structs.replace(pod, spec=spec))


def _kilobytes_per_node(texts: list[bytes], infos: list[PodInfo]) -> float:
    gc.collect()
    tracemalloc.start()
    cache = Predict()
    for text in texts:
        cache.set_report(decode(NodeResourceTopology, text))
    for info in infos:
        cache.pod_seen(info)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(texts) / 1024


def _microseconds(event: str, times: list[float]) -> dict[str, object]:
    median = statistics.median(times) * _MICRO
    return {"metric": f"{event}, 2 zones, exact, median", "value": round(median), "unit": "us"}
