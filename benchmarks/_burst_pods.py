"""A burst of pods as a GPU cluster gets them.

The shapes and how often each occurs are those of the most frequent pods of Alibaba's public
cluster-trace-gpu-v2023. CPUs are rounded up to whole ones and every pod is Guaranteed, because
others are not aligned; pods with a part of a GPU have none here. Pods with more GPUs than one NUMA
node has are left out: no kubelet would align them.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements

GPU: Final = "vendor.example/gpu"
SCHEDULER: Final = "numakube"


class Shape(NamedTuple):
    """What a pod asks for, and how often such a pod occurs."""

    cpus: int
    memory_gib: int
    gpus: int
    frequency: int


SHAPES: Final = (
    Shape(4, 6, 0, 1592), Shape(12, 48, 1, 857), Shape(12, 46, 1, 625), Shape(12, 47, 1, 534),
    Shape(8, 30, 1, 483), Shape(13, 56, 0, 364), Shape(32, 48, 0, 284), Shape(19, 63, 1, 255),
    Shape(10, 41, 1, 195), Shape(4, 23, 1, 189), Shape(4, 15, 1, 181), Shape(8, 30, 0, 163),
    Shape(16, 57, 1, 158), Shape(5, 11, 1, 152), Shape(4, 30, 1, 136), Shape(16, 50, 0, 120),
    Shape(16, 32, 1, 108), Shape(4, 24, 1, 104), Shape(12, 24, 1, 101), Shape(8, 16, 1, 101),
    Shape(12, 16, 1, 99), Shape(17, 50, 0, 95), Shape(15, 57, 1, 93), Shape(25, 91, 1, 84),
    Shape(24, 128, 2, 16), Shape(44, 160, 4, 15),
)  # fmt: skip


class BurstPod(NamedTuple):
    """A pod, and after how many seconds it ends; ``None`` if it goes on."""

    shape: Shape
    seconds: float | None


def burst(count: int, *, seed: int, ending: float = 0.15) -> list[BurstPod]:
    """Return *count* pods, of which the part *ending* ends after 5 to 20 seconds."""
    random = Random(seed)
    weights = [shape.frequency for shape in SHAPES]
    return [
        BurstPod(shape, random.uniform(5, 20) if random.random() < ending else None)
        for shape in random.choices(SHAPES, weights, k=count)
    ]


def pod_of(name: str, shape: Shape) -> Pod:
    """Return a pod that asks for *shape*."""
    amounts = {"cpu": str(shape.cpus), "memory": f"{shape.memory_gib}Gi"}
    if shape.gpus:
        amounts[GPU] = str(shape.gpus)
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="burst", uid=name),
        spec=PodSpec(
            containers=(Container(name="main", resources=resources),), scheduler_name=SCHEDULER
        ),
        status=PodStatus(phase="Pending"),
    )
