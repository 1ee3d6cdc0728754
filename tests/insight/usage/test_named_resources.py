"""Resources are found by the names that people use for them, or refused."""

from __future__ import annotations

import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.resource_slices import DeviceClass, DeviceClassSpec
from numakube.errors import InvalidValue
from numakube.insight.facts import ClusterFacts
from numakube.insight.usage.largest_pod import parse_shape
from numakube.insight.usage.named_resources import in_full
from numakube.testing import GPU, World


def facts(*shapes: str) -> ClusterFacts:
    """Return a cluster of such machines, and a device that claims serve."""
    world = World()
    for number, shape in enumerate(shapes):
        world.add_node(f"n{number}", machine=shape)
    spec = DeviceClassSpec(extended_resource_name="claims.example/fpga")
    world.objects.device_classes["fpga"] = DeviceClass(ObjectMeta(name="fpga"), spec)
    return world.facts()


CLUSTER = facts("2 sockets, 4 cores, 16Gi, gpu 2, intel.com/sriov_netdevice 4")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("cpu", "cpu"),
        ("gpu", GPU),
        (GPU, GPU),
        ("sriov_netdevice", "intel.com/sriov_netdevice"),
        ("fpga", "claims.example/fpga"),
        ("hugepages-1Gi", "hugepages-1Gi"),
        ("ephemeral-storage", "ephemeral-storage"),
    ],
)
def test_a_short_name_stands_for_the_only_resource_that_ends_so(name: str, full: str) -> None:
    """Names of Kubernetes' own are known also where no node has any of it."""
    assert in_full({name: 3}, CLUSTER) == {full: 3}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cpus", "no node offers 'cpus'; did you mean cpu?"),
        ("gpus", f"no node offers 'gpus'; did you mean {GPU}?"),
        ("nvidia.com/gpu", f"no node offers 'nvidia.com/gpu'; did you mean {GPU}?"),
        ("mem", "no node offers 'mem'; did you mean memory?"),
        ("pods", "no node offers 'pods'; there are claims.example/fpga, cpu, "),
        ("xyz", "no node offers 'xyz'; there are claims.example/fpga, cpu, "),
    ],
)
def test_what_no_node_offers_is_refused_with_what_may_be_meant(name: str, told: str) -> None:
    """Instead of being counted as nothing."""
    with pytest.raises(InvalidValue) as error:
        in_full({"cpu": 1, name: 3}, CLUSTER)
    assert str(error.value).startswith(told)


def test_a_short_name_of_several_resources_has_to_be_written_out() -> None:
    """Both are named."""
    several = facts("1 socket, 4 cores, 8Gi, a.example/gpu 1", "1 socket, 4 cores, 8Gi, gpu 1")
    with pytest.raises(InvalidValue, match=r"'gpu' may be a.example/gpu or vendor.example/gpu"):
        in_full({"gpu": 1}, several)
    with pytest.raises(InvalidValue, match="did you mean cpu"):
        in_full({"cpuu": 1}, several)


def test_a_resource_is_asked_for_once() -> None:
    """By whichever name; without any node nothing can be said about names."""
    with pytest.raises(InvalidValue, match=f"'{GPU}': {GPU} is there twice"):
        in_full({"gpu": 1, GPU: 2}, CLUSTER)
    with pytest.raises(InvalidValue, match="'cpu=5': cpu is there twice"):
        parse_shape("cpu=4,cpu=5")
    assert in_full({"gpu": 1}, World().facts()) == {"gpu": 1}
