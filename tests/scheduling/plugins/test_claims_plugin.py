"""What the plugin says of claims at each point of a cycle, and what it gives back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import FINALIZER, ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.extended_resources import IN_MEMORY_NAME
from numakube.dra.features import Features
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, SUCCESS, Code
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import (
    CYCLE_CLAIMS,
    CycleClaims,
    NodeAllocation,
)
from numakube.scheduling.plugins.dynamic_resources.claims_plugin import (
    NO_ACTIONS,
    NOT_SERVED,
    classes_exist,
)
from numakube.scheduling.plugins.plugin_arguments import DynamicResourcesArgs
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ReplayedApi, finished

ONE = {"allocationMode": "ExactCount", "count": 1}
NEAR_AND_FAR: tuple[dict[str, Any], ...] = (
    {"name": "near", "deviceClassName": "rare", **ONE},
    {"name": "far", "deviceClassName": "gpu", **ONE},
)
STAMP = "2026-11-01T00:00:00Z"


def claim(
    name: str = "c",
    *devices: str,
    users: tuple[str, ...] = (),
    owner: str = "",
    conditions: tuple[str, ...] = (),
    alternatives: tuple[dict[str, Any], ...] = (),
    finalizers: tuple[str, ...] = (),
) -> ResourceClaim:
    """Return a claim for a GPU, or for one of *alternatives*; the last device has conditions."""
    results: list[dict[str, Any]] = [
        {"request": "r", "driver": "d", "pool": "n", "device": device} for device in devices
    ]
    if results:
        results[-1]["bindingConditions"] = list(conditions)
    allocation = {"devices": {"results": results}, "allocationTimestamp": STAMP}
    wanted: dict[str, Any] = {"exactly": {"deviceClassName": "gpu", **ONE}}
    if alternatives:
        wanted = {"firstAvailable": list(alternatives)}
    owners = (
        [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}]
        if owner
        else []
    )
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    meta |= {"ownerReferences": owners, "finalizers": list(finalizers), "generateName": "x-"}
    status = {
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
        **({"allocation": allocation} if results else {}),
    }
    spec = {"devices": {"requests": [{"name": "r", **wanted}]}}
    return convert(ResourceClaim, {"metadata": meta, "spec": spec, "status": status})


def pod(*claims: str, uid: str = "p") -> PodInfo:
    """Return a pod with those claims."""
    entries = [{"name": one, "resourceClaimName": one} for one in claims]
    meta = {"name": uid, "namespace": "ns", "uid": uid}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": {"resourceClaims": entries}}))


def cluster(*claims: ResourceClaim, **devices: tuple[str, ...]) -> Cluster:
    """Return nodes with *devices*, whose names say of which class they are."""
    made = Cluster()
    for kind in ("gpu", "rare"):
        text = f'device.attributes["d"].kind == "{kind}"'
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": text}}]}
        tree: dict[str, Any] = {"metadata": {"name": kind}, "spec": spec}
        made.objects.device_classes[kind] = convert(DeviceClass, tree)
    for name, each in devices.items():
        made.set_node(convert(Node, {"metadata": {"name": name}}))
        offered = [
            {"name": one, "attributes": {"kind": {"string": one.rstrip("0123456789")}}}
            for one in each
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": offered}
        slice_ = convert(ResourceSlice, {"metadata": {"name": name}, "spec": spec})
        made.objects.resource_slices[name] = slice_
    for one in claims:
        made.objects.resource_claims[one.metadata.key] = one
    return made


def node(of: Cluster, name: str = "n") -> NodeInfo:
    """Return a node."""
    found = of.node(name)
    assert found is not None
    return found


def plugin_of(of: Cluster, **gates: bool) -> tuple[DynamicResources, ReplayedApi]:
    """Return the plugin, and what it writes to."""
    api = ReplayedApi(of.objects)
    args = DynamicResourcesArgs(feature_gates=gates)
    return DynamicResources(args, objects=of.objects, actions=api), api


def cycle(*claims: ResourceClaim, **more: Any) -> tuple[CycleState, CycleClaims]:
    """Return the state of a cycle that knows *claims*."""
    state, known = CycleState(), CycleClaims(ClusterObjects(), [], list(claims), **more)
    state.write(CYCLE_CLAIMS, known)
    return state, known


GONE_OR_CHANGED: list[tuple[ResourceClaim | None, ResourceClaim | None, bool]] = [
    (claim("other", "a"), None, True),
    (claim("other", owner="p"), None, True),
    (claim("other", owner="q"), None, False),
    (None, None, False),
    (claim("other", "a"), claim("other"), True),
    (claim("other", "a"), claim("other", "a"), False),
    (claim("other"), claim("other", "a"), False),
    (None, claim("other"), False),
    (None, claim("c"), True),
    (claim("c"), claim("c"), False),
    (claim("c"), claim("c", users=("q",)), True),
    (claim("c", "a", users=("q",)), claim("c", "a"), True),
]


@pytest.mark.parametrize(("before", "now", "helps"), GONE_OR_CHANGED)
def test_a_claim_wakes_a_pod_if_it_is_the_pods_or_gives_devices_back(
    before: ResourceClaim | None, now: ResourceClaim | None, helps: bool
) -> None:
    """As kube-scheduler's hint says, and a pod whose own left-over claim is gone."""
    plugin, _ = plugin_of(cluster(claim("c")))
    event = ClusterEvent(kind=EventKind.CLAIM_CHANGED, claim_before=before, claim_now=now)
    assert plugin.wakes(pod("c"), event) is helps
    # A pod one of whose claims is missing cannot use devices that others give back.
    missing = helps and now is None
    assert plugin.wakes(pod("c", "missing"), event) is missing


