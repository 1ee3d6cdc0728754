"""Random nodes and pods for property tests of the model."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.kubelet.conftest import GIB, build_machine

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.machine import Device, HugePages, Machine
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet

GPU = "vendor.example/gpu"
NIC = "vendor.example/nic"

_CPU_OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"full-pcpus-only": "true"},
    {"distribute-cpus-across-numa": "true"},
    {"align-by-socket": "true"},
    {"distribute-cpus-across-cores": "true"},
    {"strict-cpu-reservation": "true"},
    {"prefer-align-cpus-by-uncorecache": "true", "full-pcpus-only": "true"},
)
_ALL_OPTIONS = {"CPUManagerPolicyAlphaOptions": True}


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A machine of one to four NUMA nodes; ids may have a hole.

    Sockets are alike: on lopsided ones the kubelet, which takes averages for facts, gives the same
    CPU to two containers, and so does the model.
    """
    numa_count = draw(st.integers(1, 4))
    cores_per_node = draw(st.integers(1, 4))
    threads = draw(st.sampled_from((1, 2)))
    per_socket = draw(st.sampled_from((1, 2) if numa_count % 2 == 0 else (1, numa_count)))
    hole = draw(st.booleans())
    total = numa_count * cores_per_node
    cores = []
    for core in range(total):
        node = core // cores_per_node
        ids = tuple(core + total * thread for thread in range(threads))
        cores.append((node // per_socket, node + (node > 0 and hole), ids))
    return build_machine(
        cores,
        memory_bytes=8 * GIB,
        hugepages=(HugePages(2 << 20, draw(st.sampled_from((0, 512)))),),
        uncore=lambda cpu: cpu // 2,
    )


@st.composite
def nodes(draw: st.DrawFn, machine: Machine | None = None) -> KubeletNode:
    """A kubelet with random policies on a random machine with GPUs and NICs."""
    machine = machine or draw(machines())
    policy = draw(st.sampled_from(("none", "best-effort", "restricted", "single-numa-node")))
    options = draw(st.sampled_from(_CPU_OPTIONS))
    if "align-by-socket" in options and policy == "single-numa-node":
        options = {}
    settings = KubeletSettings(
        topology_policy=policy,
        topology_scope=draw(st.sampled_from(("container", "pod"))),
        cpu_policy=draw(st.sampled_from(("static", "static", "none"))),
        reserved_cpus=CpuSet.of([0]),
        memory_policy=draw(st.sampled_from(("None", "Static"))),
        reserved_memory={machine.nodes[0].id: {"memory": GIB}},
        feature_gates=_ALL_OPTIONS,
    )
    if settings.cpu_policy == "static" and machine.socket_count <= len(machine.nodes):
        settings = _with_options(settings, options)
    ids = [node.id for node in machine.nodes]
    placement = st.lists(st.sampled_from(ids), max_size=2, unique=True).map(tuple)
    devices = {
        name: tuple(
            Device(f"{name}-{index}", draw(placement)) for index in range(draw(st.integers(1, 4)))
        )
        for name in (GPU, NIC)
    }
    version = draw(st.sampled_from(("1.28", "1.31", "1.33", "1.35", "1.36", "1.37")))
    options = {name: text for name, text in settings.cpu_options.items() if _known(name, version)}
    return KubeletNode(
        machine, _with_options(settings, options), devices=devices, kubernetes=version
    )


def _known(option: str, version: str) -> bool:
    return option in behaviour_of(version).cpu_options


def _with_options(settings: KubeletSettings, options: dict[str, str]) -> KubeletSettings:
    return KubeletSettings(
        topology_policy=settings.topology_policy,
        topology_scope=settings.topology_scope,
        cpu_policy=settings.cpu_policy,
        cpu_options=options,
        reserved_cpus=settings.reserved_cpus,
        memory_policy=settings.memory_policy,
        reserved_memory=settings.reserved_memory,
        feature_gates=settings.feature_gates,
    )


@st.composite
def _containers(draw: st.DrawFn, name: str) -> Container:
    requests: dict[str, str | int | float] = {
        "cpu": draw(st.sampled_from(("1", "2", "3", "4", "500m"))),
        "memory": draw(st.sampled_from(("256Mi", "1Gi", "3Gi", "9Gi"))),
    }
    if draw(st.booleans()):
        requests[draw(st.sampled_from((GPU, NIC)))] = draw(st.sampled_from(("1", "2")))
    if draw(st.integers(0, 4)) == 0:
        requests["hugepages-2Mi"] = draw(st.sampled_from(("2Mi", "600Mi")))
    restart = "Always" if name.startswith("i") and draw(st.booleans()) else None
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests, limits=requests),
        restart_policy=restart,
    )


@st.composite
def pods(draw: st.DrawFn, uid: str = "uid") -> Pod:
    """A guaranteed pod of a few containers."""
    init = [draw(_containers(f"i{index}")) for index in range(draw(st.integers(0, 2)))]
    apps = [draw(_containers(f"c{index}")) for index in range(draw(st.integers(1, 2)))]
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=PodSpec(containers=tuple(apps), init_containers=tuple(init)),
    )


@st.composite
def workloads(draw: st.DrawFn) -> tuple[KubeletNode, list[Pod | str]]:
    """A node and a sequence of pods to admit (pods) and to remove (uids)."""
    node = draw(nodes())
    steps: list[Pod | str] = []
    for index in range(draw(st.integers(1, 6))):
        steps.append(draw(pods(f"uid-{index}")))
        if draw(st.integers(0, 2)) == 0:
            steps.append(f"uid-{draw(st.integers(0, index))}")
    return node, steps
