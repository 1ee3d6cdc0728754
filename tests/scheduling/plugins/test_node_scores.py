"""The plugins that only score, beside what Kubernetes' documentation says."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, SUCCESS
from numakube.scheduling.plugins.node_scores import ImageLocality, NodeResourcesBalancedAllocation
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

NAMES = ("cpu", "memory", "vendor.example/gpu")
MIB = 1 << 20
Rating = NodeResourcesBalancedAllocation | ImageLocality


def pod(amounts: dict[str, int], *images: str, init: str = "", name: str = "p") -> PodInfo:
    """A pod of one container for each image."""
    requests = {key: str(value) for key, value in amounts.items() if value}
    containers: list[dict[str, Any]] = [
        {"name": f"c{at}", "image": image} for at, image in enumerate(images or ("none",))
    ]
    containers[0]["resources"] = {"requests": requests, "limits": requests}
    before = [{"name": "i", "image": init}] if init else []
    meta = {"name": name, "namespace": "d", "uid": name}
    spec = {"containers": containers, "initContainers": before}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def node(name: str, amounts: dict[str, int], **images: int) -> Node:
    """A node with images of so many MiB."""
    status = {
        "allocatable": {**{key: str(value) for key, value in amounts.items()}, "pods": "110"},
        "images": [{"names": [key], "sizeBytes": size * MIB} for key, size in images.items()],
    }
    return convert(Node, {"metadata": {"name": name}, "status": status})


def scores(plugin: Rating, cluster: Cluster, one: PodInfo) -> dict[str, int]:
    """Return the scores, which are the same one by one and all at once."""
    state, snapshot = CycleState(), cluster.snapshot()
    assert plugin.pre_score(state, one, snapshot, snapshot.rows) is SUCCESS
    each = {
        snapshot.at(int(row)).name: plugin.score(state, one, snapshot.at(int(row)))
        for row in snapshot.rows
    }
    assert plugin.score_all(state, one, snapshot, snapshot.rows).tolist() == list(each.values())
    return each


def balance(offered: dict[str, int], there: dict[str, int], wanted: dict[str, int]) -> int:
    """Rate by the standard deviation of the used shares; two are judged by half their distance.

    GPUs count only for a pod that wants some.
    """
    rated = [key for key in NAMES if offered[key] and ("/" not in key or wanted[key])]
    shares = [min((there[key] + wanted[key]) / offered[key], 1.0) for key in rated]
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    return int((1 - statistics.pstdev(shares)) * 100)


amounts = st.fixed_dictionaries({name: st.sampled_from((0, 1, 2, 5)) for name in NAMES})


@settings(max_examples=150)
@given(
    st.lists(
        st.fixed_dictionaries({name: st.sampled_from((0, 3, 8, 10)) for name in NAMES}),
        min_size=1,
        max_size=4,
    ),
    amounts,
    amounts,
)
def test_a_node_is_rated_by_how_even_its_resources_are_used(
    nodes: list[dict[str, int]], there: dict[str, int], wanted: dict[str, int]
) -> None:
    """Of what it does not have nothing is used; what is used up is used up."""
    cluster = Cluster()
    for at, offered in enumerate(nodes):
        cluster.set_node(node(f"n{at}", offered))
        cluster.place(pod(there, name=f"p{at}"), f"n{at}")
    resources = [{"name": name, "weight": 1} for name in NAMES]
    plugin = NodeResourcesBalancedAllocation.from_args({"resources": resources})
    if not any(wanted.values()):
        snapshot = cluster.snapshot()
        assert plugin.pre_score(CycleState(), pod(wanted), snapshot, snapshot.rows) is SKIP
        return
    found = scores(plugin, cluster, pod(wanted))
    for at, offered in enumerate(nodes):
        # The last bit of a float may differ: kube-scheduler adds up in another order.
        assert abs(found[f"n{at}"] - balance(offered, there, wanted)) <= 1


def test_exact_values_of_the_balance() -> None:
    """Worked out by hand."""
    cluster = Cluster()
    cluster.set_node(node("n", {"cpu": 10, "memory": 10, NAMES[2]: 10}))
    resources = [{"name": name, "weight": 1} for name in NAMES]
    plugin = NodeResourcesBalancedAllocation.from_args({"resources": resources})
    assert scores(plugin, cluster, pod({"cpu": 6, "memory": 3, NAMES[2]: 3})) == {"n": 85}
    assert scores(plugin, cluster, pod({"cpu": 10})) == {"n": 50}
    assert scores(plugin, cluster, pod({"cpu": 10, NAMES[2]: 10})) == {"n": 52}
    two = NodeResourcesBalancedAllocation()
    assert scores(two, cluster, pod({"cpu": 8, "memory": 2})) == {"n": 70}


@pytest.mark.parametrize(
    ("images", "init", "expected"),
    [
        (("none",), "", {"n0": 0, "n1": 0}),
        (("big",), "", {"n0": 48, "n1": 0}),
        (("big:latest",), "", {"n0": 48, "n1": 0}),
        (("big:1",), "", {"n0": 0, "n1": 0}),
        (("registry:5000/other",), "", {"n0": 0, "n1": 16}),
        (("small",), "", {"n0": 0, "n1": 0}),
        (("both",), "", {"n0": 79, "n1": 79}),
        (("huge",), "", {"n0": 0, "n1": 100}),
        (("huge", "none"), "", {"n0": 0, "n1": 100}),
        (("huge", "none", "none"), "", {"n0": 0, "n1": 83}),
        (("big", "both"), "", {"n0": 64, "n1": 39}),
        (("big",), "both", {"n0": 64, "n1": 39}),
        (("both", "both"), "", {"n0": 79, "n1": 79}),
    ],
)
def test_nodes_that_have_the_images_are_rated_by_their_size(
    images: tuple[str, ...], init: str, expected: dict[str, int]
) -> None:
    """Each counts by the share of nodes that have it; from 23 MiB up to 1000 for a container."""
    cluster = Cluster()
    names = {"big:latest": 1000, "small:latest": 40, "both:latest": 800}
    cluster.set_node(node("n0", {"cpu": 1}, **names))
    others = {"both:latest": 800, "huge:latest": 5000, "registry:5000/other:latest": 366}
    cluster.set_node(node("n1", {"cpu": 1}, **others))
    assert scores(ImageLocality(), cluster, pod({}, *images, init=init)) == expected