@pytest.mark.parametrize(
    ("kind", "helps"),
    [
        (EventKind.DEVICES_CHANGED, True),
        (EventKind.NODE_ADDED, True),
        (EventKind.POD_ADDED, False),
        (EventKind.POD_DELETED, False),
        (EventKind.TOPOLOGY_CHANGED, False),
    ],
)
def test_other_pods_wake_only_those_whose_devices_were_too_far(
    kind: EventKind, helps: bool
) -> None:
    """None was refused for that here."""
    plugin, _ = plugin_of(cluster(claim("c")))
    assert plugin.wakes(pod("c"), ClusterEvent(kind=kind)) is helps


def test_without_objects_a_pod_with_claims_passes_and_is_woken_by_any_claim() -> None:
    """Another process looks after the claims."""
    plugin = DynamicResources()
    assert plugin.pre_enqueue(pod("c")) is SUCCESS
    assert plugin.serves("x/gpu") is False
    assert plugin.wakes(pod("c"), ClusterEvent(kind=EventKind.CLAIM_CHANGED)) is True


def test_a_pod_waits_outside_the_queue_for_a_claim_that_is_missing() -> None:
    """The claim opens it."""
    plugin, _ = plugin_of(cluster(claim("c")))
    status = plugin.pre_enqueue(pod("c", "d"))
    assert status.reasons == ('could not find ResourceClaim "ns/d"',)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert set(plugin.opened_by(pod("c", "d"))) == {"ns/c", "ns/d"}
    assert plugin.pre_enqueue(pod("c")) is plugin.pre_enqueue(pod()) is SUCCESS


def test_a_server_without_the_api_refuses_claims_in_the_cycle_only() -> None:
    """Pods without claims are not looked at."""
    here = cluster(n=("gpu0",))
    plugin = DynamicResources(objects=here.objects, minor=33)
    assert plugin.pre_enqueue(pod("missing")) is SUCCESS
    assert plugin.serves("deviceclass.resource.kubernetes.io/gpu") is False
    for one, status in ((pod("missing"), NOT_SERVED), (pod(), SKIP)):
        assert plugin.pre_filter(CycleState(), one, here.snapshot()).status is status


@pytest.mark.parametrize(
    ("users", "freed"), [((), True), (("p",), True), (("q",), False), (("p", "q"), False)]
)
def test_a_claim_that_keeps_a_pod_from_every_node_is_freed_unless_others_use_it(
    users: tuple[str, ...], freed: bool
) -> None:
    """The pod itself may have reserved it."""
    mine, other = claim("c", "a", users=users), claim("other", "b")
    here = cluster(mine, other, n=("gpu0",))
    plugin, api = plugin_of(here)
    state, known = cycle(other, mine, unavailable={1})
    nomination, status = plugin.post_filter(state, pod("other", "c"), here.snapshot(), {})
    assert nomination is None
    assert status.message == ("deallocation of ResourceClaim completed" if freed else "")
    assert (api.claims["ns/c"].status.allocation is None) is freed
    assert api.claims["ns/other"] is other
    assert known.claims == [other, mine]
    silent = DynamicResources(objects=here.objects)
    assert silent.post_filter(state, pod("c"), here.snapshot(), {})[1].message == ""


