"""What a kubelet makes of running pods when it starts again: their finished init containers."""

from __future__ import annotations

import pytest
from tests.kubelet.build import admit, guaranteed, pod, reject, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht

from numakube.api.pod import Pod
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.state_files import restore, save

MIB = 1024**2
GPU = "vendor.example/gpu"
GPUS = {GPU: (Device("g0", (0,)), Device("g1", (1,)))}
RUNNING = {("uid", "app")}


def pinned(policy: str = "restricted", scope: str = "container") -> KubeletNode:
    """A node whose managers are all busy."""
    settings = static_settings(
        policy, topology_scope=scope, memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    return start(dual_socket_ht(), settings, devices=GPUS)


def restarted(node: KubeletNode, *, plugin: bool = True) -> KubeletNode:
    """The same node after a restart that the app container has survived."""
    twin = KubeletNode(node.machine, node.settings, devices=GPUS if plugin else {})
    restore(twin, save(node))
    twin.await_pods(RUNNING)
    return twin


def booked(node: KubeletNode) -> int:
    """Return the memory in MiB that is booked on all NUMA nodes."""
    assert node.memory is not None
    return sum(one.tables["memory"].reserved for one in node.memory.books.values()) // MIB


def with_init(init: str = "200Mi", app: str = "192Mi", **more: str) -> Pod:
    """A pod whose init container needs more memory than its app container."""
    return pod(
        guaranteed("app", "2", app), init=(guaranteed("init", "2", init, **more),), uid="uid"
    )


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_memory_of_a_finished_init_container_is_booked_again(scope: str) -> None:
    """Its rest of 8Mi goes when the app starts; after a restart all its 200Mi are booked."""
    node = pinned(scope=scope)
    admit(node, with_init())
    assert booked(node) == 200

    assert node.start_container("uid", "init") is False
    assert node.start_container("uid", "app") is True
    assert booked(node) == 192

    after = restarted(node)
    admit(after, with_init())
    after.all_pods_known()
    assert booked(after) == 392
    assert after.placement("uid", "app") == node.placement("uid", "app")

    assert after.start_container("uid", "app") is True
    assert booked(after) == 192


def test_a_pod_that_left_no_room_for_its_init_container_fails_at_the_restart() -> None:
    """The kubelet does not know that nobody needs that memory any more."""
    node = pinned("single-numa-node")
    assert node.memory is not None
    whole = node.memory.books[1].free("memory") // MIB
    admit(node, pod(guaranteed("c", "1", "6Gi"), uid="first"))
    admit(node, with_init(init=f"{whole}Mi", app=f"{whole - 8}Mi"))
    node.start_container("uid", "app")

    after = restarted(node)
    admit(after, pod(guaranteed("c", "1", "6Gi"), uid="first"))

    refused = reject(after, with_init(init=f"{whole}Mi", app=f"{whole - 8}Mi"))
    assert refused.reason == "UnexpectedAdmissionError"


def test_cpus_and_devices_of_a_finished_init_container_stay_its_own() -> None:
    """Nobody takes them away when the app starts, and a restart finds them."""
    node = pinned()
    admit(node, with_init(gpu="1"))
    before = node.placement("uid", "init")
    node.start_container("uid", "app")

    after = restarted(node)
    admit(after, with_init(gpu="1"))

    placed = after.placement("uid", "init")
    assert (placed.cpus, placed.devices) == (before.cpus, before.devices)
    assert after.shared_cpus == node.shared_cpus


def test_devices_of_a_finished_init_container_must_be_back_at_once() -> None:
    """Only a container that runs is known to have its devices."""
    node = pinned()
    admit(node, with_init(gpu="1"))
    node.start_container("uid", "app")

    refused = reject(restarted(node, plugin=False), with_init(gpu="1"))

    assert refused.message == (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        f"{GPU}, which is unexpected"
    )


def test_a_container_that_a_pod_has_no_longer_gives_back_what_it_held() -> None:
    """A pod that is admitted again with fewer containers keeps what the others hold."""
    settings = static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = start(dual_socket_ht(), settings, kubernetes="1.37")
    admit(node, pod(guaranteed("app", "2", "2Gi"), guaranteed("gone", "2", "1Gi")))
    assert node.memory is not None
    kept = node.placement("uid", "app")
    outcome = admit(node, pod(guaranteed("app", "2", "2Gi")))
    assert outcome.containers["app"].cpus == kept.cpus
    assert len(outcome.shared_cpus) == 10
    assert sum(books.tables["memory"].reserved for books in node.memory.books.values()) == 2 * GIB


def test_a_pod_that_has_its_memory_is_offered_just_that_again() -> None:
    """After a restart the kubelet asks for hints of running pods, too, and must not move them."""
    node = pinned(scope="pod")
    one = pod(guaranteed("app", "2", "192Mi"), uid="uid")
    admit(node, one)
    after = restarted(node)
    assert after.memory is not None
    found = after.memory.pod_hints(after.demand_of(one))
    assert found is not None
    hints = found["memory"]
    assert isinstance(hints, tuple)
    assert [(hint.mask, hint.preferred) for hint in hints] == [(1, True)]
