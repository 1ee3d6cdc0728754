"""Where volumes can be reached and made, and how they are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.scheduling.plugins.volume_clusters import (
    BOUND,
    FITS,
    ZONE,
    claim,
    cluster,
    pod,
    verdicts,
    volume,
)

from numakube.api.codec import convert
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.api.storage_objects import (
    SELECTED_NODE,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from numakube.errors import NumakubeError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code, Status, failure
from numakube.scheduling.plugins.volumes.volume_binding import VolumeBinding
from numakube.scheduling.plugins.volumes.volume_search import best_volume
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

UNREACHED = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "node(s) didn't match PersistentVolume's node affinity",
)
NOTHING = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "node(s) didn't find available persistent volumes to bind",
)


def test_a_pod_goes_where_its_volume_is() -> None:
    """A bound volume is reached from some nodes only."""
    made = cluster()
    volume(made.objects, "v", zone="b")
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    assert verdicts(VolumeBinding(), made, pod("data")) == {"a": UNREACHED, "b": FITS}


def test_a_pod_whose_bound_volume_is_gone_goes_nowhere() -> None:
    """The reason is that of kube-scheduler."""
    made = cluster("a")
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    text = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    expected = {"a": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)}
    assert verdicts(VolumeBinding(), made, pod("data")) == expected


def test_a_claim_that_does_not_wait_for_pods_is_waited_for() -> None:
    """Its volume may come up anywhere."""
    made = cluster()
    claim(made.objects, "data", storageClassName="now")
    status = verdicts(VolumeBinding(), made, pod("data"))
    assert isinstance(status, Status)
    assert status.reasons == ("pod has unbound immediate PersistentVolumeClaims",)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            'persistentvolumeclaim "x" is being deleted',
        ),
        (None, 'persistentvolumeclaim "x" not found'),
    ],
)
def test_a_claim_that_cannot_be_used_is_named(fields: dict[str, str] | None, reason: str) -> None:
    """Nothing on any node helps."""
    made = cluster()
    if fields is not None:
        tree = {"metadata": {"name": "x", "namespace": "default", **fields}}
        made.objects.claims["default/x"] = convert(PersistentVolumeClaim, tree)
    status = verdicts(VolumeBinding(), made, pod("x"))
    assert isinstance(status, Status)
    assert status.reasons == (reason,)


def test_the_claim_of_an_ephemeral_volume_must_be_the_pods_own() -> None:
    """Somebody else's claim may have the name by chance."""
    made = cluster()
    tree = {
        "metadata": {"name": "new", "namespace": "default", "uid": "new"},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "tmp", "ephemeral": {}}]},
    }
    new = PodInfo(convert(Pod, tree))
    status = verdicts(VolumeBinding(), made, new)
    assert isinstance(status, Status)
    assert "waiting for ephemeral volume controller" in status.message
    claim(made.objects, "new-tmp", storageClassName="late")
    status = verdicts(VolumeBinding(), made, new)
    assert isinstance(status, Status)
    assert status.message.endswith("was not created for pod default/new (pod is not owner)")


def test_the_smallest_free_volume_that_is_reached_is_booked_once() -> None:
    """What one pod was given no other gets, though the API server does not know yet."""
    made, plugin = cluster("a"), VolumeBinding()
    made.objects.storage_classes["late"] = StorageClass(
        metadata=ObjectMeta(name="late"),
        provisioner="kubernetes.io/no-provisioner",
        volume_binding_mode="WaitForFirstConsumer",
    )
    volume(made.objects, "large", zone="a", size="9Gi", storageClassName="late")
    volume(made.objects, "small", zone="a", size="2Gi", storageClassName="late")
    claim(made.objects, "one", storageClassName="late")
    claim(made.objects, "two", storageClassName="late", size="2Gi")
    first = booked(plugin, made, pod("one"))
    assert verdicts(plugin, made, pod("two")) == {"a": FITS}
    second = booked(plugin, made, pod("two", name="second"))
    claim(made.objects, "three", storageClassName="late")
    assert verdicts(plugin, made, pod("three")) == {"a": NOTHING}
    plugin.unreserve(first, pod("one"), "a")
    assert verdicts(plugin, made, pod("three")) == {"a": FITS}
    plugin.unreserve(second, pod("two"), "a")


@pytest.mark.parametrize("own", ["a", "b"])
def test_a_volume_that_was_made_for_a_claim_is_the_only_one_for_it(own: str) -> None:
    """Though a smaller one is free, which is all that is reached from node a."""
    made = cluster()
    made_for = {"namespace": "default", "name": "data"}
    volume(made.objects, "other", zone="a", storageClassName="late")
    volume(made.objects, "own", zone=own, size="2Gi", storageClassName="late", claimRef=made_for)
    claim(made.objects, "data", storageClassName="late")
    wanted, volumes = made.objects.claims["default/data"], made.objects.volumes.values()
    found = best_volume(wanted, volumes, {ZONE: "a"})
    assert (found.metadata.name if found is not None else "") == ("own" if own == "a" else "")


