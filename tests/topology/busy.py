"""Large nodes with many pods, as bad as a report may have to describe."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.kubelet.build import container, pod

from numakube.api.pod import Container, Pod
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet

GIB = 1 << 30
PODS = 110
RESOURCES = tuple(f"vendor{number}.example/device-{number}" for number in range(20))
MACHINE = (
    "2 sockets, 4 numa each, 16 cores, smt 2, 64Gi, hugepages-1Gi 8, hugepages-2Mi 512, uncore 8"
)


def large_node(rng: random.Random, *, scattered: bool) -> KubeletNode:
    """256 CPUs, 8 NUMA nodes, 20 resources of 16 devices.

    If *scattered*, CPUs are numbered at random, so that no line describes the machine, and devices
    that follow each other are anywhere.
    """
    machine = from_shape(MACHINE)
    if scattered:
        machine = _renumbered(machine, rng)
    settings = KubeletSettings(
        topology_policy="best-effort",
        cpu_policy="static",
        cpu_options={"prefer-align-cpus-by-uncorecache": "true"},
        reserved_cpus=CpuSet.parse("0,64,128,192"),
        memory_policy="Static",
        reserved_memory={node.id: {"memory": GIB} for node in machine.nodes},
        memory_reservation={"memory": 8 * GIB},
    )
    devices = {
        name: tuple(
            Device(f"0000:{index:02x}:00.{index}", (rng.randrange(8) if scattered else index // 2,))
            for index in range(16)
        )
        for name in RESOURCES
    }
    return KubeletNode(machine, settings, devices=devices)


def _renumbered(machine: Machine, rng: random.Random) -> Machine:
    ids = list(range(machine.cpu_count))
    rng.shuffle(ids)

    def renumbered(core: Core) -> Core:
        return replace(core, threads=tuple(ids[cpu] for cpu in core.threads))

    nodes = (replace(node, cores=tuple(map(renumbered, node.cores))) for node in machine.nodes)
    return replace(machine, nodes=tuple(nodes))


def fill(node: KubeletNode, rng: random.Random, *, containers: int, churn: int) -> list[str]:
    """Let pods come and go until the node has as many as it takes; return their uids."""
    running: list[str] = []
    refused = 0
    for step in range(1000):
        if step > churn and (len(running) >= PODS or refused > 40):
            break
        if len(running) >= PODS or (step < churn and running and rng.random() < 0.4):
            node.remove(running.pop(rng.randrange(len(running))))
            continue
        wanted = random_pod(rng, containers)
        if isinstance(node.admit(wanted), Admitted):
            running.append(wanted.metadata.uid)
        else:
            refused += 1
    node.collect_garbage()
    return running


def random_pod(rng: random.Random, containers: int) -> Pod:
    """A guaranteed pod of a few CPUs, some memory, and perhaps devices and hugepages."""
    uid = f"{rng.getrandbits(128):032x}"
    return pod(*(_container(rng, f"c{index}") for index in range(containers)), uid=uid)


def _container(rng: random.Random, name: str) -> Container:
    amounts = {
        "cpu": rng.choice(("1", "1", "2", "3", "500m", "4")),
        "memory": rng.choice(("256Mi", "1Gi", "3Gi", "1500Mi")),
    }
    if rng.random() < 0.6:
        amounts[rng.choice(RESOURCES)] = rng.choice(("1", "1", "2"))
    if rng.random() < 0.3:
        amounts["hugepages-2Mi"] = "64Mi"
    return container(name, **amounts)
