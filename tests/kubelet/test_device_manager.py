"""The Device Manager: which devices a container gets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.kubelet.build import admit, container, pod, reject, start
from tests.kubelet.conftest import quad_numa

from numakube.api.pod import (
    ContainerExtendedResourceRequest,
    PodExtendedResourceClaimStatus,
    PodStatus,
)
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.predicates import check_fit, fit_rejection
from numakube.kubelet.topology_hints import Hint
from numakube.kubelet.wide_hints import WideHints
from numakube.values.numamask import mask_of

GPU = "vendor.example/gpu"


def gpu_node(
    *numa: tuple[int, ...], policy: str = "best-effort", kubernetes: str = "1.35"
) -> KubeletNode:
    """A node of four NUMA nodes with a GPU on each of the given sets of nodes."""
    devices = tuple(Device(f"gpu{index}", nodes) for index, nodes in enumerate(numa))
    settings = KubeletSettings(topology_policy=policy)
    return start(quad_numa(), settings, devices={GPU: devices}, kubernetes=kubernetes)


def hints(node: KubeletNode, count: int) -> list[tuple[int | None, bool]] | None:
    """Return the hints for so many GPUs."""
    demand = node.demand_of(pod(container("c", gpu=str(count))))
    answer = node.devices.container_hints(demand, demand.containers[0])
    assert answer is not None
    found = answer[GPU]
    assert not isinstance(found, WideHints)
    return None if found is None else [(hint.mask, hint.preferred) for hint in found]


def test_hints_name_only_nodes_with_devices_since_1_36() -> None:
    """Before, every mask that touches enough devices was offered."""
    both = mask_of((0, 1))
    new = gpu_node((0,), (1,), kubernetes="1.36")
    assert hints(new, 1) == [(1, True), (2, True), (both, False)]
    assert hints(new, 2) == [(both, True)]
    old = hints(gpu_node((0,), (1,)), 1)
    assert old is not None
    assert (mask_of((0, 3)), False) in old
    assert len(old) == 12


def test_devices_without_topology_never_count_and_alone_do_not_care() -> None:
    """A plugin that reports no NUMA node is satisfied anywhere."""
    assert hints(gpu_node((), ()), 1) is None
    assert hints(gpu_node((), (1,), kubernetes="1.36"), 1) == [(2, True)]
    assert hints(gpu_node((), (1,)), 2) == []


def test_busy_devices_make_a_wider_set_not_preferred() -> None:
    """How small a placement could be is judged on all devices."""
    node = gpu_node((0,), (0,), (1,), (1,), kubernetes="1.36")
    admit(node, pod(container("c", gpu="1"), uid="one"))
    demand = node.demand_of(pod(container("c", gpu="1"), uid="two"))
    node.devices.allocate(demand, demand.containers[0], Hint(2, True))
    assert hints(node, 2) == [(mask_of((0, 1)), False)]


@pytest.mark.parametrize(
    ("hint", "count", "taken"),
    [
        (Hint(1, True), 2, ("gpu0", "gpu1")),
        (Hint(2, True), 3, ("gpu0", "gpu2", "gpu3")),
        (Hint(4, True), 1, ("gpu3",)),
        (Hint(None, True), 2, ("gpu0", "gpu1")),
    ],
)
def test_aligned_devices_are_taken_first(hint: Hint, count: int, taken: tuple[str, ...]) -> None:
    """A device on several nodes is aligned with each of them; others fill up."""
    node = gpu_node((0,), (0,), (1,), (1, 2), ())
    demand = node.demand_of(pod(container("c", gpu=str(count))))
    assert node.devices.allocate(demand, demand.containers[0], hint) is None
    assert node.devices.held_by("uid", "c")[GPU] == taken


def test_the_plugins_preference_is_asked_for_and_topped_up() -> None:
    """Ids that the plugin made up or that are not aligned are ignored."""
    node = gpu_node((0,), (0,), (0,), (1,))
    asked = []

    def prefer(available: object, must_include: object, size: int) -> list[str]:
        asked.append((available, must_include, size))
        return ["gpu2", "bogus", "gpu3"]

    devices = [Device(f"gpu{index}", (index // 3,)) for index in range(4)]
    node.register_devices(GPU, devices, preferred=prefer)
    demand = node.demand_of(pod(container("c", gpu="2")))
    node.devices.allocate(demand, demand.containers[0], Hint(1, True))
    assert node.devices.held_by("uid", "c")[GPU] == ("gpu0", "gpu2")
    assert asked == [(["gpu0", "gpu1", "gpu2"], [], 2)]


def test_init_containers_hand_their_devices_on() -> None:
    """The second init container includes the first one's device; apps share them out."""
    node = gpu_node(*[(0,)] * 4)
    init = (container("i0", gpu="1"), container("i1", gpu="2"))
    outcome = admit(node, pod(container("a0", gpu="1"), container("a1", gpu="1"), init=init))
    held = {name: set(one.devices[GPU]) for name, one in outcome.containers.items()}
    assert held["i1"] > held["i0"]
    assert held["a0"] | held["a1"] == held["i1"]
    assert not held["a0"] & held["a1"]


