"""Lab nodes from a dump of a real cluster."""

from __future__ import annotations

import pytest

from numakube.api.yamls import load_manifests
from numakube.errors import MalformedObject
from numakube.kubelet.configuration import settings_of
from numakube.kubelet.machine import Device
from numakube.kubelet.node import KubeletNode
from numakube.lab.dump import plans_from_dump

DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: worker-0, labels: {zone: a}}
  spec: {taints: [{key: gpu, effect: NoSchedule}]}
  status: {capacity: {cpu: "8", memory: 64Gi, pods: "110", vendor.example/gpu: "2"}}
- apiVersion: v1
  kind: Node
  metadata: {name: plain}
  status: {capacity: {cpu: "4", memory: 16Gi, pods: "110"}}
- apiVersion: topology.node.k8s.io/v1alpha2
  kind: NodeResourceTopology
  metadata: {name: worker-0}
  attributes:
  - {name: topologyManagerPolicy, value: restricted}
  - {name: topologyManagerScope, value: pod}
  zones:
  - name: node-0
    type: Node
    costs: [{name: node-0, value: 10}, {name: node-2, value: 32}]
    resources:
    - {name: cpu, capacity: "4", allocatable: "4", available: "4"}
    - {name: memory, capacity: "34359738368", allocatable: "0", available: "0"}
    - {name: hugepages-1Gi, capacity: "2147483648", allocatable: "0", available: "0"}
  - name: node-2
    type: Node
    resources:
    - {name: cpu, capacity: "4", allocatable: "4", available: "4"}
    - {name: memory, capacity: "34359738368", allocatable: "0", available: "0"}
    - {name: vendor.example/gpu, capacity: "2", allocatable: "2", available: "2"}
"""


def test_zones_become_numa_nodes_with_their_devices_and_distances() -> None:
    """Numbers with holes are kept, and so are policy, labels and taints."""
    worker, plain = plans_from_dump(load_manifests(DUMP, "dump"), "dump")
    zero, two = worker.machine.nodes
    assert (zero.id, two.id) == (0, 2)
    assert zero.distances == (10, 32)
    assert two.distances == (20, 10)
    assert [pool.count for pool in zero.hugepages] == [2]
    assert worker.machine.devices["vendor.example/gpu"] == (
        Device("gpu-2-0", (2,)),
        Device("gpu-2-1", (2,)),
    )
    assert worker.config.topology_manager_policy == "restricted"
    assert worker.labels["zone"] == "a"
    assert worker.taints[0].key == "gpu"
    assert len(plain.machine.nodes) == 1
    assert plain.machine.cpu_count == 4


def test_kubelets_start_on_what_was_dumped() -> None:
    """The configuration is completed for the machine."""
    for plan in plans_from_dump(load_manifests(DUMP, "dump"), "dump"):
        node = KubeletNode(plan.machine, settings_of(plan.config, plan.machine))
        assert node.cpus is not None


def test_a_dump_without_nodes_is_refused() -> None:
    """The file is named."""
    with pytest.raises(MalformedObject, match=r"dump\.yaml: has no objects of kind Node"):
        plans_from_dump([], "dump.yaml")
