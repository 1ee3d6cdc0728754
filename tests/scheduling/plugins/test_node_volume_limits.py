"""How many volumes fit on a node."""

from __future__ import annotations

from typing import Any

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

from numakube.api.codec import convert
from numakube.api.pod import Volume
from numakube.api.storage_objects import CSINode, StorageClass, VolumeAttachment
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.plugins.volumes.node_volume_limits import (
    GCE,
    PORTWORX,
    NodeVolumeLimits,
    attached_volume,
    inline_volume,
    is_migrated,
)
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects


def test_a_node_attaches_so_many_volumes_of_a_driver() -> None:
    """Those of its pods, those still attached, and those to come count; shared ones once."""
    made = cluster()
    limit = {"drivers": [{"name": "csi.example", "nodeID": "x", "allocatable": {"count": 2}}]}
    made.objects.csi_nodes["a"] = convert(CSINode, {"metadata": {"name": "a"}, "spec": limit})
    for name in ("one", "two", "three"):
        csi = {"driver": "csi.example", "volumeHandle": name}
        volume(made.objects, name, csi=csi)
        claim(made.objects, name, volumeName=name, annotations=BOUND)
    claim(made.objects, "new", storageClassName="late")
    made.place(pod("one", name="holder"), "a")
    full = (Code.UNSCHEDULABLE, "node(s) exceed max volume count")
    plugin = NodeVolumeLimits()
    assert verdicts(plugin, made, pod("two")) == {"a": FITS, "b": FITS}
    assert verdicts(plugin, made, pod("one", "two")) == {"a": FITS, "b": FITS}
    assert verdicts(plugin, made, pod("two", "three")) == {"a": full, "b": FITS}
    assert verdicts(plugin, made, pod("two", "new")) == {"a": full, "b": FITS}
    attached = {
        "metadata": {"name": "va"},
        "spec": {
            "attacher": "csi.example",
            "nodeName": "a",
            "source": {"persistentVolumeName": "three"},
        },
    }
    made.objects.attachments["va"] = convert(VolumeAttachment, attached)
    assert verdicts(plugin, made, pod("two")) == {"a": full, "b": FITS}


def test_a_driver_without_a_limit_is_not_kept_to_that_of_another() -> None:
    """A pod with volumes of both is."""
    made = cluster("a")
    drivers = [
        {"name": "limited", "nodeID": "x", "allocatable": {"count": 1}},
        {"name": "free", "nodeID": "x"},
    ]
    tree = {"metadata": {"name": "a"}, "spec": {"drivers": drivers}}
    made.objects.csi_nodes["a"] = convert(CSINode, tree)
    for name in ("limited-0", "limited-1", "free-0", "free-1"):
        csi = {"driver": name.partition("-")[0], "volumeHandle": name}
        volume(made.objects, name, csi=csi)
        claim(made.objects, name, volumeName=name, annotations=BOUND)
    full = (Code.UNSCHEDULABLE, "node(s) exceed max volume count")
    plugin = NodeVolumeLimits()
    assert verdicts(plugin, made, pod("limited-0", "free-0", "free-1")) == {"a": FITS}
    assert verdicts(plugin, made, pod("limited-0", "limited-1", "free-0")) == {"a": full}
    made.place(pod("limited-0", name="holder"), "a")
    assert verdicts(plugin, made, pod("free-0", "free-1")) == {"a": FITS}
    assert verdicts(plugin, made, pod("limited-1", "free-0")) == {"a": full}


@pytest.mark.parametrize("taken", range(4))
def test_limits_are_the_same_for_all_nodes_at_once(taken: int) -> None:
    """Only nodes that are close to their limit are counted exactly."""
    made = cluster("abc")
    limit = {"drivers": [{"name": "csi.example", "nodeID": "x", "allocatable": {"count": 2}}]}
    for name in "ab":
        tree = {"metadata": {"name": name}, "spec": limit}
        made.objects.csi_nodes[name] = convert(CSINode, tree)
    for number in range(4):
        csi = {"driver": "csi.example", "volumeHandle": f"{number % 3}"}
        volume(made.objects, f"v{number}", csi=csi)
        claim(made.objects, f"c{number}", volumeName=f"v{number}", annotations=BOUND)
    for number in range(taken):
        made.place(pod(f"c{number}", name=f"p{number}"), "a")
    plugin, state, snapshot, new = NodeVolumeLimits(), CycleState(), made.snapshot(), pod("c3")
    assert plugin.pre_filter(state, new, snapshot).status.ok
    together = plugin.filter_all(state, new, snapshot, snapshot.rows)
    for position, row in enumerate(snapshot.rows):
        alone = plugin.filter(state, new, snapshot.at(int(row)))
        assert alone == (Status() if together is None else together.status(position))


# ------------------------------------------------------------------------------------------------
# Which driver attaches a volume, and what it is called among those of all drivers.

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


def test_a_disk_that_no_csi_driver_attaches_on_a_node_does_not_count_there() -> None:
    """Portworx is taken over node by node; the kubelet of the others attaches it itself."""
    made = cluster()
    limit = {"drivers": [{"name": "pxd.portworx.com", "nodeID": "x", "allocatable": {"count": 1}}]}
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": f"{GCE},{PORTWORX}"}
    for node, marks in (("a", migrated), ("b", {})):
        tree = {"metadata": {"name": node, "annotations": marks}, "spec": limit}
        made.objects.csi_nodes[node] = convert(CSINode, tree)
    for name in ("one", "two", "three"):
        volume(made.objects, name, portworxVolume={"volumeID": name})
        claim(made.objects, name, volumeName=name, annotations=BOUND)
    made.place(pod("one", name="there"), "a")
    made.place(pod("two", name="here"), "b")
    full = (Code.UNSCHEDULABLE, "node(s) exceed max volume count")
    assert verdicts(NodeVolumeLimits(), made, pod("three")) == {"a": full, "b": FITS}