def test_too_few_devices_are_refused_with_both_numbers() -> None:
    """Under best-effort the merge passes, so that the device manager has the last word."""
    refused = reject(gpu_node((0,)), pod(container("c", gpu="2")))
    assert (refused.reason, refused.message) == (
        "UnexpectedAdmissionError",
        f"Allocate failed due to requested number of devices unavailable for {GPU}. "
        "Requested: 2, Available: 1, which is unexpected",
    )


def test_unhealthy_devices_are_not_given_out_and_running_pods_lose_their_claim() -> None:
    """A pod that held a device which became unhealthy is refused when it comes back."""
    node = gpu_node((0,), (1,))
    admit(node, pod(container("c", gpu="1")))
    node.register_devices(GPU, [Device("gpu0", (0,), healthy=False), Device("gpu1", (1,))])
    assert "no longer healthy" in reject(node, pod(container("c", gpu="1"))).message
    node.register_devices(GPU, [Device("gpu0", (0,), healthy=False)])
    refused = reject(node, pod(container("c", gpu="1"), uid="other"))
    assert "no healthy devices present" in refused.message


def test_a_changed_request_of_a_running_pod_is_refused() -> None:
    """The kubelet cannot give more to a container that is there already."""
    node = gpu_node((0,), (1,), policy="none")
    admit(node, pod(container("c", gpu="1")))
    refused = reject(node, pod(container("c", gpu="2")))
    assert f'changed request for resource "{GPU}" from 1 to 2' in refused.message


def test_a_resource_that_a_claim_serves_is_left_to_the_claim() -> None:
    """The plugin's devices are not touched, and its absence does not matter."""
    node = gpu_node((0,), policy="none")
    node.register_devices(GPU, [])
    one = pod(container("c", gpu="1"))
    reject(node, one)
    mapping = ContainerExtendedResourceRequest("c", GPU, "container-0-request-0")
    status = PodStatus(
        extended_resource_claim_status=PodExtendedResourceClaimStatus((mapping,), "claim")
    )
    served = replace(one, status=status)
    assert not admit(node, served).containers["c"].devices
    assert check_fit(served, [], {"pods": 10, GPU: 0}) is None
    assert check_fit(one, [], {"pods": 10, GPU: 0}) is not None


def test_what_a_pod_does_not_want_may_be_overdrawn() -> None:
    """Its other requests are looked at all the same."""
    used = {"cpu": 9000, GPU: 3}
    allocatable = {"pods": 10, "cpu": 8000, "memory": 8, GPU: 2}
    assert fit_rejection({"cpu": 0, "memory": 8, GPU: 0}, used, 1, allocatable) is None
    refused = fit_rejection({"cpu": 0, "memory": 9}, used, 1, allocatable)
    assert refused is not None
    assert refused.reason == "OutOfmemory"
    for running, reason in ((9, ""), (10, "OutOfpods")):
        full = fit_rejection({}, used, running, allocatable)
        assert (full.reason if full else "") == reason


def test_unknown_resources_are_none_of_its_business() -> None:
    """A limit that no plugin registered is ignored here; the resource fit refuses it."""
    outcome = admit(gpu_node((0,)), pod(container("c", **{"vendor.example/fpga": "1"})))
    assert outcome.containers["c"].devices == {}


def test_devices_stay_with_their_pods_when_the_plugin_lists_them_again() -> None:
    """Every ListAndWatch message replaces the list, and nobody's devices."""
    node = gpu_node((0,), (1,))
    first = admit(node, pod(container("c", gpu="1"), uid="first"))
    node.register_devices(GPU, (Device("gpu0", (0,)), Device("gpu1", (1,))))
    second = admit(node, pod(container("c", gpu="1"), uid="second"))
    assert first.containers["c"].devices != second.containers["c"].devices
    assert node.devices.available(GPU) == set()


