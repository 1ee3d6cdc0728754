"""The cost of reading pods from an API server: whole lists and watch events, over loopback.

The server runs in a process of its own, so that the CPU time measured is the client's: receiving,
decoding and storing. `SchedulerPod` holds what a scheduler reads of a pod; `numakube.api.pod.Pod`
holds in addition what nodes and controllers read (environments, volumes, states of containers).
"""

import asyncio
import logging
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import structlog
from aiohttp import web

from numakube.api.affinity_and_taints import Affinity, Toleration, TopologySpreadConstraint
from numakube.api.codec import ResourceList, Wire
from numakube.api.meta import ObjectMeta
from numakube.api.pod import ContainerPort, ResourceRequirements
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kube.reflector import Reflector
from numakube.kube.store import Store
from numakube.kube.watch import open_watch

PODS_ON_SERVER = 5000
POD_BYTES = 6800
ROUNDS = 9


class SchedulerContainer(Wire, frozen=True):
    """What a scheduler reads of a container."""

    name: str
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None


class SchedulerPodSpec(Wire, frozen=True):
    """What a scheduler reads of a pod's spec."""

    containers: tuple[SchedulerContainer, ...] = ()
    init_containers: tuple[SchedulerContainer, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class SchedulerPodStatus(Wire, frozen=True):
    """What a scheduler reads of a pod's status."""

    phase: str = ""
    qos_class: str | None = None
    nominated_node_name: str = ""


class SchedulerPod(Wire, frozen=True):
    """What a scheduler reads of a pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulerPodSpec = SchedulerPodSpec()
    status: SchedulerPodStatus | None = None


SLIM = PODS.decoded_as(SchedulerPod)


def run() -> Iterator[dict[str, object]]:
    """Yield the CPU times of the client."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port, size = ours.recv()
        results = asyncio.run(measure(f"http://127.0.0.1:{port}"))
    finally:
        server.terminate()
        server.join()
    pods = f"{PODS_ON_SERVER} pods of {size / PODS_ON_SERVER / 1000:.1f} kB"
    yield _ms(f"list of {pods}, median CPU", results["slim"], budget=150)
    yield _ms(f"list of {pods} with all fields of api.pod.Pod, median CPU", results["full"])
    yield _ms(f"list of {pods} in pages of 500, median CPU", results["pages"])
    yield _ms(f"reflector with index synced with {pods}, median CPU", results["reflector"])
    yield {
        "metric": "watch events per second of CPU",
        "value": round(PODS_ON_SERVER / statistics.median(results["watch"])),
        "unit": "1/s",
    }


def _ms(metric: str, rounds: list[float], *, budget: float | None = None) -> dict[str, object]:
    value = round(statistics.median(rounds) * 1e3, 1)
    best = round(min(rounds) * 1e3, 1)
    result: dict[str, object] = {"metric": metric, "value": value, "unit": "ms", "best": best}
    return result if budget is None else {**result, "budget": budget}


async def measure(url: str) -> dict[str, list[float]]:
    """Return the CPU seconds of each round of each exercise."""
    # Results go to standard output, one JSON object a line, and nothing else may.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    exercises = {
        "slim": slim_list,
        "full": full_list,
        "pages": paged_list,
        "reflector": reflect,
        "watch": watch,
    }
    async with connect(ClusterConfig(server=url)) as client:
        results: dict[str, list[float]] = {name: [] for name in exercises}
        for _ in range(ROUNDS):
            for name, exercise in exercises.items():
                start = time.process_time()
                assert await exercise(client) == PODS_ON_SERVER
                results[name].append(time.process_time() - start)
    return results


async def slim_list(client: Client) -> int:
    """Read everything in one answer, the fields a scheduler reads."""
    return len((await client.list(SLIM, resource_version="0", page_size=0)).items)


async def full_list(client: Client) -> int:
    """Read everything in one answer, with all fields we have types for."""
    return len((await client.list(PODS, resource_version="0", page_size=0)).items)


async def paged_list(client: Client) -> int:
    """Read everything in pages."""
    return len((await client.list(SLIM, page_size=500)).items)