@pytest.mark.parametrize(("name", "deleted"), [("x-1", True), (IN_MEMORY_NAME, False)])
def test_a_left_over_claim_for_extended_resources_is_deleted_when_no_node_fits(
    name: str, deleted: bool
) -> None:
    """One that is only in memory has nothing to delete."""
    left = claim(name, "a", finalizers=("other", FINALIZER))
    here = cluster(left)
    plugin, api = plugin_of(here)
    state, _ = cycle(left, extended=0, unavailable={0})
    status = plugin.post_filter(state, pod(), here.snapshot(), {})[1]
    assert status.message == ("deletion of ResourceClaim completed" if deleted else "")
    assert (left.metadata.key in api.claims) is not deleted
    assert plugin.post_filter(CycleState(), pod(), here.snapshot(), {})[1].message == ""


def filtered(here: Cluster, one: PodInfo, *nodes: str, **gates: bool) -> tuple[Any, ...]:
    """Return plugin, API and state after the filter has let *nodes* pass."""
    plugin, api = plugin_of(here, **gates)
    state = CycleState()
    assert plugin.pre_filter(state, one, here.snapshot()).status.ok
    for name in nodes:
        assert plugin.filter(state, one, node(here, name)).ok
    return plugin, api, state


def held(api: ReplayedApi, name: str) -> list[str]:
    """Return the devices of a claim."""
    allocation = api.claims[f"ns/{name}"].status.allocation
    return [] if allocation is None else [device.device for device in allocation.devices.results]


def test_claims_are_in_flight_from_the_reservation_to_its_end() -> None:
    """Nobody else may allocate them, or their devices; a pod that shares one must wait."""
    here = cluster(claim("c"), claim("d"), claim("e"), n=("gpu0", "gpu1"))
    one = pod("c", "d")
    plugin, api, state = filtered(here, one, "n")
    assert plugin.reserve(state, one, node(here)).ok
    shared, late = CycleState(), CycleState()
    status = plugin.pre_filter(shared, pod("d", uid="q"), here.snapshot()).status
    assert status.message == "resource claim ns/d is in the process of being allocated"
    assert plugin.pre_filter(late, pod("e", uid="r"), here.snapshot()).status.ok
    assert plugin.filter(late, pod("e", uid="r"), node(here)).message == (
        "cannot allocate all claims"
    )
    plugin.unreserve(state, one, "n")
    again = CycleState()
    assert plugin.pre_filter(again, pod("d", uid="q"), here.snapshot()).status.ok
    assert plugin.filter(again, pod("d", uid="q"), node(here)).ok
    assert [held(api, name) for name in "cde"] == [[], [], []]


def test_what_is_bound_is_written_and_in_flight_no_more() -> None:
    """Then another pod may share the claim."""
    here = cluster(claim("c"), claim("d", "gpu7"), n=("gpu0", "gpu1"))
    one = pod("c", "d")
    plugin, api, state = filtered(here, one, "n")
    assert plugin.reserve(state, one, node(here)).ok
    assert finished(plugin.pre_bind(state, one, "n")) is SUCCESS
    assert (held(api, "c"), held(api, "d")) == (["gpu0"], ["gpu7"])
    other = CycleState()
    assert plugin.pre_filter(other, pod("c", uid="q"), here.snapshot()).status.ok
    assert plugin.filter(other, pod("c", uid="q"), node(here)).ok
    assert finished(DynamicResources().pre_bind(state, one, "n")) is NO_ACTIONS
    assert finished(plugin.pre_bind(CycleState(), one, "n")) is SUCCESS


