"""Which extended resources claims serve, by the version of the server and its device classes."""

from __future__ import annotations

import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.resource_slices import DeviceClass, DeviceClassSpec
from numakube.scheduling.plugins.arguments import DynamicResourcesArgs
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.snapshot.objects import ClusterObjects

NAMED = "vendor.example/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("minor", "named", "gates", "served"),
    [
        (37, True, {}, {NAMED, IMPLICIT}),
        (37, False, {}, {IMPLICIT}),
        (37, True, {"DRAExtendedResource": False}, set()),
        (35, True, {}, {NAMED, IMPLICIT}),
        (35, False, {}, set()),
        (35, False, {"DRAExtendedResource": True}, {IMPLICIT}),
        (35, True, {"DRAExtendedResource": False}, set()),
        (33, True, {}, set()),
    ],
)
def test_the_gate_of_an_older_server_shows_in_its_classes(
    minor: int, named: bool, gates: dict[str, bool], served: set[str]
) -> None:
    """A server with the gate off does not keep the name, so one that has is taken to have it on."""
    spec = DeviceClassSpec(extended_resource_name=NAMED if named else None)
    objects = ClusterObjects()
    args = DynamicResourcesArgs(feature_gates=gates)
    plugin = DynamicResources(args, objects=objects, minor=minor)
    assert not plugin.serves(NAMED)
    objects.device_classes["gpu"] = DeviceClass(metadata=ObjectMeta(name="gpu"), spec=spec)
    assert {name for name in (NAMED, IMPLICIT, "cpu") if plugin.serves(name)} == served