def booked(plugin: VolumeBinding, made: Cluster, new: PodInfo, node: str = "a") -> CycleState:
    """The state of a pod whose volumes are reserved."""
    state = CycleState()
    assert plugin.pre_filter(state, new, made.snapshot()).status.ok
    info = made.node(node)
    assert info is not None
    assert plugin.reserve(state, new, info).ok
    return state


def test_a_node_once_selected_is_kept() -> None:
    """The provisioner may be at work there."""
    made = cluster()
    claim(made.objects, "data", storageClassName="late", annotations={SELECTED_NODE: "b"})
    assert verdicts(VolumeBinding(), made, pod("data")) == {"a": NOTHING, "b": FITS}


def test_volumes_are_made_where_the_class_and_the_driver_can() -> None:
    """Allowed topologies and free capacity decide."""
    made = cluster("abc")
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
    made.objects.storage_classes["late"] = convert(
        StorageClass,
        {
            "metadata": {"name": "late"},
            "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": topologies,
        },
    )
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}
    made.objects.csi_drivers["csi.example"] = convert(CSIDriver, driver)
    capacity = {
        "metadata": {"name": "x", "namespace": "kube-system"},
        "storageClassName": "late",
        "capacity": "5Gi",
        "nodeTopology": {"matchLabels": {ZONE: "b"}},
    }
    made.objects.csi_capacities["kube-system/x"] = convert(CSIStorageCapacity, capacity)
    claim(made.objects, "data", storageClassName="late", size="4Gi")
    full = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) did not have enough free storage")
    expected = {"a": full, "b": FITS, "c": NOTHING}
    assert verdicts(VolumeBinding(), made, pod("data")) == expected
    claim(made.objects, "big", storageClassName="late", size="6Gi")
    assert verdicts(VolumeBinding(), made, pod("big")) == {**expected, "b": full}


def scores(plugin: VolumeBinding, made: Cluster, new: PodInfo) -> dict[str, int]:
    """Rate every node, together and one by one."""
    state, snapshot = CycleState(), made.snapshot()
    assert plugin.pre_filter(state, new, snapshot).status.ok
    assert plugin.pre_score(state, new, snapshot, snapshot.rows).ok
    rated = plugin.score_all(state, new, snapshot, snapshot.rows).tolist()
    assert rated == [plugin.score(state, new, snapshot.at(row)) for row in snapshot.rows.tolist()]
    return {snapshot.at(row).name: rated[at] for at, row in enumerate(snapshot.rows.tolist())}


def report_capacity(made: Cluster, **capacities: str) -> None:
    """The driver says how much it has in each zone."""
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}
    made.objects.csi_drivers["csi.example"] = convert(CSIDriver, driver)
    for zone, amount in capacities.items():
        tree = {
            "metadata": {"name": zone, "namespace": "kube-system"},
            "storageClassName": "late",
            "capacity": amount,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
        }
        made.objects.csi_capacities[f"kube-system/{zone}"] = convert(CSIStorageCapacity, tree)


def test_c23_nodes_with_more_storage_left_are_better() -> None:
    """As kube-scheduler 1.37 rates by default; two claims of a class share its capacity."""
    made = cluster("abc")
    report_capacity(made, a="10Gi", b="40Gi", c="100Gi")
    for name in ("data", "logs"):
        claim(made.objects, name, storageClassName="late", size="5Gi")
    assert scores(VolumeBinding(), made, pod("data")) == {"a": 50, "b": 88, "c": 95}
    assert scores(VolumeBinding(), made, pod("data", "logs")) == {"a": 0, "b": 75, "c": 90}
    # A line that rises packs volumes where they fit best.
    rising = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    packed = VolumeBinding.from_args({"shape": rising})
    assert scores(packed, made, pod("data")) == {"a": 50, "b": 12, "c": 5}


def test_c23_volumes_that_exist_count_before_those_to_be_made() -> None:
    """The smaller the part of a volume that is used, the better its node."""
    made = cluster("ab")
    report_capacity(made, a="100Gi", b="100Gi")
    volume(made.objects, "tight", zone="a", size="5Gi", storageClassName="late")
    volume(made.objects, "wide", zone="b", size="20Gi", storageClassName="late")
    claim(made.objects, "data", storageClassName="late", size="5Gi")
    assert scores(VolumeBinding(), made, pod("data")) == {"a": 0, "b": 75}


