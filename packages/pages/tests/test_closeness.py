"""How close devices are, and machines of many NUMA zones, on the dashboard."""

from __future__ import annotations

from packages.pages.tests.serving import page, served, words
from packages.pages.tests.world import (
    empty_source,
    kubelet,
    node_object,
    pod_object,
    report_of,
)

from numakube_pages.page_source import Source

SWITCHED = "2 sockets, 8 cores, 32Gi, gpu 2, nic 2, 2 switches"
PAIR = {"vendor.example/gpu": "1", "vendor.example/nic": "1"}


def one_node(shape: str, *, policy: str = "single-numa-node") -> Source:
    """Return a cluster of one node with one pod that has a GPU and a network card."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    model = kubelet(f"policy={policy}", shape=shape)
    pod = pod_object("train", cpu="2", node="a", devices=PAIR)
    model.admit(pod)
    source.pods.put(pod)
    source.topologies.put(report_of("a", model))
    return source


async def test_the_page_of_a_node_has_the_matrix_of_its_devices() -> None:
    """With the pods that have them, in the words of ``nvidia-smi topo -m``."""
    async with served(one_node(SWITCHED)) as visitor:
        text = words(await page(visitor, "nodes/a"))

    matrix = text.partition("How close devices are")[2]
    assert "gpu 0 0 default/ train X NODE SYS SYS PIX NODE SYS SYS" in matrix
    assert "nic 3 1 free SYS SYS NODE PIX SYS SYS NODE X" in matrix
    assert "PIX one PCIe switch" in matrix


async def test_the_page_of_a_pod_tells_how_close_its_devices_are() -> None:
    """In a sentence, and in the explanation."""
    async with served(one_node(SWITCHED)) as visitor:
        text = words(await page(visitor, "pods/default/train"))

    assert text.count("Its gpu and nic are behind one PCIe switch (PIX).") == 2


async def test_without_a_tree_there_is_no_matrix() -> None:
    """Nothing is made up."""
    async with served(one_node("2 sockets, 8 cores, 32Gi, gpu 2, nic 2")) as visitor:
        assert "How close" not in words(await page(visitor, "nodes/a"))


async def test_zones_without_cpus_that_are_alike_share_a_line() -> None:
    """A page of 34 lines with 34 distances each says less."""
    shape = "2 sockets, 8 cores, 32Gi, 32 cxl 8Gi, gpu 2, nic 2"
    async with served(one_node(shape, policy="none")) as visitor:
        text = words(await page(visitor, "nodes/a"))

    zones = text.partition("Distance to zones with CPUs")[2].partition("Pods")[0]
    assert zones.strip().endswith("2-33 &ndash; &ndash; &ndash; 30 30")


async def test_the_map_of_the_cluster_leaves_out_zones_that_lack_the_resource() -> None:
    """Cells of two zones with CPUs can be read beside 32 without."""
    shape = "2 sockets, 8 cores, 32Gi, 31 cxl 0, cxl 8Gi, gpu 2, nic 2"
    source = one_node(shape, policy="none")

    assert (await source.zone_book.heat("cpu"))["zones"] == 2
    assert (await source.zone_book.heat("memory"))["zones"] == 34
    assert (await source.zone_book.heat("no.such/thing"))["zones"] == 34
    assert (await source.zone_book.heat("cpu"))["most"] == 34
