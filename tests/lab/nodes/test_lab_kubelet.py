"""Kubelets of the lab, end to end: pods in through the API, and out what became of them."""

from __future__ import annotations

from tests.lab.nodes.build import Lab

from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.kube.client import merge_patch, strategic_patch


async def test_a_pod_runs_in_one_numa_node(lab: Lab) -> None:
    """The model chooses the CPUs, and the status says that it runs and is ready."""
    await lab.node()
    await lab.create("a", cpu="4")
    pod = await lab.runs("a")
    assert lab.cpus("a") == (1, 2, 9, 10)
    status = pod.status
    assert {condition.type: condition.status for condition in status.conditions} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    (container,) = status.container_statuses
    assert (container.ready, container.started, container.restart_count) == (True, True, 0)
    assert container.state.running.started_at == "2026-01-01T00:00:00Z"
    assert container.container_id.startswith("containerd://")
    assert (status.host_ip, status.pod_ip) == ("172.16.0.2", "10.128.0.2")
    assert status.qos_class == "Guaranteed"


async def test_a_pod_that_fits_no_numa_node_fails_with_the_kubelets_words(lab: Lab) -> None:
    """Nine CPUs exist, but not in one NUMA node."""
    await lab.node()
    await lab.create("a", cpu="9")
    assert await lab.fails("a") == (
        "TopologyAffinityError",
        "Pod was rejected: Resources cannot be allocated with Topology locality",
    )
    (event,) = (await lab.client.list(CORE_EVENTS)).items
    assert (event.type, event.reason, event.message) == (
        "Warning",
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    assert (event.involved_object.name, event.source.host) == ("a", "n1")


async def test_full_cores_are_demanded_where_the_policy_says_so(lab: Lab) -> None:
    """SMT alignment has a reason of its own."""
    await lab.node(cpu_manager_policy_options={"full-pcpus-only": "true"})
    await lab.create("a", cpu="3")
    reason, message = await lab.fails("a")
    assert reason == "SMTAlignmentError"
    assert message == (
        "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    )


async def test_a_full_node_is_out_of_cpu(lab: Lab) -> None:
    """A pod that alignment lets through is still counted against allocatable."""
    await lab.node(topology_manager_policy="none", cpu_manager_policy="none")
    await lab.create("a", cpu="10")
    await lab.runs("a")
    await lab.create("b", cpu="5")
    assert await lab.fails("b") == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 10000, "
        "capacity: 14000",
    )


async def test_a_node_selector_that_does_not_match_is_refused(lab: Lab) -> None:
    """Pods bound by hand are checked against the node's labels."""
    await lab.node()
    await lab.create("a", nodeSelector={"disk": "ssd"})
    assert await lab.fails("a") == (
        "NodeAffinity",
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
        "affinity/selector",
    )


async def test_a_job_completes_after_its_time(lab: Lab) -> None:
    """The pod succeeds and its CPUs are free at once."""
    await lab.node()
    await lab.create("a", cpu="4", restart="Never", annotations={"run-seconds": "60"})
    await lab.runs("a")
    await lab.clock.advance(59)
    assert await lab.phase("a") == "Running"
    await lab.clock.advance(2)
    pod = await lab.reaches("a", "Succeeded")
    (container,) = pod.status.container_statuses
    ended = container.state.terminated
    assert (ended.exit_code, ended.reason) == (0, "Completed")
    assert (ended.started_at, ended.finished_at) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:01:00Z",
    )
    assert lab.cpus("a") == ()
    await lab.create("b", cpu="4")
    await lab.runs("b")
    assert lab.cpus("b") == (1, 2, 9, 10)


async def test_a_pod_that_exits_with_an_error_fails(lab: Lab) -> None:
    """The exit code is the one that the annotation names."""
    await lab.node()
    await lab.create("a", restart="Never", annotations={"run-seconds": "5", "exit-code": "3"})
    await lab.runs("a")
    await lab.clock.advance(6)
    pod = await lab.reaches("a", "Failed")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 3


async def test_a_crashing_pod_is_restarted_with_growing_pauses(lab: Lab) -> None:
    """The first restart comes at once, the second after ten seconds."""
    await lab.node()
    await lab.create("a", restart="OnFailure", annotations={"run-seconds": "5", "exit-code": "1"})
    await lab.runs("a")
    await lab.clock.advance(6)
    (container,) = (await lab.get("a")).status.container_statuses
    assert container.restart_count == 1
    assert container.last_state.terminated.exit_code == 1
    assert container.state.running.started_at == "2026-01-01T00:00:05Z"
    await lab.clock.advance(5)
    pod = await lab.get("a")
    (container,) = pod.status.container_statuses
    assert container.state.waiting.reason == "CrashLoopBackOff"
    assert container.state.waiting.message == (
        f"back-off 10s restarting failed container=main pod=a_default({pod.metadata.uid})"
    )
    assert {condition.type: condition.status for condition in pod.status.conditions}[
        "Ready"
    ] == "False"
    await lab.clock.advance(10)
    pod = await lab.get("a")
    (container,) = pod.status.container_statuses
    assert (container.restart_count, container.ready) == (2, True)
    ready = next(condition for condition in pod.status.conditions if condition.type == "Ready")
    assert (ready.status, ready.reason, ready.message) == ("True", "", "")