def test_c23_pods_whose_claims_are_bound_are_not_rated() -> None:
    """Their volumes are where they are."""
    made = cluster("ab")
    volume(made.objects, "v", zone="b")
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    plugin, state, snapshot = VolumeBinding(), CycleState(), made.snapshot()
    new = pod("data")
    assert plugin.pre_filter(state, new, snapshot).status.ok
    assert plugin.pre_score(state, new, snapshot, snapshot.rows).code is Code.SKIP


def test_judging_all_nodes_at_once_is_the_same() -> None:
    """Nodes that are alike as far as volumes go are judged once."""
    made = cluster("abcab")
    volume(made.objects, "v", zone="b")
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    claim(made.objects, "more", storageClassName="late", annotations={SELECTED_NODE: "b"})
    plugin, state, snapshot = VolumeBinding(), CycleState(), made.snapshot()
    new = pod("data", "more")
    assert plugin.pre_filter(state, new, snapshot).status.ok
    together = plugin.filter_all(state, new, snapshot, snapshot.rows)
    assert together is not None
    for position, row in enumerate(snapshot.rows):
        assert together.status(position) == plugin.filter(state, new, snapshot.at(int(row)))


class Actions:
    """Remembers what was written; the volume controller is quick."""

    def __init__(self, made: Cluster, *, broken: bool = False) -> None:
        self.cluster = made
        self.broken = broken
        self.written: list[object] = []

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Bind volume and claim."""
        self._write(volume)
        ref = volume.spec.claim_ref
        assert ref is not None
        self.cluster.objects.volumes[volume.metadata.name] = _newer(volume)
        self._bind(f"{ref.namespace}/{ref.name}", volume.metadata.name)

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Make a volume on the selected node."""
        self._write(claim)
        zone = claim.metadata.annotations[SELECTED_NODE]
        volume(self.cluster.objects, "made", zone=zone)
        self.cluster.objects.claims[claim.metadata.key] = claim
        self._bind(claim.metadata.key, "made")

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask once."""
        assert timeout_seconds == 600
        return done() or failure("timed out")

    def _write(self, one: object) -> None:
        if self.broken:
            raise NumakubeError("the server is away")
        self.written.append(one)

    def _bind(self, key: str, name: str) -> None:
        known = self.cluster.objects.claims[key]
        meta = msgspec.structs.replace(
            known.metadata,
            resource_version="2",
            annotations={**known.metadata.annotations, **BOUND},
        )
        spec = msgspec.structs.replace(known.spec, volume_name=name)
        bound = msgspec.structs.replace(known, metadata=meta, spec=spec)
        self.cluster.objects.claims[key] = bound


def _newer(one: PersistentVolume) -> PersistentVolume:
    meta = msgspec.structs.replace(one.metadata, resource_version="2")
    return msgspec.structs.replace(one, metadata=meta)


async def test_volumes_are_bound_before_the_pod() -> None:
    """An existing one by its claimRef, one to be made by the node's name on the claim."""
    made = cluster()
    volume(made.objects, "v", zone="a", storageClassName="late")
    claim(made.objects, "found", storageClassName="late")
    claim(made.objects, "made", storageClassName="late", size="5Gi")
    actions = Actions(made)
    plugin, new = VolumeBinding(actions=actions), pod("found", "made")
    state = booked(plugin, made, new)
    assert (await plugin.pre_bind(state, new, "a")).ok
    first, second = actions.written
    assert isinstance(first, PersistentVolume)
    assert first.spec.claim_ref is not None
    assert (first.spec.claim_ref.name, first.spec.claim_ref.uid) == ("found", "found")
    assert first.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert isinstance(second, PersistentVolumeClaim)
    assert second.metadata.annotations == {SELECTED_NODE: "a"}
    assert verdicts(plugin, made, new) == {"a": FITS, "b": UNREACHED}


async def test_a_failed_write_is_told_and_taken_back() -> None:
    """The pod is tried again, with the volume free."""
    made = cluster("a")
    volume(made.objects, "v", zone="a", storageClassName="late")
    claim(made.objects, "data", storageClassName="late")
    plugin, new = VolumeBinding(actions=Actions(made, broken=True)), pod("data")
    state = booked(plugin, made, new)
    status = await plugin.pre_bind(state, new, "a")
    assert status == failure("binding volumes: the server is away")
    plugin.unreserve(state, new, "a")
    again = CycleState()
    assert plugin.pre_filter(again, new, made.snapshot()).status.ok
    info = made.node("a")
    assert info is not None
    assert plugin.reserve(again, new, info).ok


# ------------------------------------------------------------------------------------------------
# Volumes are waited for until they are bound, or cannot be any more.

LATE = failure("timed out")