def test_a_node_that_was_not_searched_or_not_for_all_claims_cannot_be_reserved() -> None:
    """An internal error is told rather than devices given that nobody looked for."""
    here = cluster(claim("c"), claim("d"), claim("e", "gpu7"), n=("gpu0",), m=("gpu0", "gpu1"))
    one = pod("c", "d")
    plugin, _, state = filtered(here, one, "m")
    status = plugin.reserve(state, one, node(here)).status
    assert status.message == "claim allocation not found for node"
    known = state.read(CYCLE_CLAIMS)
    assert known is not None
    found = known.nodes["m"]
    known.nodes["m"] = NodeAllocation(found.allocations[:1])
    assert plugin.reserve(state, one, node(here, "m")).status.message == (
        "internal error, have 1 allocations, 2 claims to allocate, want 2 claims"
    )
    # Nothing to allocate, nothing to reserve.
    plugin, _, state = filtered(here, pod("e"), "n")
    assert plugin.reserve(state, pod("e"), node(here)).ok
    assert plugin.reserve(CycleState(), one, node(here)).ok


@pytest.mark.parametrize(
    ("users", "allocated", "left"),
    [
        (("p", "q"), True, ["q"]),
        (("q",), True, ["q"]),
        (("p",), False, ["p"]),
    ],
)
def test_who_gives_up_gives_back_what_is_reserved_for_it_alone(
    users: tuple[str, ...], allocated: bool, left: list[str]
) -> None:
    """Of claims that have devices."""
    mine = claim("c", *(["a"] if allocated else []), users=users)
    here = cluster(mine)
    plugin, api = plugin_of(here)
    state, _ = cycle(mine)
    plugin.unreserve(state, pod("c"), "n")
    plugin.unreserve(CycleState(), pod("c"), "n")
    assert [consumer.uid for consumer in api.claims["ns/c"].status.reserved_for] == left


@pytest.mark.parametrize("name", ["x-1", IN_MEMORY_NAME])
def test_who_gives_up_deletes_the_claim_that_was_made_for_it(name: str) -> None:
    """And takes from the pod's status what its claims stand for."""
    made = claim(name, "a", users=("p",), finalizers=(FINALIZER,))
    here = cluster(made)
    plugin, api = plugin_of(here)
    resources: Any = ("cpu",)
    state, _ = cycle(made, extended=0, nodes={"n": NodeAllocation(resources=resources)})
    api.pod_status = {"untouched": True}
    plugin.unreserve(state, pod(), "n")
    assert (made.metadata.key in api.claims) is (name == IN_MEMORY_NAME)
    written: list[str] = []

    class Noting(ReplayedApi):
        async def set_pod_status(self, pod: Pod, status: object) -> None:
            written.append(pod.metadata.name)

    for node_name, nodes in (("n", ["p"]), ("m", ["p"])):
        again = DynamicResources(objects=here.objects, actions=Noting(here.objects))
        known = cycle(extended=-1, nodes={"n": NodeAllocation(resources=resources)})[0]
        again.unreserve(known, pod(), node_name)
        assert written == nodes


@pytest.mark.parametrize(
    ("claims", "reserved", "waits"),
    [
        ((), {}, False),
        ((claim("c"),), {}, False),
        ((claim("c", "a", "b"),), {}, False),
        ((claim("c", "a"), claim("d", "a", "b", conditions=("Ready",))), {}, True),
        ((claim("c"),), {0: claim("c", "a", "b")}, False),
        ((claim("c"),), {0: claim("c", "a", "b", conditions=("Ready",))}, True),
    ],
)
def test_a_binding_waits_for_others_if_a_device_has_conditions(
    claims: tuple[ResourceClaim, ...], reserved: dict[int, ResourceClaim], waits: bool
) -> None:
    """Those that are allocated, and those about to be."""
    plugin, _ = plugin_of(cluster())
    flying = {index: one.status.allocation for index, one in reserved.items()}
    state, _ = cycle(*claims, reserved=flying)
    assert plugin.waits_for_others(state, pod(), "n") is waits
    assert plugin.waits_for_others(CycleState(), pod(), "n") is False
    off, _ = plugin_of(cluster(), DRADeviceBindingConditions=False)
    assert off.waits_for_others(state, pod(), "n") is False


