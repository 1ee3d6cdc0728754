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
    from numakube.kube.client import Client, Patch, json_patch, merge_patch, strategic_patch
    from numakube.kube.clock import Clock, SystemClock
    from numakube.kube.connect import connect
    from numakube.kube.connection.cluster_config import ClusterConfig, UserConfig, load_config
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.leader_election import LeaderElection, LeaseTiming
    from numakube.kube.reflector import Reflector, reflecting, wait_synced
    from numakube.kube.resource_types import ObjectKey, Resource, key_of
    from numakube.kube.store import Added, Removed, Store, Updated
    from numakube.kube.subresources import bind_pod, evict_pod
    from numakube.kube.workqueue import WorkQueue, run_workers

__all__ = [
    "NODES",
    "NODE_RESOURCE_TOPOLOGIES",
    "PODS",
    "Added",
    "Client",
    "Clock",
    "ClusterConfig",
    "EventRecorder",
    "LeaderElection",
    "LeaseTiming",
    "ObjectKey",
    "Patch",
    "Reflector",
    "Removed",
    "Resource",
    "Store",
    "SystemClock",
    "Updated",
    "UserConfig",
    "WorkQueue",
    "bind_pod",
    "connect",
    "evict_pod",
    "json_patch",
    "key_of",
    "load_config",
    "merge_patch",
    "reflecting",
    "resource_of",
    "run_workers",
    "strategic_patch",
    "wait_synced",
]

__getattr__ = lazy_names(
    __name__,
    {
        "catalog": "NODE_RESOURCE_TOPOLOGIES NODES PODS resource_of",
        "client": "Client Patch json_patch merge_patch strategic_patch",
        "clock": "Clock SystemClock",
        "connection.cluster_config": "ClusterConfig UserConfig load_config",
        "connect": "connect",
        "event_recorder": "EventRecorder",
        "leader_election": "LeaderElection LeaseTiming",
        "reflector": "Reflector reflecting wait_synced",
        "resource_types": "ObjectKey Resource key_of",
        "store": "Added Removed Store Updated",
        "subresources": "bind_pod evict_pod",
        "workqueue": "WorkQueue run_workers",
    },
)
