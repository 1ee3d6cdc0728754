"""Kubelets whose configuration aligns nothing, differs or crashes."""

from __future__ import annotations

from tests.insight.doctor.breaking import Expected, case, kubelet_config
from tests.insight.doctor.documents import KUBELET, Documents


@case
def _policy_none_where_pods_want_alignment(world: Documents) -> Expected:
    del world.nodes["node-0"], world.topologies["node-0"], world.configz["node-0"]
    world.pods = world.pods[1:]
    world.add_node("blind", kubelet="policy=none")
    world.nodes["blind"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    world.run("wishful", "blind")
    world.report("blind")
    return {"NUMA-KUBELET-POLICY-NONE": ("blind", "default/wishful", "topologyManagerPolicy")}


@case
def _cpu_manager_off(world: Documents) -> Expected:
    world.add_node("shared", kubelet=f"{KUBELET},cpu=none")
    world.nodes["shared"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    return {"NUMA-KUBELET-CPU-NOT-STATIC": ("shared", "single-numa-node", "cpu_manager_state")}


@case
def _memory_manager_off(world: Documents) -> Expected:
    world.add_node("loose", kubelet=f"{KUBELET},memory=None")
    world.nodes["loose"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    return {"NUMA-KUBELET-MEMORY-OFF": ("loose", "memoryManagerPolicy is None")}


@case
def _reserved_memory_does_not_add_up(world: Documents) -> Expected:
    kubelet_config(world, "node-1", kubeReserved={"memory": "1Gi"})
    return {"NUMA-KUBELET-RESERVED-MEMORY": ("node-1", "512Mi", "1124Mi")}


@case
def _a_setting_that_kubelets_refuse(world: Documents) -> Expected:
    kubelet_config(world, "node-1", podsPerCore=-1)
    return {"NUMA-KUBELET-INVALID-CONFIG": ("node-1", "podsPerCore")}


@case
def _static_cpus_without_a_reserved_one(world: Documents) -> Expected:
    kubelet_config(world, "node-2", reservedSystemCPUs="")
    return {"NUMA-KUBELET-NO-RESERVED-CPUS": ("node-2", "reservedSystemCPUs")}


@case
def _sixteen_zones_and_no_option(world: Documents) -> Expected:
    many = "2 sockets, 8 numa each, 2 cores, smt 2, 2Gi"
    options = f"{KUBELET},max-allowable-numa-nodes=16"
    world.add_node("many", machine=many, kubelet=options)
    world.nodes["many"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    world.report("many", exact=False)
    kubelet_config(world, "many", topologyManagerPolicyOptions={})
    return {"NUMA-KUBELET-TOO-MANY-ZONES": ("many", "16 NUMA nodes", "max-allowable-numa-nodes")}


def _of_a_kind_of_its_own(world: Documents, name: str, *, machine: str, kubelet: str) -> None:
    world.add_node(name, machine=machine, kubelet=kubelet)
    world.nodes[name]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")


@case
def _a_page_size_that_one_numa_node_lacks(world: Documents) -> Expected:
    pages = "2 sockets, 8 cores, smt 2, 32Gi, hugepages-1Gi 2/-"
    _of_a_kind_of_its_own(world, "pages", machine=pages, kubelet=KUBELET)
    return {"NUMA-KUBELET-CRASH": ("pages", "hugepages-1Gi", "node 1", "memoryManagerPolicy")}


@case
def _thirty_four_numa_nodes_under_the_static_memory_manager(world: Documents) -> Expected:
    words = f"{KUBELET},memory=Static"
    _of_a_kind_of_its_own(world, "gpus", machine="gb200-nvl4, nvidia.com/gpu 0", kubelet=words)
    return {"NUMA-KUBELET-NO-ANSWER": ("gpus", "would not answer for about 10 hours", "None")}


@case
def _one_node_of_a_pool_differs(world: Documents) -> Expected:
    world.add_node("odd", kubelet="policy=restricted,scope=pod")
    return {"NUMA-KUBELET-MIXED-POLICIES": ("odd", "restricted/pod", "instance-type=big")}


@case
def _cpu_manager_that_looks_once_a_minute(world: Documents) -> Expected:
    kubelet_config(world, "node-0", cpuManagerReconcilePeriod="1m0s")
    return {"NUMA-KUBELET-SLOW-RECONCILE": ("node-0", "1m0s")}