class Patient:
    """Writes nothing; lets things happen one by one while somebody waits."""

    def __init__(self, *happens: Callable[[], None]) -> None:
        self.happens = happens
        self.answers: list[Status | None] = []

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Take it."""

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Take it."""

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask after each thing that happens."""
        del timeout_seconds
        for happens in (lambda: None, *self.happens):
            happens()
            self.answers.append(done())
            if self.answers[-1] is not None:
                return self.answers[-1]
        return LATE


def changed(made: Cluster, *, annotations: dict[str, str], **spec: Any) -> None:
    """Let the claim get another version."""
    known = made.objects.claims["default/data"]
    meta = msgspec.structs.replace(known.metadata, resource_version="9", annotations=annotations)
    spec_now = msgspec.structs.replace(known.spec, **spec)
    now = msgspec.structs.replace(known, metadata=meta, spec=spec_now)
    made.objects.claims["default/data"] = now


HERE = {SELECTED_NODE: "a"}


def made_in(zone: str, **annotations: str) -> Callable[[Cluster], None]:
    """Let a volume come, and the claim name it."""

    def happens(made: Cluster) -> None:
        volume(made.objects, "v", zone=zone)
        changed(made, annotations={**HERE, **annotations}, volume_name="v")

    return happens


def gone(made: Cluster) -> None:
    """Let somebody delete the claim."""
    del made.objects.claims["default/data"]


CASES: dict[str, tuple[Callable[[Cluster], None], str | None]] = {
    "nothing": (lambda _: None, None),
    "the claim is gone": (gone, 'persistentvolumeclaim "data" is gone'),
    "another node is selected": (
        lambda made: changed(made, annotations={}),
        'provisioning failed for PVC "data"',
    ),
    "a version that says nothing new": (lambda made: changed(made, annotations=HERE), None),
    "bound to a volume that is not seen yet": (
        lambda made: changed(made, annotations={**HERE, **BOUND}, volume_name="v"),
        None,
    ),
    "a volume that is not bound yet": (made_in("a"), None),
    "a volume out of reach": (
        made_in("b", **BOUND),
        'pv "v" node affinity doesn\'t match node "a"',
    ),
    "bound": (made_in("a", **BOUND), ""),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_volume_that_is_made_is_waited_for(name: str) -> None:
    """Until claim and volume are bound to each other, where the pod is to run."""
    happens, problem = CASES[name]
    made, new = cluster("ab"), pod("data")
    claim(made.objects, "data", storageClassName="late")
    actions = Patient(lambda: happens(made))
    plugin = VolumeBinding(actions=actions)
    status = await plugin.pre_bind(booked(plugin, made, new), new, "a")
    assert actions.answers[0] is None
    if problem is None:
        assert status is LATE
    else:
        assert status.message == (f"binding volumes: {problem}" if problem else "")
        assert status.ok is not bool(problem)


def reset(made: Cluster, *, uid: str, version: str = "9", zone: str = "a") -> None:
    """Let the volume get another version, with a reference to the claim."""
    ref: dict[str, Any] = {"namespace": "default", "name": "data", "uid": uid} if uid else {}
    more: dict[str, Any] = {"claimRef": ref} if ref else {}
    volume(made.objects, "v", zone=zone, storageClassName="late", **more)
    known = made.objects.volumes["v"]
    meta = msgspec.structs.replace(known.metadata, resource_version=version)
    made.objects.volumes["v"] = msgspec.structs.replace(known, metadata=meta)


def bound_to_each_other(made: Cluster) -> None:
    """Let the volume controller do its work."""
    reset(made, uid="data")
    changed(made, annotations=BOUND, volume_name="v")


def without_volume(made: Cluster) -> None:
    """Let somebody delete the volume."""
    del made.objects.volumes["v"]


MATCHED: dict[str, tuple[Callable[[Cluster], None], str | None]] = {
    "nothing": (lambda _: None, None),
    "the volume is gone": (without_volume, 'persistentvolume "v" is gone'),
    "out of reach": (
        lambda made: reset(made, uid="data", zone="b"),
        'pv "v" node affinity doesn\'t match node "a"',
    ),
    "its reference was reset": (
        lambda made: reset(made, uid=""),
        'ClaimRef got reset for pv "v"',
    ),
    "set aside": (lambda made: reset(made, uid="data"), None),
    "the claim is not there": (gone, None),
    "bound": (bound_to_each_other, ""),
}


@pytest.mark.parametrize("name", MATCHED)
async def test_a_volume_that_was_found_is_waited_for(name: str) -> None:
    """Until the claim is bound to it."""
    happens, problem = MATCHED[name]
    made, new = cluster("ab"), pod("data")
    volume(made.objects, "v", zone="a", storageClassName="late")
    claim(made.objects, "data", storageClassName="late")
    actions = Patient(lambda: happens(made))
    plugin = VolumeBinding(actions=actions)
    status = await plugin.pre_bind(booked(plugin, made, new), new, "a")
    assert actions.answers[0] is None
    if problem is None:
        assert status is LATE
    else:
        assert status.message == (f"binding volumes: {problem}" if problem else "")
        assert status.ok is not bool(problem)