async def test_a_slow_start_is_seen_as_pending(lab: Lab) -> None:
    """Resources are held from admission on, before anything runs."""
    await lab.node()
    await lab.create("a", annotations={"start-seconds": "20"})
    await lab.settle()
    pod = await lab.get("a")
    assert pod.status.phase == "Pending"
    assert pod.status.container_statuses[0].state.waiting.reason == "ContainerCreating"
    assert lab.cpus("a") != ()
    await lab.clock.advance(21)
    await lab.runs("a")


async def test_deletion_waits_for_the_containers_and_frees_their_cpus(lab: Lab) -> None:
    """The pod goes when its containers have ended, not before."""
    await lab.node()
    await lab.create("a", cpu="6", annotations={"termination-seconds": "5"})
    await lab.runs("a")
    await lab.client.delete(PODS, "a", namespace="default")
    await lab.settle()
    await lab.clock.advance(4)
    assert await lab.phase("a") == "Running"
    assert lab.cpus("a") != ()
    await lab.clock.advance(2)
    await lab.reaches("a", "")
    assert lab.cpus("a") == ()
    assert list(lab.model().pods) == []


async def test_a_stubborn_container_is_killed_when_its_grace_is_over(lab: Lab) -> None:
    """The grace period is the longest that an end may take."""
    await lab.node()
    await lab.create(
        "a", annotations={"termination-seconds": "900"}, terminationGracePeriodSeconds=10
    )
    await lab.runs("a")
    await lab.client.delete(PODS, "a", namespace="default")
    await lab.settle()
    await lab.clock.advance(9)
    assert await lab.phase("a") == "Running"
    await lab.clock.advance(2)
    await lab.reaches("a", "")


async def test_a_pod_deleted_before_it_was_seen_is_removed(lab: Lab) -> None:
    """Nothing of it ran, so nothing has to end."""
    await lab.node()
    lab.pool.lag("n1", 10.0)
    await lab.create("a")
    await lab.client.delete(PODS, "a", namespace="default")
    assert await lab.phase("a") == "Pending"
    await lab.clock.advance(11)
    await lab.reaches("a", "")


async def test_a_deadline_ends_a_pod(lab: Lab) -> None:
    """The kubelet itself enforces activeDeadlineSeconds."""
    await lab.node()
    await lab.create("a", activeDeadlineSeconds=30)
    await lab.runs("a")
    await lab.clock.advance(31)
    assert await lab.fails("a") == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    assert lab.cpus("a") == ()


async def test_init_containers_and_sidecars_have_their_own_statuses(lab: Lab) -> None:
    """Init containers have completed, sidecars run."""
    await lab.node()
    init = [
        {"name": "setup", "image": "i"},
        {"name": "proxy", "image": "p", "restartPolicy": "Always"},
    ]
    await lab.create("a", initContainers=init)
    pod = await lab.runs("a")
    setup, proxy = pod.status.init_container_statuses
    assert (setup.ready, setup.state.terminated.reason) == (True, "Completed")
    assert proxy.ready
    assert proxy.state.running is not None
    (held,) = lab.pool.kubelet("n1").pod_resources()
    assert [container.name for container in held.containers] == ["proxy", "main"]


async def test_a_lagging_node_acts_late(lab: Lab) -> None:
    """Nothing happens before its lag is over."""
    await lab.node()
    lab.pool.lag("n1", 7.0)
    await lab.create("a")
    await lab.clock.advance(6)
    assert await lab.phase("a") == "Pending"
    await lab.clock.advance(2)
    await lab.runs("a")


async def test_conditions_of_a_scheduler_are_left_alone(lab: Lab) -> None:
    """PodScheduled keeps the time that the scheduler gave it."""
    await lab.node()
    lab.pool.pause("n1")
    await lab.create("a")
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2025-12-31T00:00:00Z",
    }
    change = strategic_patch({"status": {"conditions": [scheduled]}})
    await lab.client.patch(PODS, "a", change, namespace="default", subresource="status")
    lab.pool.resume("n1")
    pod = await lab.runs("a")
    found = next(
        condition for condition in pod.status.conditions if condition.type == "PodScheduled"
    )
    assert found.last_transition_time == "2025-12-31T00:00:00Z"


async def test_unusable_annotations_are_named_in_an_event(lab: Lab) -> None:
    """The pod runs as if the annotation were not there."""
    await lab.node()
    await lab.create("a", annotations={"run-seconds": "soon"})
    await lab.runs("a")
    (event,) = (await lab.client.list(CORE_EVENTS)).items
    assert event.reason == "InvalidLabAnnotation"
    assert "lab.numakube.dev/run-seconds: 'soon'" in event.message


async def test_a_change_of_the_pod_does_not_start_it_again(lab: Lab) -> None:
    """Labels come and go; the status stays as it is."""
    await lab.node()
    await lab.create("a")
    before = await lab.runs("a")
    await lab.clock.advance(3)
    change = merge_patch({"metadata": {"labels": {"a": "b"}}})
    changed = await lab.client.patch(PODS, "a", change, namespace="default")
    await lab.clock.advance(1)
    after = await lab.get("a")
    assert after.metadata.resource_version == changed.metadata.resource_version
    assert after.status == before.status
