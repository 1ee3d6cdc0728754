"""Which bindings are held up by others, so that the pod's status says first where it will go."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ReplayedApi


def cluster_with(device: dict[str, Any]) -> Cluster:
    """Return a cluster of one node with *device*, and a claim for it."""
    cluster = Cluster()
    cluster.set_node(convert(Node, {"metadata": {"name": "n"}}))
    spec = {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [device],
    }
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    claim = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    objects = cluster.objects
    objects.device_classes["gpu"] = convert(DeviceClass, {"metadata": {"name": "gpu"}})
    slice_: dict[str, Any] = {"metadata": {"name": "s"}, "spec": spec}
    objects.resource_slices["s"] = convert(ResourceSlice, slice_)
    objects.resource_claims["ns/c"] = convert(ResourceClaim, claim)
    return cluster


@pytest.mark.parametrize(
    ("more", "waits"),
    [
        ({"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}, True),
        ({}, False),
    ],
)
def test_a_device_with_conditions_is_waited_for(more: dict[str, Any], waits: bool) -> None:
    """Known before the claim is written; claims without conditions cost no further request."""
    cluster = cluster_with({"name": "d0", **more})
    objects = cluster.objects
    plugin = DynamicResources(objects=objects, actions=ReplayedApi(objects))
    entry = {"name": "gpu", "resourceClaimName": "c"}
    tree = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": [entry]},
    }
    pod, state, node = PodInfo(convert(Pod, tree)), CycleState(), cluster.node("n")
    assert node is not None
    assert not plugin.waits_for_others(state, pod, "n")
    assert plugin.pre_filter(state, pod, cluster.snapshot()).status.ok
    assert plugin.filter(state, pod, node).ok
    assert plugin.reserve(state, pod, node).ok
    assert plugin.waits_for_others(state, pod, "n") is waits
