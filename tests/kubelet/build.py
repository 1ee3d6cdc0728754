"""Short ways to write pods and nodes in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.codec import ResourceList
    from numakube.kubelet.admission_trace import AdmissionTrace
    from numakube.kubelet.machine import Device, Machine

GUARANTEED_MEMORY = "128Mi"


def container(name: str, **resources: str) -> Container:
    """A container whose requests equal its limits; ``gpu`` stands for ``vendor.example/gpu``."""
    always = resources.pop("restart", None)
    named: ResourceList = {
        {"gpu": "vendor.example/gpu", "huge": "hugepages-1Gi"}.get(key, key): text
        for key, text in resources.items()
    }
    requirements = ResourceRequirements(requests=named, limits=named) if named else None
    return Container(name=name, resources=requirements, restart_policy=always)


def guaranteed(
    name: str, cpu: str = "1", memory: str = GUARANTEED_MEMORY, **more: str
) -> Container:
    """A container that makes its pod guaranteed."""
    return container(name, cpu=cpu, memory=memory, **more)


def pod(
    *apps: Container,
    init: tuple[Container, ...] = (),
    uid: str = "uid",
    level: ResourceList | None = None,
) -> Pod:
    """A pod; *level* sets pod-level resources."""
    resources = None if level is None else ResourceRequirements(requests=level, limits=level)
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=PodSpec(containers=apps, init_containers=init, resources=resources),
    )


def static_settings(policy: str = "none", **more: object) -> KubeletSettings:
    """Settings with the static CPU policy and CPU 0 reserved, unless told otherwise."""
    values: dict[str, object] = {
        "topology_policy": policy,
        "cpu_policy": "static",
        "reserved_cpus": CpuSet.of([0]),
        "feature_gates": {"CPUManagerPolicyAlphaOptions": True},
        **more,
    }
    return KubeletSettings(**values)  # type: ignore[arg-type]


def start(
    machine: Machine,
    settings: KubeletSettings | None = None,
    *,
    devices: Mapping[str, tuple[Device, ...]] | None = None,
    kubernetes: str = "1.35",
) -> KubeletNode:
    """Start a node."""
    return KubeletNode(
        machine, settings or static_settings(), devices=devices or {}, kubernetes=kubernetes
    )


def admit(node: KubeletNode, one: Pod, trace: AdmissionTrace | None = None) -> Admitted:
    """Admit a pod that must be admitted."""
    outcome = node.admit(one, trace=trace)
    assert isinstance(outcome, Admitted), outcome
    return outcome


def reject(node: KubeletNode, one: Pod, trace: AdmissionTrace | None = None) -> Rejected:
    """Admit a pod that must be refused."""
    outcome = node.admit(one, trace=trace)
    assert isinstance(outcome, Rejected), outcome
    return outcome


def cpus(outcome: Admitted) -> dict[str, str]:
    """Return each container's exclusive CPUs as text."""
    return {name: str(placement.cpus) for name, placement in outcome.containers.items()}


def split_group() -> tuple[KubeletNode, list[dict[int, tuple[tuple[int, ...], int]]]]:
    """A node with a pod in a group of NUMA nodes, one of which a rejected pod has had alone.

    Returns:
        The node, and after each pod the group of every NUMA node and how many blocks it has.
    """
    reserved = {number: {"memory": 128 << 20} for number in range(2)}
    settings = static_settings(
        "best-effort", topology_scope="pod", memory_policy="Static", reserved_memory=reserved
    )
    node = start(from_shape("2 sockets, 4 cores, 1536Mi, hugepages-2Mi 64"), settings)
    groups = []
    for uid, containers in (
        ("wide", (guaranteed("a", "3", "1600Mi"),)),
        ("narrow", (guaranteed("a", "1", "640Mi"), guaranteed("b", "1", "426Mi"))),
        ("last", (guaranteed("a", "2", "1600Mi"),)),
    ):
        node.admit(pod(*containers, uid=uid))
        assert node.memory is not None
        books = node.memory.books
        groups.append({number: (one.cells, one.assignments) for number, one in books.items()})
    return node, groups
