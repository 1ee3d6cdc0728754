"""The async Kubernetes client, and the parts that controllers are built from.

    config = load_config()                            # numakube.kube.connection.cluster_config
    async with connect(config) as client:             # numakube.kube.connect
        pods = Reflector(client, PODS)                # numakube.kube.reflector, .catalog
        queue = WorkQueue[ObjectKey](clock=client.clock)  # numakube.kube.workqueue
        pods.store.subscribe(lambda change: queue.add(key_of(change.object)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pods.run())
            await pods.synced.wait()
            tasks.create_task(run_workers(queue, reconcile, workers=4))

From the bottom up: in `connection`, `transport` is the protocol for requests and `http` carries
them over TLS with `credentials`; `client` adds typed objects, typed errors, retries and pages;
`watch`, `store` and `reflector` mirror collections; `workqueue`, `leader_election` and
`event_recorder` are what a controller needs besides. `clock` and `scripted_server` have fakes for
tests.

What `__all__` names is public; the modules themselves may change. A name is loaded when it is first
used, because most commands of the command line need no HTTP client.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, resource_of
    from numakube.kube.client import (
        Client,
        Patch,
        json_patch,
        merge_patch,
        strategic_patch,
        write_request,
    )
    from numakube.kube.clock import Clock, SystemClock, growing
    from numakube.kube.connect import connect
    from numakube.kube.connection.cluster_config import (
        SERVICE_ACCOUNT,
        ClusterConfig,
        UserConfig,
        in_cluster_config,
        load_config,
    )
    from numakube.kube.connection.transport import JSON, Request, Response
    from numakube.kube.decode import codec_of
    from numakube.kube.event_recorder import EventRecorder, reference_to
    from numakube.kube.leader_election import LeaderElection, LeaseTiming
    from numakube.kube.log_lines import ensure_configured
    from numakube.kube.reflector import Reflector, reflecting, wait_synced
    from numakube.kube.resource_types import Document, ObjectKey, Resource, key_of
    from numakube.kube.store import Added, Change, Removed, Store, Updated
    from numakube.kube.subresources import bind_pod, evict_pod, request_token
    from numakube.kube.workqueue import WorkQueue, run_workers

__all__ = [
    "JSON",
    "NODES",
    "NODE_RESOURCE_TOPOLOGIES",
    "PODS",
    "SERVICE_ACCOUNT",
    "Added",
    "Change",
    "Client",
    "Clock",
    "ClusterConfig",
    "Document",
    "EventRecorder",
    "LeaderElection",
    "LeaseTiming",
    "ObjectKey",
    "Patch",
    "Reflector",
    "Removed",
    "Request",
    "Resource",
    "Response",
    "Store",
    "SystemClock",
    "Updated",
    "UserConfig",
    "WorkQueue",
    "bind_pod",
    "codec_of",
    "connect",
    "ensure_configured",
    "evict_pod",
    "growing",
    "in_cluster_config",
    "json_patch",
    "key_of",
    "load_config",
    "merge_patch",
    "reference_to",
    "reflecting",
    "request_token",
    "resource_of",
    "run_workers",
    "strategic_patch",
    "wait_synced",
    "write_request",
]

__getattr__ = lazy_names(
    __name__,
    {
        "catalog": "NODES NODE_RESOURCE_TOPOLOGIES PODS resource_of",
        "client": "Client Patch json_patch merge_patch strategic_patch write_request",
        "clock": "Clock SystemClock growing",
        "connect": "connect",
        "connection.cluster_config": (
            "ClusterConfig SERVICE_ACCOUNT UserConfig in_cluster_config load_config"
        ),
        "connection.transport": "JSON Request Response",
        "decode": "codec_of",
        "event_recorder": "EventRecorder reference_to",
        "leader_election": "LeaderElection LeaseTiming",
        "log_lines": "ensure_configured",
        "reflector": "Reflector reflecting wait_synced",
        "resource_types": "Document ObjectKey Resource key_of",
        "store": "Added Change Removed Store Updated",
        "subresources": "bind_pod evict_pod request_token",
        "workqueue": "WorkQueue run_workers",
    },
)
