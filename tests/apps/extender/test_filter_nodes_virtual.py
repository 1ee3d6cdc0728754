"""Nodes that do not exist are judged by the topology of their group."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from benchmarks.scale_up import play
from tests.apps.extender.place import Place, node_document, pod_document

from numakube.api.pod import Pod
from numakube.apps.extender.extender_messages import ExtenderArgs, FilterResult, NodeList
from numakube.apps.extender.filter_nodes import KEY, MARK, UNKNOWN_GROUP
from numakube.apps.extender.process import ExtenderProcess
from numakube.insight.node_groups import MACHINE
from numakube.kube.catalog import CONFIG_MAPS, NODES
from numakube.kube.client import merge_patch
from numakube.manifests.extender import NODE_GROUPS
from numakube.testing import until

POOL = {"cloud.google.com/gke-nodepool": "large"}
SHAPE = "2 sockets, 8 cores, smt 1, 16Gi"


def template(name: str, cpu: str = "16", **metadata: Any) -> dict[str, Any]:
    """Return a node as an autoscaler makes it up."""
    document = node_document(name, cpu)
    return {**document, "metadata": {"name": name, **metadata}}


def tried(extender: ExtenderProcess, pod: Pod, *nodes: dict[str, Any]) -> FilterResult:
    """Return what is said of whole node objects."""
    items = tuple(msgspec.Raw(msgspec.json.encode(node)) for node in nodes)
    return extender.verbs.filter(ExtenderArgs(pod=pod, nodes=NodeList(items=items)))


def kept(result: FilterResult) -> list[str]:
    """Return the names of the nodes that can take the pod."""
    items = result.nodes.items if result.nodes is not None else None
    return [msgspec.json.decode(item)["metadata"]["name"] for item in items or ()]


async def test_a_new_node_is_like_those_of_its_group_when_idle(place: Place) -> None:
    """The one that is there is full; nothing is promised to a pod by the question."""
    extender = await place.start()
    await place.node("there", 5, 5)
    await place.client.patch(NODES, "there", merge_patch({"metadata": {"labels": POOL}}))
    await place.seen(lambda one: one.mirror.cluster.node("there").labels)
    six, ten = await place.pod("six", "6"), await place.pod("ten", "10")
    new, other = template("new", labels=POOL), template("small", "8", labels=POOL)

    result = tried(extender, six, template("there"), new, other)

    assert kept(result) == ["new"]
    assert result.failed_and_unresolvable_nodes == {"small": UNKNOWN_GROUP}
    assert "cannot align" in result.failed_nodes["there"]
    refused = tried(extender, ten, new).failed_and_unresolvable_nodes
    assert refused == {"new": f"{MARK}cannot align container main (cpu)"}
    assert not extender.recording.recorder.called("default", "six")


async def test_a_group_can_be_described_before_it_has_nodes(place: Place) -> None:
    """By an annotation of the template, or in a ConfigMap that finds it by its labels."""
    extender = await place.start()
    pod = await place.pod("p", "6")
    told = template("told", annotations={MACHINE: f"{SHAPE}; policy=single-numa-node"})
    small = template("small", annotations={MACHINE: "4 sockets, 4 cores, smt 1, 16Gi"})
    found = template("found", labels={"pool": "a"})
    assert kept(tried(extender, pod, told, small, found)) == ["told"]
    document = {"metadata": {"name": NODE_GROUPS}, "data": {KEY: _groups({"pool": "a"})}}

    await place.client.create(CONFIG_MAPS, document, namespace="numakube")

    await until(lambda: kept(tried(extender, pod, found)) == ["found"])
    broken = merge_patch({"data": {KEY: "groups: [{node: many}]"}})
    await place.client.patch(CONFIG_MAPS, NODE_GROUPS, broken, namespace="numakube")
    assert kept(tried(extender, pod, found)) == ["found"]
    refused = tried(extender, pod, template("odd", annotations={MACHINE: "many"}))
    assert "'many'" in refused.failed_and_unresolvable_nodes["odd"]


async def test_pods_that_want_nothing_of_zones_get_nodes_of_any_group(place: Place) -> None:
    """A group of which nothing is known is refused to others."""
    extender = await place.start()
    document = pod_document("plain")
    document["spec"]["containers"][0]["resources"] = {}
    plain = msgspec.convert(document, Pod)
    wants = await place.pod("p", "1")

    assert kept(tried(extender, plain, template("new"))) == ["new"]
    assert tried(extender, wants, template("new")).failed_and_unresolvable_nodes == {
        "new": UNKNOWN_GROUP
    }


def test_no_group_is_picked_on_which_the_kubelet_model_refuses_the_pod() -> None:
    """Whichever way its topology is known; ``python -m benchmarks scale_up`` tries more."""
    found = sum(map(play, range(200)), Counter[str]())

    assert found["admitted"] > 50
    assert found["refused"] > 50
    assert not any(outcome.startswith("wrongly") for outcome in found)


def _groups(labels: dict[str, str]) -> str:
    return msgspec.json.encode({"groups": [{"labels": labels, "node": SHAPE}]}).decode()
