"""Clusters in which placement by the scheduler goes wrong in one way each."""

from __future__ import annotations

import json

from tests.insight.doctor.breaking import Expected, case
from tests.insight.doctor.documents import Documents, pod

from numakube.api.koordinator import keys
from numakube.kubelet.config_from_words import UNALIGNED

LABELS = {"policy": keys.NODE_POLICY, "scope": keys.NODE_SCOPE, "bind": keys.NODE_BIND_POLICY}


def scheduled(
    world: Documents, name: str = "made", kubelet: str = UNALIGNED, **labels: str
) -> None:
    """Add a node whose NUMA placement is the scheduler's business, with an agent on it."""
    world.add_node(name, kubelet=kubelet)
    metadata = world.nodes[name]["metadata"]
    metadata["labels"].pop("node.kubernetes.io/instance-type")
    metadata["labels"] |= {LABELS[key]: value for key, value in labels.items()}
    agent = {"name": "agent", "image": "registry.example/numakube:1", "args": ["enforcer"]}
    document = pod("agent", node=name)
    document["spec"]["containers"] = [agent]
    world.pods.append(document)


@case
def _a_label_that_means_nothing(world: Documents) -> Expected:
    scheduled(world, policy="None-at-all")
    return {"NUMA-PLACEMENT-SETTINGS": ("made", "None-at-all", keys.NODE_POLICY)}


@case
def _a_label_against_a_kubelet(world: Documents) -> Expected:
    world.nodes["node-1"]["metadata"]["labels"][keys.NODE_POLICY] = "BestEffort"
    return {"NUMA-PLACEMENT-OVERRULED": ("node-1", "BestEffort does not count", "kubectl label")}


@case
def _a_label_on_a_node_without_a_report(world: Documents) -> Expected:
    scheduled(world, policy="Restricted")
    del world.topologies["made"]
    return {
        "NUMA-PLACEMENT-NO-ZONES": ("made", "Restricted"),
        "NUMA-NRT-MISSING": ("made",),
    }


@case
def _a_node_that_binds_unknown_cpus(world: Documents) -> Expected:
    scheduled(world, bind="FullPCPUsOnly")
    world.report("made", exact=False)
    return {"NUMA-PLACEMENT-NO-CPU-LAYOUT": ("made", keys.CPU_TOPOLOGY)}


@case
def _a_node_without_an_agent(world: Documents) -> Expected:
    scheduled(world, policy="SingleNUMANode")
    world.pods.pop()
    return {"NUMA-PLACEMENT-NO-ENFORCER": ("made", "enforcer")}


@case
def _two_who_give_out_cpus(world: Documents) -> Expected:
    scheduled(world, kubelet="policy=none,memory=None", policy="SingleNUMANode")
    return {"NUMA-PLACEMENT-STATIC-CPUS": ("made", "cpuManagerPolicy")}


@case
def _a_cpu_that_was_given_twice(world: Documents) -> Expected:
    scheduled(world)
    for name, cpus in (("first", "0-3"), ("second", "3-4")):
        document = pod(name, node="made")
        document["metadata"]["annotations"] = {keys.RESOURCE_STATUS: f'{{"cpuset":"{cpus}"}}'}
        world.pods.append(document)
    return {"NUMA-PLACEMENT-CPU-TWICE": ("default/second", "CPUs 3 of made", "default/first")}


@case
def _devices_that_no_container_gets(world: Documents) -> Expected:
    scheduled(world)
    for name, containers in (("one", ("a",)), ("two", ("a", "b"))):
        document = pod(name, node="made")
        given = [
            {"name": container, "devices": {"gpu": [{"minor": minor, "resources": {}}]}}
            for minor, container in enumerate(containers)
        ]
        document["metadata"]["annotations"] = {
            keys.RESOURCE_STATUS: json.dumps({"containers": given})
        }
        world.pods.append(document)
    return {"NUMA-PLACEMENT-DEVICES": ("default/two", "containers a, b")}
