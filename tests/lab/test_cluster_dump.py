"""Lab nodes from a dump of a real cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.strategies.machines import regular_machines

from numakube.api.yaml_text import dump_yaml, load_manifests
from numakube.apps.bundle import pack
from numakube.errors import KubeletStartError, MalformedObject
from numakube.insight.collected import Collected
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import allocatable_of, capacity_of, settings_of
from numakube.topology.model_report import nrt_of, report_of
from numakube.values.resources import quantities_of
from numakube_lab.dumps.cluster_dump import dump_of, plans_of, read_dump
from numakube_lab.nodes.node_documents import NodeOffer, node_document

if TYPE_CHECKING:
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube_lab.nodes.node_documents import NodePlan

DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: worker-0, labels: {zone: a}}
  spec: {unschedulable: true, taints: [{key: gpu, effect: NoSchedule}]}
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


def _spec(plan: NodePlan) -> dict[str, Any]:
    """Return the spec of the node that is registered for *plan*."""
    offer = NodeOffer(capacity={}, allocatable={})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    document = node_document(plan, offer, address="10.0.0.1", cidr="10.1.0.0/24", now=now)
    return dict(document["spec"])


def test_zones_become_numa_nodes_with_their_devices_and_distances() -> None:
    """Numbers with holes are kept, and so are policy, labels, taints and a cordon."""
    worker, plain = plans_of(read_dump(DUMP.encode(), "dump"), {})
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
    assert (worker.unschedulable, plain.unschedulable) == (True, False)
    assert _spec(worker)["unschedulable"] is True
    assert "unschedulable" not in _spec(plain)
    assert len(plain.machine.nodes) == 1
    assert plain.machine.cpu_count == 4


def test_kubelets_start_on_what_was_dumped() -> None:
    """The configuration is completed for the machine."""
    for plan in plans_of(read_dump(DUMP.encode(), "dump"), {}):
        node = KubeletNode(plan.machine, settings_of(plan.config, plan.machine))
        assert node.cpus is not None


def test_a_dump_without_nodes_is_refused() -> None:
    """The file is named."""
    with pytest.raises(MalformedObject, match=r"dump\.yaml: has no objects of kind Node"):
        dump_of([], "dump.yaml")


@settings(max_examples=40, deadline=None)
@given(
    regular_machines(max_nodes=4),
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    st.sampled_from(["static", "none"]),
    st.sampled_from(["Static", "None"]),
)
def test_exact_data_gives_the_same_machine_and_settings(
    machine: Machine, policy: str, cpu: str, memory: str
) -> None:
    """Cores with threads and caches, reserved CPUs and memory, devices: the report is the same."""
    words = {"policy": policy, "cpu": cpu, "memory": memory}
    config = lab_configuration(machine, words)
    try:
        node = KubeletNode(machine, settings_of(config, machine))
    except KubeletStartError:
        reject()
    (plan,) = plans_of(read_dump(dumped(node, config), "dump"), {})
    again = KubeletNode(
        plan.machine, settings_of(plan.config, plan.machine), kubernetes=plan.kubernetes
    )
    assert report_of(again) == report_of(node)
    assert allocatable_of(plan.config, plan.machine) == {
        **allocatable_of(config, machine),
        "pods": 50,
    }


def dumped(node: KubeletNode, config: KubeletConfiguration, *, exact: bool = True) -> bytes:
    """Return a dump of one node."""
    offer = {
        "capacity": quantities_of(capacity_of(node.machine, max_pods=50)),
        "allocatable": quantities_of(allocatable_of(config, node.machine)),
    }
    document = {"kind": "Node", "metadata": {"name": "n"}, "status": offer}
    topology = msgspec.to_builtins(nrt_of("n", node, exact=exact))
    return dump_yaml({"kind": "List", "items": [document, topology]}).encode()


SMT = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 2")


def smt_node(words: dict[str, str]) -> tuple[KubeletNode, KubeletConfiguration]:
    """Return a node with threads, and its configuration."""
    config = lab_configuration(SMT, words)
    return KubeletNode(SMT, settings_of(config, SMT)), config


def test_words_change_what_was_dumped() -> None:
    """Only what they name; what the managers need then is completed."""
    dump = read_dump(
        dumped(*smt_node({"policy": "restricted", "cpu": "none", "memory": "None"})), "d"
    )
    words = {
        "policy": "best-effort",
        "cpu": "static",
        "memory": "Static",
        "full-pcpus-only": "true",
    }
    (plan,) = plans_of(dump, words, kubernetes="1.36")
    node = KubeletNode(plan.machine, settings_of(plan.config, plan.machine))
    assert node.settings.topology_policy == "best-effort"
    assert node.settings.cpu_options == {"full-pcpus-only": "true"}
    assert node.cpus is not None
    assert node.memory is not None
    assert (plan.kubernetes, plan.config.max_pods) == ("1.36", 50)
    (less,) = plans_of(read_dump(dumped(*smt_node({})), "d"), {"cpu": "none", "memory": "None"})
    settings_of(less.config, less.machine)
    assert less.config.topology_manager_policy == "single-numa-node"
    assert (less.config.cpu_manager_policy, less.config.reserved_memory) == ("none", ())


def test_counts_give_what_pods_may_use() -> None:
    """As many CPUs of each zone are reserved as are not allocatable, and as much memory."""
    node, config = smt_node({"reserved-cpus": "0+16", "policy": "restricted"})
    (plan,) = plans_of(read_dump(dumped(node, config, exact=False), "d"), {})
    assert plan.config.topology_manager_policy == "restricted"
    assert plan.config.reserved_system_cpus == "0-1"
    assert allocatable_of(plan.config, plan.machine) == {
        **allocatable_of(config, SMT),
        "pods": 50,
    }


def test_a_bundle_has_the_kubelets_configurations() -> None:
    """They go before what a report says; items of its lists do not name their kind."""
    node, config = smt_node({})
    (document, topology) = load_manifests(dumped(node, config), "d")
    del document["kind"], topology["kind"]
    said = msgspec.structs.replace(config, max_pods=7, cpu_manager_reconcile_period="3s")
    files = {
        "nodes.json": msgspec.json.encode({"kind": "NodeList", "items": [document]}),
        "noderesourcetopologies.json": msgspec.json.encode({"kind": "List", "items": [topology]}),
        "configz/n.json": msgspec.json.encode({"kubeletconfig": said}),
    }
    (plan,) = plans_of(read_dump(pack(Collected("2026-01-01T00:00:00Z", files)), "b"), {})
    assert plan.config == said
    assert plan.machine.cpu_count == 32
    assert len(plan.machine.nodes[0].cores) == 8


@pytest.mark.parametrize(
    "content", [b"\x1f\x8bnothing", b"\xff\xfe\x00", b"a: [", b"\x7fELF\x00", b"just words"]
)
def test_a_file_of_another_kind_is_refused_in_one_sentence(content: bytes) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(MalformedObject) as caught:
        read_dump(content, "x.bin")
    assert str(caught.value) == (
        "x.bin: neither a dump of a cluster (kubectl get nodes,pods,noderesourcetopologies "
        "-A -o yaml) nor a bundle (kubectl numa bundle)"
    )
