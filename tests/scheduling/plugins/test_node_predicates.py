"""C23: pods that use an optional feature go to nodes whose kubelets declare it (KEP-5328)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.plugins.node_predicates import features_of
from numakube.testing import World, pod
from numakube.testing.scheduler import Scheduler

RESTART = {
    "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}},
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [2]}},
    ]
}
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]}
REASON = "node(s) didn't match Pod's required features"


def read(container: dict[str, Any], **spec: Any) -> Pod:
    """A pod as the API server sends it."""
    return convert(Pod, {"spec": {"containers": [{"name": "c", **container}], **spec}})


@pytest.mark.parametrize(
    ("one", "features"),
    [
        (read({}), set()),
        (read(RESTART), {"RestartAllContainersOnContainerExits"}),
        (read({"restartPolicyRules": [{"action": "Restart"}]}), set()),
        (
            read({}, initContainers=[{"name": "i", **RESTART}]),
            {"RestartAllContainersOnContainerExits"},
        ),
        (read({}, hostNetwork=True, hostUsers=False), {"UserNamespacesHostNetworkSupport"}),
        (read({}, hostNetwork=True, hostUsers=True), set()),
        (read({}, hostNetwork=True), set()),
        (read({}, hostUsers=False), set()),
        (read(MOUNT), {"VolumeBindMountOptions"}),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(one: Pod, features: set[str]) -> None:
    """Only three features decide about scheduling in Kubernetes 1.37."""
    assert features_of(one) == features


def declare(scheduler: Scheduler, node: Node, *features: str) -> None:
    """The kubelet of *node* starts with a feature."""
    status = msgspec.structs.replace(node.status, declared_features=features)
    scheduler.set_node(msgspec.structs.replace(node, status=status))


def test_c23_a_pod_waits_for_a_node_that_declares_its_feature() -> None:
    """Other pods run anywhere; a declaration alone makes the node fit."""
    world = World()
    world.add_node("old", "single-numa-node")
    world.add_node("new", "single-numa-node")
    scheduler = world.scheduler()
    mapped = pod("mapped", host_network=True, host_users=False)
    assert isinstance(scheduler.decide(pod("plain")), Chosen)
    assert scheduler.reasons(mapped) == {REASON}
    node = scheduler.engine.cluster.node("new")
    assert node is not None
    declare(scheduler, node.node, "UserNamespacesHostNetworkSupport")
    decision = scheduler.decide(mapped)
    assert isinstance(decision, Chosen)
    assert decision.node == "new"
