"""How containers share the memory that their pod asks for as a whole."""

from __future__ import annotations

import pytest

from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.memory.pod_level_memory import partition, shared_pool_problem
from numakube.kubelet.pod_demand import ContainerDemand, PodDemand, PodLevelDemand, Role

ROLES = {"i": Role.INIT, "s": Role.SIDECAR, "a": Role.APP}
SHARED_INIT = "pod rejected, pod has shared init containers but no {} available for them"
SHARED = (
    "pod rejected, sum of exclusive container {} requests equals pod budget, leaving no memory for "
    "shared containers"
)


def demand(budget: dict[str, int], *containers: tuple[str, dict[str, int] | None]) -> PodDemand:
    """Return a pod; the first letter of a container's name says what it is."""
    return PodDemand(
        uid="uid",
        guaranteed=True,
        managed=True,
        containers=tuple(
            ContainerDemand(name, ROLES[name[0]], exclusive_cpus=0, memory=memory, limits={})
            for name, memory in containers
        ),
        pod_level=PodLevelDemand(0, budget),
    )


M, H = "memory", "hugepages-1Gi"


@pytest.mark.parametrize(
    ("budget", "containers", "problem", "parts"),
    [
        ({M: 3}, [("a0", {M: 2}), ("a1", {})], None, {"a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("a0", {M: 2}), ("a1", None)], None, {"a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("a0", {M: 3}), ("a1", {})], SHARED.format(M), {"a0": {M: 3}, "a1": {}}),
        ({M: 3}, [("a0", {M: 1}), ("a1", {M: 1}), ("a2", {})], None,
         {"a0": {M: 1}, "a1": {M: 1}, "a2": {M: 1}}),
        ({M: 3}, [("a0", {M: 1}), ("a1", {M: 2}), ("a2", {})], SHARED.format(M),
         {"a0": {M: 1}, "a1": {M: 2}, "a2": {}}),
        ({M: 3}, [("a0", {M: 3})], None, {"a0": {M: 3}}),
        ({M: 3, H: 1}, [("a0", {M: 2}), ("a1", {})], None, {"a0": {M: 2}, "a1": {M: 1, H: 1}}),
        ({M: 3, H: 1}, [("a0", {H: 1}), ("a1", {})], SHARED.format(H),
         {"a0": {H: 1}, "a1": {M: 3}}),
        ({M: 1}, [("a0", {}), ("a1", {})], None, {"a0": {M: 1}, "a1": {M: 1}}),
        ({M: 3}, [("i0", {M: 3}), ("a0", {M: 2}), ("a1", {})], None,
         {"i0": {M: 3}, "a0": {M: 2}, "a1": {M: 1}}),
        ({M: 3}, [("i0", {}), ("s0", {M: 2}), ("i1", {}), ("a0", {M: 1})], None,
         {"i0": {M: 3}, "s0": {M: 2}, "i1": {M: 1}, "a0": {M: 1}}),
        ({M: 3}, [("s0", {M: 3}), ("i0", {}), ("a0", {M: 1})], SHARED_INIT.format(M), None),
        ({M: 3}, [("s0", {M: 3}), ("i0", {M: 1}), ("a0", {M: 1})], None, None),
        ({M: 3}, [("s0", {M: 1, H: 2}), ("a0", {})], None, {"s0": {M: 1, H: 2}, "a0": {M: 2}}),
    ],
)  # fmt: skip
def test_each_container_has_its_own_or_what_is_left(
    budget: dict[str, int],
    containers: list[tuple[str, dict[str, int] | None]],
    problem: str | None,
    parts: dict[str, dict[str, int]] | None,
) -> None:
    """Init containers without memory of their own share what sidecars before them leave."""
    pod = demand(budget, *containers)
    assert shared_pool_problem(pod) == problem
    if parts is not None:
        assert partition(pod, (0, 1)) == {
            name: tuple(MemoryBlock((0, 1), kind, size) for kind, size in sizes.items())
            for name, sizes in parts.items()
        }