async def reflect(client: Client) -> int:
    """Fill a store by a reflector."""
    store: Store[SchedulerPod] = Store()
    store.add_index("node", lambda pod: [pod.spec.node_name])
    reflector = Reflector(client, SLIM, store=store)
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return len(store)


async def watch(client: Client) -> int:
    """Read an event about each pod."""
    count = 0
    async with open_watch(client, SLIM, since="0") as events:
        async for batch in events.batches():
            count += len(batch)
    return count


def serve(pipe: Connection) -> None:
    """Serve pods until terminated; tell the port and the size of the list."""
    asyncio.run(_serve(pipe))


async def _serve(pipe: Connection) -> None:
    pods = [pod_document(number) for number in range(PODS_ON_SERVER)]
    encoded = [msgspec.json.encode(each) for each in pods]
    everything = _page(encoded, "")
    pages = [
        _page(encoded[start : start + 500], str(start + 500) if start + 500 < len(encoded) else "")
        for start in range(0, len(encoded), 500)
    ]
    stream = b"".join(b'{"type":"MODIFIED","object":%b}\n' % each for each in encoded)

    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return web.Response(body=stream)
        if request.query.get("resourceVersion") == "0" or "limit" not in request.query:
            return web.Response(body=everything)
        return web.Response(body=pages[int(request.query.get("continue", 0)) // 500])

    app = web.Application()
    app.router.add_get("/api/v1/pods", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    pipe.send((runner.addresses[0][1], len(everything)))
    await asyncio.Event().wait()


def _page(items: list[bytes], following: str) -> bytes:
    metadata = msgspec.json.encode({"resourceVersion": "12345678", "continue": following})
    joined = b",".join(items)
    return b'{"kind":"PodList","apiVersion":"v1","metadata":%b,"items":[%b]}' % (metadata, joined)


def pod_document(number: int) -> dict[str, Any]:
    """Return a pod of a Deployment as a server sends it, with everything that we do not read."""
    name = f"web-frontend-7d9c6b5f4d-{number:05d}"
    started = "2026-11-15T08:00:00Z"
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "generateName": "web-frontend-7d9c6b5f4d-",
            "namespace": f"team-{number % 20}",
            "uid": f"0f2e5a1c-7d0b-4c55-9a6e-{number:012d}",
            "resourceVersion": str(10_000_000 + number),
            "generation": 1,
            "creationTimestamp": started,
            "labels": {
                "app.kubernetes.io/name": "web-frontend",
                "app.kubernetes.io/instance": "production",
                "pod-template-hash": "7d9c6b5f4d",
            },
            "annotations": {"example.org/checksum": "8c7dd922ad47494fc02c388e12c00eac" * 2},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-frontend-7d9c6b5f4d",
                    "uid": "5b1f3d9e-2a47-4b5e-8f4d-1c2d3e4f5a6b",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [],
        },
        "spec": {
            "volumes": [_token_volume()],
            "containers": [_container("web"), _container("sidecar")],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "nodeName": f"node-{number % 500:04d}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": started,
                }
                for kind in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": started,
            "containerStatuses": [_container_status("web"), _container_status("sidecar")],
            "qosClass": "Guaranteed",
        },
    }
    return _filled_up(document)


def _filled_up(document: dict[str, Any]) -> dict[str, Any]:
    """Add managed fields, which nobody reads, until the pod has its size."""
    entry = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-15T08:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}}}},
    }
    fields = document["metadata"]["managedFields"]
    while len(msgspec.json.encode(document)) < POD_BYTES:
        fields.append(entry)
    return document


def _token_volume() -> dict[str, Any]:
    return {
        "name": "kube-api-access-x7k2p",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def _container(name: str) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "4Gi", "example.org/nic": "1"}
    return {
        "name": name,
        "image": f"registry.example.org/team/{name}:1.2.3",
        "command": ["/usr/bin/server"],
        "args": ["--listen=:8080", "--log-level=info"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{number}", "value": "something"} for number in range(6)],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [
            {
                "name": "kube-api-access-x7k2p",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _container_status(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"running": {"startedAt": "2026-11-15T08:00:05Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": f"registry.example.org/team/{name}:1.2.3",
        "imageID": "registry.example.org/team/web@sha256:" + "ab" * 32,
        "containerID": "containerd://" + "cd" * 32,
        "started": True,
    }