@pytest.mark.parametrize(
    ("devices", "mine", "theirs", "left"),
    [
        (("gpu0",), ("c",), ("d",), False),
        (("gpu0", "gpu1"), ("c",), ("d",), True),
        (("gpu0", "gpu1"), ("c",), ("d", "e"), False),
        (("gpu0", "gpu1"), ("c", "e"), ("d",), False),
        (("gpu0",), ("c",), ("d", "e"), True),
        (("gpu0",), ("c",), ("held",), True),
        (("gpu0",), ("c",), ("missing",), True),
        (("gpu0",), ("c",), (), True),
        (("gpu0",), ("held",), ("d",), True),
    ],
)
def test_a_pod_for_which_room_is_kept_has_its_devices_first(
    devices: tuple[str, ...], mine: tuple[str, ...], theirs: tuple[str, ...], *, left: bool
) -> None:
    """On the node where that is; one that waits for devices itself takes none."""
    claims = [claim(name) for name in "cde"]
    here = cluster(*claims, claim("held", "gpu7"), n=devices, m=("gpu0", "gpu1"))
    one, first = pod(*mine), pod(*theirs, uid="q")
    plugin, _, state = filtered(here, one, "n" if len(mine) <= len(devices) else "m")
    trial = state.clone()
    plugin.add_pod(trial, one, first, node(here))
    assert plugin.filter(trial, one, node(here)).ok is left
    assert plugin.filter(trial, one, node(here, "m")).ok
    assert plugin.filter(state, one, node(here)).ok
    plugin.add_pod(CycleState(), one, first, node(here))


def test_those_for_whom_room_is_kept_have_different_devices() -> None:
    """Each counts with those before it."""
    here = cluster(*[claim(name) for name in "cde"], n=("gpu0", "gpu1", "gpu2"))
    plugin, _, state = filtered(here, pod("c"), "n")
    for name, left in (("d", True), ("e", True)):
        plugin.add_pod(state, pod("c"), pod(name, uid=name), node(here))
        assert plugin.filter(state, pod("c"), node(here)).ok is left
    here.objects.resource_claims["ns/f"] = claim("f")
    plugin.add_pod(state, pod("c"), pod("f", uid="f"), node(here))
    assert not plugin.filter(state, pod("c"), node(here)).ok


def test_nodes_are_rated_by_the_alternative_that_they_serve() -> None:
    """The first of two alternatives is worth 8, the second 7; the best is brought to 100."""
    wish = claim("c", alternatives=NEAR_AND_FAR)
    here = cluster(wish, claim("d"), a=("rare0", "gpu0"), b=("gpu0", "gpu1"))
    one, rows = pod("c", "d"), np.array([1, 0])
    plugin, _, state = filtered(here, one, "a", "b")
    snapshot = here.snapshot()
    assert [plugin.score(state, one, node(here, name)) for name in "ab"] == [8, 7]
    rated = plugin.score_all(state, one, snapshot, rows)
    assert rated.tolist() == [7, 8]
    assert plugin.normalize(state, one, rated).tolist() == [87, 100]
    assert plugin.normalize(state, one, np.array([0, 0])).tolist() == [0, 0]
    assert plugin.normalize(state, one, np.array([1, 0, 2])).tolist() == [50, 0, 100]
    assert plugin.normalize(state, one, np.array([], dtype=np.int64)).tolist() == []
    # Nothing is known of a cycle that has not begun, or the claims have no alternatives.
    assert plugin.score(CycleState(), one, node(here, "a")) == 0
    assert plugin.score_all(CycleState(), one, snapshot, rows).tolist() == [0, 0]
    plain, _, state = filtered(here, pod("d"), "a", "b")
    assert plain.score_all(state, pod("d"), snapshot, rows).tolist() == [0, 0]


# ------------------------------------------------------------------------------------------------
# Claims whose requests cannot be read, or whose classes are missing, are refused by name.

GPU = {"deviceClassName": "gpu"}
FIRST = {"firstAvailable": [{"name": "one", **GPU}, {"name": "two", "deviceClassName": "nic"}]}
OFF = Features(prioritized_list=False)


@pytest.mark.parametrize(
    ("request_", "features", "message"),
    [
        ({"exactly": GPU}, OFF, ""),
        (FIRST, Features(), "request r/two: device class nic does not exist"),
        (
            FIRST,
            OFF,
            "resource claim default/c, request r: has subrequests,"
            " but the DRAPrioritizedList feature is disabled",
        ),
        ({}, Features(), "resource claim default/c, request r: unknown request type"),
        ({"exactly": {}}, Features(), "request r: unsupported request type"),
    ],
)
def test_a_request_is_refused_for_its_form_or_its_class(
    request_: dict[str, Any], features: Features, message: str
) -> None:
    """In the words of kube-scheduler."""
    requests = [{"name": "r", **request_}]
    tree = {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
    }
    assert classes_exist(convert(ResourceClaim, tree), {"gpu"}, features).message == message
