"""Which volume a claim gets on a node, and where one can be made for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scheduling.plugins.volume_clusters import (
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
from numakube.api.nodes import Node
from numakube.api.storage_objects import CSIDriver, CSIStorageCapacity, StorageClass
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code
from numakube.scheduling.plugins.volumes.volume_binding import VolumeBinding
from numakube.scheduling.plugins.volumes.volume_search import best_volume
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

NO_SPACE = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) did not have enough free storage")
LABELS = {ZONE: "a"}


def chosen(objects: ClusterObjects, labels: dict[str, str] | None = None) -> str | None:
    """Return the volume that the claim ``data`` gets."""
    wanted = objects.claims["default/data"]
    best = best_volume(wanted, objects.volumes.values(), LABELS if labels is None else labels)
    return None if best is None else best.metadata.name


def test_the_smallest_volume_that_will_do_is_taken() -> None:
    """Of equal ones the first; one on another node is of no use."""
    objects = ClusterObjects()
    claim(objects, "data", size="2Gi", storageClassName="late")
    for name, size, zone in (
        ("small", "1Gi", ""),
        ("large", "8Gi", "a"),
        ("fits", "2Gi", "a"),
        ("same", "2Gi", ""),
        ("far", "2Gi", "b"),
    ):
        volume(objects, name, size=size, zone=zone, storageClassName="late")
    assert chosen(objects) == "fits"
    assert chosen(objects, {ZONE: "c"}) == "same"


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        ({}, {}, True),
        ({}, {"storageClassName": "now"}, False),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({}, {"volumeMode": "Filesystem"}, True),
        ({"volumeAttributesClassName": "fast"}, {}, False),
        ({}, {"volumeAttributesClassName": "fast"}, False),
        ({"volumeAttributesClassName": "x"}, {"volumeAttributesClassName": "x"}, True),
        ({"accessModes": ["ReadWriteMany"]}, {}, False),
        ({"accessModes": ["ReadWriteMany"]}, {"accessModes": ["ReadWriteMany"]}, True),
        ({}, {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}, True),
        ({"selector": {"matchLabels": {"tier": "a"}}}, {}, False),
        ({"selector": {"matchLabels": {"tier": "a"}}}, {"labels": {"tier": "a"}}, True),
        ({"selector": {"matchExpressions": [{"key": "t", "operator": "Near"}]}}, {}, False),
        ({}, {"claimRef": {"namespace": "default", "name": "other"}}, False),
        ({}, {"claimRef": {"namespace": "other", "name": "data"}}, False),
        ({}, {"claimRef": {"namespace": "default", "name": "data"}}, True),
        ({}, {"claimRef": {"namespace": "default", "name": "data", "uid": "data"}}, True),
        ({}, {"claimRef": {"namespace": "default", "name": "data", "uid": "older"}}, False),
    ],
)
def test_a_volume_has_to_be_what_the_claim_asks_for(
    wanted: dict[str, Any], offered: dict[str, Any], fits: bool
) -> None:
    """Its class, mode, attributes, access and labels; one set aside is for that claim alone."""
    objects = ClusterObjects()
    claim(objects, "data", **{"storageClassName": "late", **wanted})
    volume(objects, "v", **{"storageClassName": "late", **offered})
    assert chosen(objects) == ("v" if fits else None)


def test_a_volume_set_aside_for_a_claim_is_taken_though_a_smaller_one_would_do() -> None:
    """If it is out of reach, there is none."""
    objects = ClusterObjects()
    claim(objects, "data", storageClassName="late")
    volume(objects, "small", storageClassName="late")
    ref = {"namespace": "default", "name": "data"}
    volume(objects, "own", zone="a", size="9Gi", storageClassName="late", claimRef=ref)
    assert chosen(objects) == "own"
    assert chosen(objects, {ZONE: "b"}) is None


def limited(made: Cluster, storage_capacity: bool = True, **capacity: Any) -> None:
    """Let the driver say how much room it has in one place."""
    driver = {"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": storage_capacity}}
    made.objects.csi_drivers["csi.example"] = convert(CSIDriver, driver)
    tree = {
        "metadata": {"name": "x", "namespace": "kube-system"},
        "storageClassName": "late",
        "nodeTopology": {"matchLabels": {ZONE: "a"}},
        **capacity,
    }
    made.objects.csi_capacities["kube-system/x"] = convert(CSIStorageCapacity, tree)


@pytest.mark.parametrize(
    ("capacity", "fits"),
    [
        ({"capacity": "4Gi"}, True),
        ({"capacity": "3Gi"}, False),
        ({}, False),
        ({"capacity": "40Gi", "maximumVolumeSize": "4Gi"}, True),
        ({"capacity": "40Gi", "maximumVolumeSize": "3Gi"}, False),
        ({"capacity": "4Gi", "nodeTopology": None}, False),
        ({"capacity": "4Gi", "nodeTopology": {}}, True),
        ({"capacity": "4Gi", "nodeTopology": {"matchLabels": {ZONE: "b"}}}, False),
        (
            {
                "capacity": "4Gi",
                "nodeTopology": {"matchExpressions": [{"key": "z", "operator": "Near"}]},
            },
            False,
        ),
        ({"capacity": "4Gi", "storageClassName": "other"}, False),
    ],
)
def test_a_volume_is_made_where_the_driver_says_that_it_has_room(
    capacity: dict[str, Any], fits: bool
) -> None:
    """By the largest volume that it makes; what it does not say is none."""
    made = cluster("a")
    limited(made, **capacity)
    claim(made.objects, "data", storageClassName="late", size="4Gi")
    expected = {"a": FITS if fits else NO_SPACE}
    assert verdicts(VolumeBinding(), made, pod("data")) == expected


def test_a_driver_that_does_not_tell_its_room_may_have_any() -> None:
    """Nor is a claim limited that does not say how much it needs."""
    made = cluster("a")
    limited(made, storage_capacity=False, capacity="1Gi")
    claim(made.objects, "data", storageClassName="late", size="4Gi")
    assert verdicts(VolumeBinding(), made, pod("data")) == {"a": FITS}
    limited(made, capacity="1Gi")
    assert verdicts(VolumeBinding(), made, pod("data")) == {"a": NO_SPACE}
    claim(made.objects, "data", storageClassName="late", resources={})
    assert verdicts(VolumeBinding(), made, pod("data")) == {"a": FITS}


@pytest.mark.parametrize(
    ("topologies", "fits"),
    [
        ([], True),
        ([{"matchLabelExpressions": []}], False),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}], True),
        ([{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}], False),
        (
            [
                {
                    "matchLabelExpressions": [
                        {"key": ZONE, "values": ["a"]},
                        {"key": "rack", "values": ["r"]},
                    ]
                }
            ],
            False,
        ),
        (
            [
                {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]},
                {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]},
            ],
            True,
        ),
    ],
)
def test_a_class_makes_volumes_for_the_nodes_that_one_of_its_terms_allows(
    topologies: list[Any], fits: bool
) -> None:
    """All expressions of a term have to hold."""
    made = cluster("a")
    tree = {
        "metadata": {"name": "late"},
        "provisioner": "csi.example",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
    }
    made.objects.storage_classes["late"] = convert(StorageClass, tree)
    claim(made.objects, "data", storageClassName="late")
    found = verdicts(VolumeBinding(), made, pod("data"))
    assert isinstance(found, dict)
    assert (found["a"] == FITS) is fits


def test_nodes_that_differ_in_any_label_that_matters_are_judged_apart() -> None:
    """However many values each label has; some nodes lack one."""
    made = Cluster()
    zones, racks = [*"abcd", ""], ["r0", "r1", "r2", ""]
    for zone in zones:
        for rack in racks:
            labels = ({ZONE: zone} if zone else {}) | ({"rack": rack} if rack else {})
            meta = ObjectMeta(name=f"{zone}-{rack}", labels=labels)
            made.set_node(Node(metadata=meta))
    for zone, rack in (("a", "r0"), ("b", "r2"), ("d", "r1")):
        terms = [{"key": key, "values": [value]} for key, value in ((ZONE, zone), ("rack", rack))]
        tree = {
            "metadata": {"name": "late"},
            "provisioner": "csi.example",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": terms}],
        }
        made.objects.storage_classes["late"] = convert(StorageClass, tree)
        claim(made.objects, "data", storageClassName="late")
        plugin, state, snapshot = VolumeBinding(), CycleState(), made.snapshot()
        assert plugin.pre_filter(state, pod("data"), snapshot).status.ok
        together = plugin.filter_all(state, pod("data"), snapshot, snapshot.rows)
        assert together is not None
        passed = {snapshot.at(int(row)).name for row in snapshot.rows[together.ok]}
        assert passed == {f"{zone}-{rack}"}
