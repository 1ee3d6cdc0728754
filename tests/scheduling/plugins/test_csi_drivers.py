"""Which driver attaches a volume, and what it is called among those of all drivers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scheduling.plugins.volume_clusters import BOUND, claim, volume

from numakube.api.codec import convert
from numakube.api.pod import Volume
from numakube.api.storage_objects import CSINode, StorageClass
from numakube.scheduling.plugins.volumes.csi_drivers import (
    GCE,
    PORTWORX,
    attached_volume,
    inline_volume,
    is_migrated,
)
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

IN_TREE: list[tuple[dict[str, Any], str]] = [
    ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io/d"),
    ({"awsElasticBlockStore": {"volumeID": "aws://zone/d"}}, "ebs.csi.aws.com/d"),
    ({"azureDisk": {"diskName": "d", "diskURI": "/sub/d"}}, "disk.csi.azure.com/d"),
    ({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org/d"),
    ({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com/d"),
]


@pytest.mark.parametrize(("source", "name"), IN_TREE)
def test_a_disk_of_the_cloud_is_attached_by_its_csi_driver(
    source: dict[str, Any], name: str
) -> None:
    """By its own name, without what comes before it."""
    objects = ClusterObjects()
    volume(objects, "v", **source)
    claim(objects, "data", volumeName="v", annotations=BOUND)
    found = attached_volume(objects.claims["default/data"], objects)
    assert found is not None
    assert found.unique_name == name
    assert found.in_tree


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"csi": {"driver": "csi.example", "volumeHandle": "d"}}, "csi.example/d"),
        ({"csi": {"driver": "csi.example", "volumeHandle": ""}}, None),
        ({"hostPath": {"path": "/d"}}, None),
    ],
)
def test_a_volume_of_a_driver_is_called_by_its_handle(
    source: dict[str, Any], name: str | None
) -> None:
    """What no driver attaches does not count."""
    objects = ClusterObjects()
    volume(objects, "v", **source)
    claim(objects, "data", volumeName="v", annotations=BOUND)
    found = attached_volume(objects.claims["default/data"], objects)
    assert (None if found is None else found.unique_name) == name
    assert found is None or not found.in_tree


@pytest.mark.parametrize(
    ("provisioner", "driver", "in_tree"),
    [
        ("csi.example", "csi.example", ""),
        (GCE, "pd.csi.storage.gke.io", GCE),
        ("", None, ""),
    ],
)
def test_a_volume_that_is_to_be_made_counts_for_the_driver_of_its_class(
    provisioner: str, driver: str | None, in_tree: str
) -> None:
    """Each claim has one of its own."""
    objects = ClusterObjects()
    tree = {"metadata": {"name": "late"}, "provisioner": provisioner}
    objects.storage_classes["late"] = convert(StorageClass, tree)
    claim(objects, "data", storageClassName="late")
    claim(objects, "logs", storageClassName="late")
    first, second = (
        attached_volume(objects.claims[f"default/{name}"], objects) for name in ("data", "logs")
    )
    if driver is None:
        assert first is None
        return
    assert first is not None
    assert second is not None
    assert (first.driver, first.in_tree) == (driver, in_tree)
    assert first.unique_name != second.unique_name


def test_a_disk_that_a_pod_names_itself_is_attached_as_well() -> None:
    """Other volumes of pods are not."""
    disk = convert(Volume, {"name": "v", "gcePersistentDisk": {"pdName": "d"}})
    block = convert(Volume, {"name": "v", "awsElasticBlockStore": {"volumeID": "aws://z/d"}})
    names = [one and one.unique_name for one in map(inline_volume, (disk, block))]
    assert names == ["pd.csi.storage.gke.io/d", "ebs.csi.aws.com/d"]
    assert inline_volume(convert(Volume, {"name": "v", "emptyDir": {}})) is None


@pytest.mark.parametrize(
    ("told", "migrated"), [("", False), (PORTWORX, True), (f"{GCE},{PORTWORX}", True), (GCE, False)]
)
def test_portworx_is_attached_by_csi_where_the_node_says_so(told: str, migrated: bool) -> None:
    """Of all others it is taken for granted."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": told}
    tree = {"metadata": {"name": "n", "annotations": annotations}, "spec": {"drivers": []}}
    node = convert(CSINode, tree)
    assert is_migrated(PORTWORX, node) is migrated
    assert is_migrated(GCE, node)
