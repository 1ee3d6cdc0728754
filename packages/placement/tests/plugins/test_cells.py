"""Every policy with every scope, no matter who decides: the pod, the node's label, or the kubelet.

The pod has two containers of five CPUs, the node two NUMA nodes of eight: it never fits one NUMA
node as a whole, and always does container by container. That is what container scope is for.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from packages.placement.tests.plugins.test_scheduling import given

from numakube.api.koordinator import keys
from numakube.kubelet.config_from_words import UNALIGNED, lab_configuration, parse_kubelet_options
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import LabCluster, Opener, lab_cluster
from numakube_placement.koordinator.placement_rule import Why

pytestmark = pytest.mark.timeout(240)

KUBELET_WORDS = {
    "": "none",
    "BestEffort": "best-effort",
    "Restricted": "restricted",
    "SingleNUMANode": "single-numa-node",
}
CELLS = tuple(product(KUBELET_WORDS, ("pod", "container")))


def name_of(policy: str, scope: str) -> str:
    """Return the name of a cell's node and pod."""
    return f"{KUBELET_WORDS[policy]}-{scope}"


def plan(policy: str, scope: str, decided_by: str) -> NodePlan:
    """Return the node of a cell."""
    kubelet = UNALIGNED
    if decided_by == "kubelet" and policy:
        kubelet = f"policy={KUBELET_WORDS[policy]},scope={scope},memory=None"
    machine = from_shape("2 sockets, 4 cores, smt 2, 16Gi")
    labels = {keys.NODE_POLICY: policy, keys.NODE_SCOPE: scope} if decided_by == "label" else {}
    config = lab_configuration(machine, parse_kubelet_options(kubelet))
    return NodePlan(name=name_of(policy, scope), machine=machine, config=config, labels=labels)


def pair(policy: str, scope: str, decided_by: str) -> dict[str, Any]:
    """Return the pod of a cell."""
    name = name_of(policy, scope)
    metadata = {}
    if decided_by == "pod" and policy:
        spec = {"numaTopologyPolicy": policy, "numaTopologyScope": scope}
        metadata = {"annotations": {keys.NUMA_TOPOLOGY_SPEC: json.dumps(spec)}}
    selector = {"kubernetes.io/hostname": name}
    document = pod_document(name, "5", metadata=metadata, nodeSelector=selector)
    (container,) = document["spec"]["containers"]
    document["spec"]["containers"] = [{**container, "name": one} for one in ("one", "two")]
    return document


@pytest.mark.parametrize("decided_by", ["pod", "label", "kubelet"])
async def test_each_cell_does_what_it_says(sites: Opener, decided_by: str) -> None:
    """Only a single NUMA node for the pod as a whole cannot be had."""
    plans = tuple(plan(policy, scope, decided_by) for policy, scope in CELLS)
    async with lab_cluster(0, plans=plans, on=sites) as world:
        await world.start()
        await world.create(*(pair(policy, scope, decided_by) for policy, scope in CELLS))
        impossible = name_of("SingleNUMANode", "pod")
        expected = {name_of(*cell) for cell in CELLS} - {impossible}
        await world.until(lambda: world.by_phase("Running") == expected)
        kubelets = decided_by == "kubelet"
        await world.refuses(impossible, "cannot align pod" if kubelets else Why.UNALIGNED.value)
        for policy, scope in CELLS:
            if name_of(policy, scope) in expected:
                check(world, policy, scope, by_scheduler=bool(policy) and not kubelets)


def check(world: LabCluster, policy: str, scope: str, *, by_scheduler: bool) -> None:
    """Check what a pod was given."""
    name = name_of(policy, scope)
    if not by_scheduler:
        assert keys.RESOURCE_STATUS not in world.pod(name).metadata.annotations
        return
    allotment = given(world, name)
    assert allotment.total.mask == 0b11
    masks = {one: share.mask.bit_count() for one, share in allotment.containers.items()}
    assert masks == ({"one": 1, "two": 1} if scope == "container" else {})