def test_a_plugin_that_lists_its_devices_again_keeps_its_preference() -> None:
    """ListAndWatch says nothing of it."""
    node = gpu_node((0,))

    def prefer(available: object, must_include: object, size: int) -> list[str]:
        del available, must_include, size
        return []

    node.register_devices(GPU, [Device("gpu0", (0,))], preferred=prefer)
    node.register_devices(GPU, [Device("gpu0", (0,)), Device("gpu1", (0,))])
    assert node.devices.preferred(GPU) is prefer


def test_devices_held_are_counted_until_their_plugin_is_forgotten() -> None:
    """Of a resource that nobody knows, none are held."""
    node = gpu_node((0,), (0,), (1,))
    admit(node, pod(container("c", gpu="2")))
    assert node.devices.allocated_count(GPU) == 2
    node.devices.unregister(GPU)
    assert node.devices.allocated_count(GPU) == 0
    assert list(node.devices.resources()) == []
    node.devices.unregister(GPU)


def test_a_container_wants_its_own_devices_and_a_pod_those_of_all() -> None:
    """Added up."""
    node = gpu_node((0,), (0,), (1,))
    demand = node.demand_of(pod(container("a", gpu="1"), container("b", gpu="2")))
    wanted = [node.devices.wanted(demand, one) for one in (*demand.containers, None)]
    assert wanted == [{GPU: 1}, {GPU: 2}, {GPU: 3}]


def test_a_pod_that_holds_more_than_it_asks_for_fits_nowhere() -> None:
    """Its request has changed."""
    node = gpu_node((0,), (0,), kubernetes="1.36")
    admit(node, pod(container("c", gpu="2")))
    assert hints(node, 2) == [(1, True)]
    assert hints(node, 1) == []


@pytest.mark.parametrize(
    ("answer", "count", "taken", "questions"),
    [
        (["gpu1"], 3, ("gpu0", "gpu1", "gpu2"), 1),
        (["gpu3", "gpu1"], 2, ("gpu1", "gpu3"), 1),
        # All that are near are needed: there is nothing to ask.
        ([], 4, ("gpu0", "gpu1", "gpu2", "gpu3"), 0),
        # Beyond them come those of other NUMA nodes, then those of none.
        ([], 5, ("gpu0", "gpu1", "gpu2", "gpu3", "gpu5"), 1),
        (["gpu4"], 5, ("gpu0", "gpu1", "gpu2", "gpu3", "gpu4"), 1),
        ([], 6, ("gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5"), 1),
    ],
)
def test_a_preference_is_topped_up_with_each_device_once(
    answer: list[str], count: int, taken: tuple[str, ...], questions: int
) -> None:
    """In the order of the kubelet: near the hint, elsewhere, nowhere."""
    node = gpu_node((0,))
    asked = []

    def prefer(available: object, must_include: object, size: int) -> list[str]:
        asked.append((available, must_include, size))
        return answer

    places: list[tuple[int, ...]] = [(0,), (0,), (0,), (0,), (), (1,)]
    devices = [Device(f"gpu{number}", nodes) for number, nodes in enumerate(places)]
    node.register_devices(GPU, devices, preferred=prefer)
    demand = node.demand_of(pod(container("c", gpu=str(count))))
    assert node.devices.allocate(demand, demand.containers[0], Hint(1, True)) is None
    assert node.devices.held_by("uid", "c")[GPU] == taken
    assert len(asked) == questions


@pytest.mark.parametrize("told", [True, False])
def test_while_a_kubelet_starts_running_containers_keep_devices_that_are_away(
    *, told: bool
) -> None:
    """Without word from the runtime all are taken to be running."""
    node = gpu_node()
    for uid in ("runs", "ended"):
        node.devices.restore(uid, "c", GPU, {f"{uid}-gpu": (0,)})
    node.await_pods({("runs", "c")} if told else None)
    kept = admit(node, pod(container("c", gpu="1"), uid="runs"))
    assert kept.containers["c"].devices == {GPU: ("runs-gpu",)}
    outcome = node.admit(pod(container("c", gpu="1"), uid="ended"))
    assert isinstance(outcome, Rejected) == told
