"""Pods that wait for the same thing are asked about once: the answer is that of each of them."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import NodeSpec
from numakube.api.pod import Pod
from numakube.api.pod_groups import MemberGroup
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.plugins import Filter, Plugin
from numakube.scheduling.queue.queueing_hints import ProfileHints
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod_document
from numakube.testing.scheduler import Scheduler

ZONE = "topology.kubernetes.io/zone"
KINDS = (
    EventKind.POD_ADDED, EventKind.POD_UPDATED, EventKind.POD_DELETED, EventKind.NODE_ADDED,
    EventKind.NODE_UPDATED, EventKind.NODE_REMOVED, EventKind.TOPOLOGY_CHANGED,
    EventKind.STORAGE_CHANGED, EventKind.CLAIM_CHANGED, EventKind.POD_GROUP_CHANGED,
)  # fmt: skip


def spread(key: str) -> dict[str, Any]:
    """Return a constraint that may look at the pod's own labels."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": [key],
    }


def near(app: str) -> dict[str, Any]:
    """Return a wish to be far from the pods of an application."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def differ(document: dict[str, Any], rng: Random) -> None:
    """Let a pod differ from others in something that may matter, or may not."""
    meta, spec = document["metadata"], document["spec"]
    main = spec["containers"][0]
    labels, annotations = meta.setdefault("labels", {}), meta.setdefault("annotations", {})
    one = rng.choice("ab")
    changes: list[tuple[dict[str, Any], str, Any]] = [
        (labels, rng.choice(("app", "controller-uid", "job-name")), one),
        (labels, "scheduling.x-k8s.io/pod-group", one),
        (annotations, rng.choice(("example.com/note", "numakube.dev/closeness")), one),
        (annotations, "topology.numakube.dev/missing-data", rng.choice(("Refuse", "Allow"))),
        (annotations, "numakube.dev/gang-topology", one),
        (meta, "ownerReferences", [{"apiVersion": "v1", "kind": "Job", "name": one, "uid": one}]),
        (main, "env", [{"name": "RANK", "value": one}]),
        (main, "image", one),
        (main, "ports", [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]),
        (main["resources"]["requests"], "cpu", rng.choice(("1", "6", "40"))),
        (spec, "overhead", {"cpu": rng.choice(("1", "2"))}),
        (spec, "tolerations", [{"key": one, "operator": "Exists"}]),
        (spec, "nodeSelector", {ZONE: one}),
        (spec, "affinity", near(one)),
        (spec, "topologySpreadConstraints", [spread(rng.choice(("app", "job-name")))]),
        (spec, "volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": one}}]),
        (spec, "volumes", [{"name": "v", "ephemeral": {}}]),
        (spec, "volumes", [{"name": one, "emptyDir": {}}]),
        (spec, "resourceClaims", [{"name": "c", "resourceClaimName": one}]),
        (spec, "hostNetwork", True),
        (spec, "hostUsers", False),
        (spec, "tolerations", [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        (spec, "nodeName", rng.choice(("n0", "n1"))),
        (spec, "priority", rng.choice((0, 5))),
        (spec, "preemptionPolicy", "Never"),
    ]
    where, key, value = rng.choice(changes)
    where[key] = value


def some_pod(name: str, rng: Random) -> PodInfo:
    """Return one of many pods, few of which are quite alike."""
    document = pod_document(name, "4", metadata={"name": name, "uid": name})
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        differ(document, rng)
    return PodInfo(msgspec.convert(document, Pod))


def some_event(scheduler: Scheduler, rng: Random) -> ClusterEvent:
    """Return something that happens on a node, to a pod or to an object."""
    kind, cluster = rng.choice(KINDS), scheduler.engine.cluster
    node = rng.choice(("n0", "n1", "n2"))
    on_node = kind not in EventKind.STORAGE_CHANGED | EventKind.CLAIM_CHANGED
    is_pods = kind in EventKind.POD_ADDED | EventKind.POD_UPDATED | EventKind.POD_DELETED
    group = ("scheduling.x-k8s.io", "default", rng.choice("ab"))
    return ClusterEvent(
        kind=kind,
        node=node if on_node else "",
        node_info=cluster.node(node) if on_node else None,
        pod=some_pod("other", rng) if is_pods else None,
        claim="" if on_node else rng.choice(("default/a", "default/p1-v")),
        pod_group=group if kind is EventKind.POD_GROUP_CHANGED else None,
    )


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """A cluster with two nodes, one of them with a pod, and gangs."""
    world = World()
    world.add_node("n0", labels={ZONE: "a"})
    world.add_node("n1", "restricted", labels={ZONE: "b"}, machine="1 socket, 4 cores, 8Gi")
    world.add_node("n2", labels={ZONE: "a"})
    for name in "ab":
        world.objects.coscheduling_groups[f"default/{name}"] = MemberGroup()
    made = world.scheduler()
    for name, spec in (
        ("n0", NodeSpec(taints=(Taint(key="a", value="", effect="NoSchedule"),))),
        ("n2", NodeSpec(unschedulable=True)),
    ):
        made.set_node(msgspec.structs.replace(world.nodes[name], spec=spec))
    document = pod_document("there", "1", metadata={"name": "there", "uid": "there"})
    document["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    for name in ("n0", "n1", "n2"):
        held = msgspec.convert(document, Pod)
        meta = msgspec.structs.replace(held.metadata, uid=f"there-{name}")
        held = msgspec.structs.replace(held, metadata=meta)
        made.engine.cluster.place(PodInfo(bound(held, name)), name)
    return made


def answers(plugin: Plugin, pod: PodInfo, event: ClusterEvent, nodes: list[NodeInfo]) -> object:
    """Return all that a plugin says of a waiting pod."""
    judges = plugin.judges_nodes_alone and isinstance(plugin, Filter)
    fits = [plugin.filter(CycleState(), pod, one).ok for one in nodes] if judges else []  # type: ignore[attr-defined]
    return plugin.wakes(pod, event), plugin.looks_beyond(pod, event), fits


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_what_a_plugin_says_of_one_pod_it_says_of_all_that_are_like_it(
    scheduler: Scheduler, seed: int
) -> None:
    """Of every plugin, and whatever happens."""
    rng = Random(seed)
    events = [some_event(scheduler, rng) for _ in range(12)]
    nodes = list(scheduler.engine.cluster.nodes())
    pods = [some_pod(f"p{number}", rng) for number in range(24)]
    for name, plugin in scheduler.runtime.profile.plugins().items():
        told: dict[object, tuple[PodInfo, list[object]]] = {}
        for one in pods:
            said = [answers(plugin, one, event, nodes) for event in events]
            first, expected = told.setdefault(plugin.likeness(one), (one, said))
            assert said == expected, (name, first.pod, one.pod)


@given(seed=st.integers(0, 1 << 32))
def test_what_is_said_of_one_pod_holds_for_all_that_are_like_it(
    scheduler: Scheduler, seed: int
) -> None:
    """Whoever refused them, and whether or not they could evict others."""
    rng = Random(seed)
    hints = ProfileHints(scheduler.engine.runtimes, scheduler.engine.cluster, Nominations())
    names = sorted(scheduler.runtime.profile.plugins())
    refused_by = frozenset(rng.sample(names, rng.randint(1, 3)))
    events = [some_event(scheduler, rng) for _ in range(6)]
    told: dict[object, list[tuple[bool, bool]]] = {}
    for number in range(16):
        one = some_pod(f"p{number}", rng)
        said = [
            (hints.rules_out(one, refused_by, event), hints.wakes(one, refused_by, event))
            for event in events
        ]
        assert told.setdefault(hints.likeness(one, refused_by), said) == said


@pytest.mark.parametrize(
    "field",
    ["labels", "annotations", "ownerReferences", "name", "env", "image", "emptyDir"],
)
def test_pods_that_lack_room_are_alike_whatever_else_tells_them_apart(
    scheduler: Scheduler, field: str
) -> None:
    """Labels of Jobs, environments, names, tokens: no hint looks at them."""
    hints = ProfileHints(scheduler.engine.runtimes, scheduler.engine.cluster, Nominations())
    lacking = frozenset({"NodeResourcesFit", "NodeResourceTopologyMatch", "TaintToleration"})
    found = set()
    for number in range(3):
        own = f"own-{number}"
        document = pod_document(own, "30", metadata={"name": own, "uid": own})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": own, "uid": own}
        changes: dict[str, tuple[dict[str, Any], str, Any]] = {
            "labels": (document["metadata"], "labels", {"batch.kubernetes.io/job-name": own}),
            "annotations": (document["metadata"], "annotations", {"example.com/id": own}),
            "ownerReferences": (document["metadata"], "ownerReferences", [owner]),
            "env": (document["spec"]["containers"][0], "env", [{"name": "ID", "value": own}]),
            "image": (document["spec"]["containers"][0], "image", own),
            "emptyDir": (document["spec"], "volumes", [{"name": own, "emptyDir": {}}]),
            "name": (document["metadata"], "generateName", own),
        }
        where, key, value = changes[field]
        where[key] = value
        info = PodInfo(msgspec.convert(document, Pod))
        found.add(hints.likeness(info, lacking))
    assert len(found) == 1
