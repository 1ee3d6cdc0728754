"""The async Kubernetes client, and what controllers are built from.

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
them over TLS with `credentials`; `client` adds typed objects, typed errors, retries
and pages; `watch`, `store` and `reflector` mirror collections; `workqueue`, `leader_election` and
`event_recorder` are what a controller needs besides. `clock` and `testing` have fakes for tests.
"""
