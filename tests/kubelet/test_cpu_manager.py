"""The CPU Manager: who gets exclusive CPUs, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.kubelet.build import (
    admit,
    container,
    cpus,
    guaranteed,
    pod,
    reject,
    start,
    static_settings,
)
from tests.kubelet.conftest import (
    dual_socket_ht,
    quad_numa,
    quad_numa_interleaved,
    single_socket_ht,
)

from numakube.api.codec import ResourceList
from numakube.api.pod import Container, Pod
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.cpu_manager import CpuManager
from numakube.kubelet.cpu_selection import DistributedOrder, take_distributed
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.state_files import restore, save
from numakube.kubelet.topology_hints import Hint, ProviderHints
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import mask_of


def test_only_whole_cpus_of_guaranteed_pods_are_exclusive() -> None:
    """A fraction, or a pod that is not guaranteed, runs in the shared pool."""
    node = start(single_socket_ht())
    outcome = admit(node, pod(guaranteed("whole", "2"), guaranteed("part", "1500m")))
    assert cpus(outcome) == {"whole": "1,5", "part": ""}
    burstable = pod(guaranteed("whole", "2"), container("free"), uid="burstable")
    assert cpus(admit(node, burstable)) == {"whole": "", "free": ""}
    assert str(node.shared_cpus) == "0,2-4,6-7"


@pytest.mark.parametrize(
    ("count", "reserved"), [(1, "0"), (2, "0,4"), (3, "0-1,4"), (4, "0-1,4-5")]
)
def test_reserved_cpus_are_chosen_by_topology(count: int, reserved: str) -> None:
    """Without a list, as many CPUs as the reservation rounds up to are taken core by core."""
    settings = static_settings(reserved_cpus=None, reserved_cpu_milli=count * 1000 - 500)
    node = start(single_socket_ht(), settings)
    assert node.cpus is not None
    assert str(CpuSet(node.cpus.reserved)) == reserved
    assert str(node.shared_cpus) == "0-7"


def test_strictly_reserved_cpus_are_not_in_the_shared_pool() -> None:
    """Nothing of a pod runs on them."""
    settings = static_settings(cpu_options={"strict-cpu-reservation": "true"})
    assert str(start(single_socket_ht(), settings).shared_cpus) == "1-7"


def nothing_reserved(one: Pod) -> dict[str, str]:
    """Admit on a machine of four cores of which the last is reserved."""
    return cpus(
        admit(start(single_socket_ht(), static_settings(reserved_cpus=CpuSet.of([3, 7]))), one)
    )


def test_apps_use_the_cpus_of_finished_init_containers_again() -> None:
    """Plain init containers are done when the apps start; sidecars are not."""
    reused = nothing_reserved(pod(guaranteed("app", "2"), init=(guaranteed("init", "4"),)))
    assert reused == {"init": "0-1,4-5", "app": "0,4"}
    kept = nothing_reserved(
        pod(guaranteed("app", "2"), init=(guaranteed("side", "4", restart="Always"),))
    )
    assert kept == {"side": "0-1,4-5", "app": "2,6"}


def test_a_node_is_preferred_if_the_bare_machine_could_serve_the_request_there() -> None:
    """Busy and reserved CPUs count for how small a placement could be."""
    node = start(dual_socket_ht(), static_settings("restricted"))
    assert node.cpus is not None
    demand = node.demand_of(pod(guaranteed("c", "5")))
    hints = node.cpus.container_hints(demand, demand.containers[0])
    both = mask_of((0, 1))
    assert hints == {"cpu": [Hint(1, True), Hint(2, True), Hint(both, False)]}
    demand = node.demand_of(pod(guaranteed("c", "6")))
    assert node.cpus.container_hints(demand, demand.containers[0]) == {
        "cpu": [Hint(2, True), Hint(both, False)]
    }
    demand = node.demand_of(pod(guaranteed("c", "12")))
    assert node.cpus.container_hints(demand, demand.containers[0]) == {"cpu": []}


def test_align_by_socket_prefers_all_masks_inside_the_fewest_sockets() -> None:
    """NUMA nodes of one socket are as good as one NUMA node."""
    settings = static_settings("restricted", cpu_options={"align-by-socket": "true"})
    node = start(quad_numa(), settings)
    assert node.cpus is not None
    demand = node.demand_of(pod(guaranteed("c", "2")))
    hints = node.cpus.container_hints(demand, demand.containers[0])
    assert hints is not None
    listed = hints["cpu"]
    assert isinstance(listed, list)
    preferred = [hint.mask for hint in listed if hint.preferred]
    assert preferred == [1, 2, 4, 8, mask_of((0, 1)), mask_of((2, 3))]


def test_full_cores_only_refuses_what_would_share_a_core() -> None:
    """Both causes have the kubelet's own words."""
    settings = static_settings(
        cpu_options={"full-pcpus-only": "true"}, reserved_cpus=CpuSet.of([1, 6])
    )
    node = start(dual_socket_ht(), settings)
    odd = reject(node, pod(guaranteed("c", "3")))
    assert (odd.reason, odd.message) == (
        "SMTAlignmentError",
        "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    )
    many = reject(node, pod(guaranteed("c", "10")))
    assert many.message == (
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 8, "
        "requested CPUs = 10, CPUs per core = 2"
    )
    assert cpus(admit(node, pod(guaranteed("c", "8"))))["c"] == "2-5,8-11"


def test_kubelet_1_28_does_not_say_how_many_cpus_were_missing() -> None:
    """Everything else is as in 1.31."""
    settings = static_settings(reserved_cpus=CpuSet.parse("0"))
    pods = {
        version: reject(
            start(single_socket_ht(), settings, kubernetes=version), pod(guaranteed("c", "8"))
        )
        for version in ("1.28", "1.29", "1.31")
    }
    short = "Allocate failed due to not enough cpus available to satisfy request"
    assert pods["1.28"].message == f"{short}, which is unexpected"
    assert pods["1.29"] == pods["1.31"]
    assert pods["1.29"].message == f"{short}: requested=8, available=7, which is unexpected"


def test_kubelet_1_31_does_not_tell_the_causes_apart_on_a_full_machine() -> None:
    """Its error names physical CPUs only if some are left."""
    settings = static_settings(
        cpu_options={"full-pcpus-only": "true"}, reserved_cpus=CpuSet.parse("0-3")
    )
    old = reject(start(single_socket_ht(), settings, kubernetes="1.31"), pod(guaranteed("c", "2")))
    assert "not multiple" in old.message
    new = reject(start(single_socket_ht(), settings, kubernetes="1.32"), pod(guaranteed("c", "2")))
    assert "available physical CPUs = 0" in new.message


BUBBLES = {
    "one exclusive": ("2", [], ["1"], ["2"]),
    "one shared": ("1", [], [""], ["6"]),
    "two and a shared one": ("3", [], ["1", "1", ""], ["6", "2", "8"]),
    "init containers reuse": ("2", ["1", "1"], ["1", "1"], ["2", "2", "2", "8"]),
    "sidecar and shared": ("3", ["", "1*", ""], ["1", ""], ["2,6,8", "6", "2,8", "2", "8"]),
    "shared sidecar": ("3", ["", "*", ""], ["1", ""], ["2,6,8", "2,8", "2,6,8", "6", "2,8"]),
}


@pytest.mark.parametrize("case", BUBBLES)
def test_a_pod_with_pod_level_resources_is_one_bubble_of_cpus(case: str) -> None:
    """Containers with CPUs of their own take them out of the bubble, the others share the rest."""
    budget, init, apps, expected = BUBBLES[case]
    node = start(dual_socket_ht(), bubble_settings(), kubernetes="1.37")
    outcome = admit(node, bubble_pod(budget, init, apps))
    assert list(cpus(outcome).values()) == expected
    assert len(node.shared_cpus) == 12 - int(budget)
    node.remove("uid")
    node.collect_garbage()
    assert len(node.shared_cpus) == 12


def test_a_bubble_without_room_for_its_shared_containers_is_refused() -> None:
    """The message says which containers have nothing left."""
    node = start(dual_socket_ht(), bubble_settings(), kubernetes="1.37")
    refused = reject(node, bubble_pod("2", [], ["1", "1", ""]))
    # Under a policy that aligns, the impossible bubble already spoils the hints.
    assert refused.message == (
        "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
    )
    loose = start(dual_socket_ht(), bubble_settings("best-effort"), kubernetes="1.37")
    refused = reject(loose, bubble_pod("2", [], ["1", "1", ""]))
    assert refused.reason == "EmptyPodSharedPoolError"
    assert refused.message == (
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus "
        "for shared containers"
    )


def test_without_the_gate_pod_level_resources_are_left_alone() -> None:
    """The CPU manager gives such a pod nothing of its own."""
    node = start(dual_socket_ht(), static_settings("restricted", topology_scope="pod"))
    outcome = admit(node, bubble_pod("2", [], ["1"]))
    assert cpus(outcome) == {"a0": ""}


def bubble_settings(policy: str = "restricted") -> KubeletSettings:
    """Settings under which pod-level resources are managed."""
    return static_settings(
        policy, topology_scope="pod", feature_gates={"PodLevelResourceManagers": True}
    )


def bubble_pod(budget: str, init: list[str], apps: list[str]) -> Pod:
    """A pod of containers with so many CPUs each; empty is shared, a star makes a sidecar."""

    def build(name: str, text: str) -> Container:
        restart = {"restart": "Always"} if text.endswith("*") else {}
        cpu = text.rstrip("*")
        return guaranteed(name, cpu, **restart) if cpu else container(name, **restart)

    return pod(
        *(build(f"a{index}", text) for index, text in enumerate(apps)),
        init=tuple(build(f"i{index}", text) for index, text in enumerate(init)),
        level={"cpu": budget, "memory": "2Gi"},
    )


def test_cpus_of_a_bubble_that_cannot_be_parted_are_lost() -> None:
    """The kubelet takes them before it parts them, and gives back only what containers hold."""
    settings = static_settings(
        "restricted", topology_scope="pod", feature_gates={"PodLevelResourceManagers": True}
    )
    node = start(dual_socket_ht(), settings, kubernetes="1.37")
    level: ResourceList = {"cpu": "2", "memory": "1Gi"}
    refused = reject(node, pod(guaranteed("app", "4"), level=level))
    assert "requested=4, available=2" in refused.message
    node.collect_garbage()
    assert len(node.shared_cpus) == 10


@pytest.mark.parametrize("kubernetes", ["1.36", "1.37"])
def test_distribution_looks_at_sockets_since_1_37(kubernetes: str) -> None:
    """Before, align-by-socket has no say in it."""
    options = {"distribute-cpus-across-numa": "true", "align-by-socket": "true"}
    node = start(
        quad_numa_interleaved(), static_settings(cpu_options=options), kubernetes=kubernetes
    )
    assert node.cpus is not None
    free = CpuSet.parse("1-9,12-13,16-17").mask
    across = take_distributed(node.cpus.topology, free, 6, DistributedOrder())
    inside = CpuSet.parse("1,3,5,7,9,13").mask
    assert across != inside
    assert node.cpus.take(free, 6) == (inside if kubernetes == "1.37" else across)


@pytest.mark.parametrize(("kubernetes", "admitted"), [("1.36", False), ("1.37", True)])
def test_a_pod_that_runs_on_odd_cpus_outlives_a_restart_with_whole_cores_since_1_37(
    kubernetes: str, *, admitted: bool
) -> None:
    """Before, its CPUs are not looked for until their number is found to be wrong."""
    machine = dual_socket_ht()
    before = start(machine, static_settings(), kubernetes=kubernetes)
    odd = pod(guaranteed("c", "3"))
    held = admit(before, odd).containers["c"].cpus
    whole = static_settings(cpu_options={"full-pcpus-only": "true"})
    after = start(machine, whole, kubernetes=kubernetes)
    restore(after, save(before))
    after.await_pods({("uid", "c")})
    outcome = after.admit(odd)
    assert isinstance(outcome, Admitted) == admitted
    if isinstance(outcome, Rejected):
        assert outcome.reason == "SMTAlignmentError"
    else:
        assert outcome.containers["c"].cpus == held


def test_a_container_in_a_bubble_that_is_not_guaranteed_by_itself_shares() -> None:
    """Though its pod is guaranteed, and it asks for whole CPUs."""
    level: ResourceList = {"cpu": "3", "memory": "1Gi"}
    alone, without_memory = guaranteed("alone", "1"), container("shares", cpu="1")
    node = start(dual_socket_ht(), bubble_settings(), kubernetes="1.37")
    found = cpus(admit(node, pod(alone, without_memory, level=level)))
    assert (found["alone"], found["shares"]) == ("6", "2,8")


# ------------------------------------------------------------------------------------------------
# A pod that has CPUs already, such as after a restart of the kubelet.


def manager_of(node: KubeletNode) -> CpuManager:
    """Return the node's CPU Manager."""
    assert node.cpus is not None
    return node.cpus


def masks_of(hints: ProviderHints) -> dict[int, bool]:
    """Return the sets of nodes that can serve, and whether they are preferred."""
    assert hints is not None
    found = hints["cpu"]
    assert isinstance(found, Sequence)
    return {hint.mask: hint.preferred for hint in found if hint.mask is not None}


HELD: list[tuple[dict[str, str], dict[str, bool] | None]] = [
    ({}, {"01": True, "02": True, "12": True, "012": False}),
    ({"a": "2-3"}, {"01": True, "12": True, "012": False}),
    ({"b": "4"}, {"02": True, "12": True, "012": False}),
    ({"a": "2-3", "b": "4"}, {"12": True, "012": False}),
    ({"a": "2-3", "b": "1"}, {"01": True, "012": False}),
    ({"a": "2"}, None),
    ({"a": "2-3", "b": "4-5"}, None),
]


@pytest.mark.parametrize(("held", "expected"), HELD)
def test_a_pod_is_served_where_it_has_cpus_already(
    held: dict[str, str], expected: dict[str, bool] | None
) -> None:
    """What it has counts as free for it; if it has too few or too many, nowhere.

    Three nodes of two CPUs, of which CPU 0 is reserved; one container wants two and one wants one.
    """
    node = start(from_shape("3 sockets, 2 cores, 16Gi"), static_settings())
    one = pod(guaranteed("a", "2"), guaranteed("b", "1"))
    manager, demand = manager_of(node), node.demand_of(one)
    for name, cpus_held in held.items():
        mask = CpuSet.parse(cpus_held).mask
        manager.assignments.setdefault("uid", {})[name] = mask
        manager.shared &= ~mask
    told = {
        "".join(str(zone) for zone in range(3) if mask >> zone & 1): preferred
        for mask, preferred in masks_of(manager.pod_hints(demand)).items()
    }
    assert told == (expected or {})
    for container_demand in demand.containers:
        name = container_demand.name
        masks = set(masks_of(manager.container_hints(demand, container_demand)))
        mine = CpuSet.parse(held[name]).bits if name in held else 0
        if mine.bit_count() == container_demand.exclusive_cpus:
            zones = sum({1 << cpu // 2 for cpu in CpuSet(mine)})
            assert min(masks, key=int.bit_count) == zones
            assert all(mask & zones == zones for mask in masks)
        else:
            assert bool(masks) == (not mine)


def test_who_asks_for_nothing_exclusive_has_no_wish() -> None:
    """Nor a pod that the managers leave alone."""
    node = start(from_shape("2 sockets, 2 cores, 16Gi"), static_settings())
    shares = node.demand_of(pod(container("a", cpu="500m", memory="1Gi")))
    assert manager_of(node).pod_hints(shares) is None
    assert manager_of(node).container_hints(shares, shares.containers[0]) is None
    unmanaged = replace(node.demand_of(pod(guaranteed("a", "1"))), managed=False)
    assert manager_of(node).pod_hints(unmanaged) is None
    assert manager_of(node).container_hints(unmanaged, unmanaged.containers[0]) is None
    assert manager_of(node).wanted(unmanaged, None) == {}


@pytest.mark.parametrize(
    ("kept", "left", "free"),
    [
        (("a", "b"), {"a": "1", "b": "2-3"}, 3),
        (("a",), {"a": "1"}, 5),
        (("b",), {"b": "2-3"}, 4),
        ((), {}, 6),
        (("c",), {}, 6),
    ],
)
def test_containers_that_a_pod_has_no_longer_give_their_cpus_back(
    kept: tuple[str, ...], left: dict[str, str], free: int
) -> None:
    """Those that it still has keep theirs."""
    node = start(from_shape("1 sockets, 6 cores, 16Gi"), static_settings())
    manager = manager_of(node)
    manager.assignments["uid"] = {"a": CpuSet.parse("1").mask, "b": CpuSet.parse("2-3").mask}
    manager.shared &= ~CpuSet.parse("1-3").bits
    manager.forget_others("uid", kept)
    held = {name: str(manager.held_by("uid", name)) for name in ("a", "b")}
    assert {name: cpus for name, cpus in held.items() if cpus} == left
    assert manager.shared.bit_count() == free
    assert list(manager.pods()) == (["uid"] if left else [])
