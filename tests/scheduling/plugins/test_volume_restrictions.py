"""Which zones volumes are in, and who may use them beside others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.scheduling.plugins.volume_clusters import (
    BOUND,
    FITS,
    claim,
    cluster,
    pod,
    verdicts,
    volume,
)

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.storage_objects import StorageClass
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions, VolumeZone
from numakube.scheduling.snapshot.pods import PodInfo


def test_a_volume_with_zones_is_reached_from_them() -> None:
    """Old zone labels mean the new ones; a node without any is trusted."""
    made = cluster("abc")
    made.set_node(Node(metadata=ObjectMeta(name="bare")))
    volume(made.objects, "v", labels={"failure-domain.beta.kubernetes.io/zone": "a__b"})
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    wrong = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) had no available volume zone")
    expected = {"a": FITS, "b": FITS, "c": wrong, "bare": FITS}
    assert verdicts(VolumeZone(), made, pod("data")) == expected


def test_a_claim_for_one_pod_has_one_pod() -> None:
    """Evicting the pod that has it helps."""
    made, plugin = cluster("a"), VolumeRestrictions()
    claim(made.objects, "mine", accessModes=["ReadWriteOncePod"])
    holder = pod("mine", name="holder")
    made.place(holder, "a")
    state, new, node = CycleState(), pod("mine"), made.node("a")
    assert node is not None
    assert plugin.pre_filter(state, new, made.snapshot()).status.ok
    assert plugin.filter(state, new, node).code is Code.UNSCHEDULABLE
    plugin.remove_pod(state, new, holder, node)
    assert plugin.filter(state, new, node).ok
    plugin.add_pod(state, new, holder, node)
    assert not plugin.filter(state, new, node).ok


DISKS: dict[str, dict[str, object]] = {
    "gcePersistentDisk": {"pdName": "d"},
    "awsElasticBlockStore": {"volumeID": "d"},
    "iscsi": {"iqn": "d"},
    "rbd": {"monitors": ["m"], "image": "i", "pool": "p"},
}


@pytest.mark.parametrize("kind", DISKS)
def test_disks_of_different_kinds_are_different_disks(kind: str) -> None:
    """Also if they are called the same."""
    made = cluster("a")
    others = {name: source for name, source in DISKS.items() if name != kind}
    made.place(pod(name="holder", others=others), "a")
    assert verdicts(VolumeRestrictions(), made, pod(others={kind: DISKS[kind]})) == {"a": FITS}


@pytest.mark.parametrize(("kind", "source"), DISKS.items())
def test_a_disk_that_one_node_may_write_is_written_by_one_pod(
    kind: str, source: dict[str, object]
) -> None:
    """Two readers may share it, except on AWS."""
    made = cluster()
    made.place(pod(name="holder", others={kind: source}), "a")
    busy = (Code.UNSCHEDULABLE, "node(s) had no available disk")
    new = pod(others={kind: {**source, "readOnly": True}})
    assert verdicts(VolumeRestrictions(), made, new) == {"a": busy, "b": FITS}
    made.place(pod(name="holder", others={kind: {**source, "readOnly": True}}), "a")
    shared = busy if kind == "awsElasticBlockStore" else FITS
    assert verdicts(VolumeRestrictions(), made, new) == {"a": shared, "b": FITS}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"storageClassName": "late"}, None),
        ({"storageClassName": "now"}, "PersistentVolume had no name"),
        ({"storageClassName": "odd"}, 'VolumeBindingMode not set for StorageClass "odd"'),
        ({"storageClassName": "gone"}, 'storageclass.storage.k8s.io "gone" not found'),
        ({"storageClassName": ""}, "PersistentVolumeClaim had no pv name and storageClass name"),
        ({}, "PersistentVolumeClaim had no pv name and storageClass name"),
        ({"volumeName": "gone"}, 'persistentvolume "gone" not found'),
    ],
)
def test_a_claim_without_a_volume_has_no_zones_if_one_is_made_later(
    fields: dict[str, Any], problem: str | None
) -> None:
    """Else no node will do until its volume is there."""
    made = cluster("a")
    made.objects.storage_classes["odd"] = StorageClass(
        metadata=ObjectMeta(name="odd"), provisioner="csi.example", volume_binding_mode=None
    )
    claim(made.objects, "data", **fields)
    found = verdicts(VolumeZone(), made, pod("data"))
    assert isinstance(found, Status)
    expected = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, problem) if problem else (Code.SKIP, "")
    assert (found.code, found.message) == expected


def test_a_claim_that_is_not_there_fits_nowhere() -> None:
    found = verdicts(VolumeZone(), cluster("a"), pod("gone"))
    assert isinstance(found, Status)
    assert (found.code, found.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        'persistentvolumeclaim "gone" not found',
    )


def test_a_label_with_an_empty_zone_says_nothing() -> None:
    made = cluster("ab")
    volume(made.objects, "v", labels={"topology.kubernetes.io/zone": "a__"})
    claim(made.objects, "data", volumeName="v", annotations=BOUND)
    found = verdicts(VolumeZone(), made, pod("data"))
    assert isinstance(found, Status)
    assert found.code is Code.SKIP


RBD = {"monitors": ["m", "n"], "image": "i", "pool": "p"}


@pytest.mark.parametrize(
    ("kind", "one", "other", "collide"),
    [
        ("gcePersistentDisk", {"pdName": "d"}, {"pdName": "e"}, False),
        ("awsElasticBlockStore", {"volumeID": "d"}, {"volumeID": "e"}, False),
        ("iscsi", {"iqn": "d"}, {"iqn": "e"}, False),
        ("rbd", RBD, {**RBD, "monitors": ["n"]}, True),
        ("rbd", RBD, {**RBD, "monitors": ["o"]}, False),
        ("rbd", RBD, {**RBD, "image": "j"}, False),
        ("rbd", RBD, {**RBD, "pool": "q"}, False),
    ],
)
def test_disks_collide_if_they_are_the_same(
    kind: str, one: dict[str, object], other: dict[str, object], *, collide: bool
) -> None:
    """Whoever of the two pods is there first; and readers of one disk only if one of them writes.

    On AWS readers collide as well.
    """
    for mine, theirs in ((one, other), (other, one)):
        for reads, they_read in ((False, False), (True, False), (False, True), (True, True)):
            made = cluster("a")
            there = pod(name="holder", others={kind: {**theirs, "readOnly": they_read}})
            made.place(there, "a")
            new = pod(others={kind: {**mine, "readOnly": reads}})
            fits = not collide or (reads and they_read and kind != "awsElasticBlockStore")
            assert (verdicts(VolumeRestrictions(), made, new) == {"a": FITS}) == fits
            event = ClusterEvent(kind=EventKind.POD_DELETED, node="a", pod=there)
            assert VolumeRestrictions().wakes(new, event) == (not fits)


def test_a_claim_wakes_the_pods_of_its_namespace_that_use_it() -> None:
    """And so does the end of a pod that used it."""
    plugin, waiting = VolumeRestrictions(), pod("mine")

    def woken(kind: EventKind, claim: str = "", gone: PodInfo | None = None) -> bool:
        return plugin.wakes(waiting, ClusterEvent(kind=kind, claim=claim, pod=gone))

    namespace = waiting.namespace
    assert woken(EventKind.STORAGE_CHANGED, f"{namespace}/mine")
    assert not woken(EventKind.STORAGE_CHANGED, f"{namespace}/other")
    assert not woken(EventKind.STORAGE_CHANGED, "other/mine")
    assert woken(EventKind.POD_DELETED, gone=pod("mine", name="holder"))
    assert not woken(EventKind.POD_DELETED, gone=pod("other", name="holder"))
    stranger = pod("mine", name="holder").pod
    meta = msgspec.structs.replace(stranger.metadata, namespace="other")
    elsewhere = PodInfo(msgspec.structs.replace(stranger, metadata=meta))
    assert not woken(EventKind.POD_DELETED, gone=elsewhere)
