"""Pods of one node near and far from each other, where the kubelet chooses their zones."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pytest

from numakube.api.zone_relations import zone_wish_of
from numakube.apps.scheduler.binders import CLIENT
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.explain.explained_pod import manifest_subject
from numakube.insight.explain.pod_explanation import explain
from numakube.insight.how_many_fit import EngineBooks
from numakube.insight.observations import observed, observer
from numakube.kubelet.held_zones import ForeseenZones
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.registry import Handle, Services
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import GPU, World, pod, running
from numakube_planning.audit import audit
from numakube_zone_affinity.explaining import with_relations
from numakube_zone_affinity.node_zones import coming_before
from numakube_zone_affinity.plugin import ZoneAffinity
from numakube_zone_affinity.zone_verdicts import Others, verdict

if TYPE_CHECKING:
    from numakube.api.pod import Pod

TWO_ROOTS: Final = "2 sockets, 8 cores, smt 2, 64Gi, gpu 4, 1 switch"
"""Two NUMA nodes, each with a PCI root that has four GPUs behind it: an ``a3-highgpu-8g``."""
SPREAD: Final = "numakube.dev/zone-spread"
ANTI: Final = "numakube.dev/zone-anti-affinity"
NEAR: Final = "numakube.dev/zone-affinity"
LEVEL: Final = "numakube.dev/zone-level"
MODE: Final = "numakube.dev/zone-mode"
AWAY: Final = {ANTI: "app=worker", MODE: "Required"}
LUCK: Final = "which zone the kubelet takes is luck; use claims or a policy"


def gpu_pod(name: str, app: str, wish: dict[str, str] | None = None, **more: Any) -> Pod:
    """Return a pod with GPUs, one unless *more* says otherwise, and two CPUs."""
    gpus = more.pop("gpu", 1)
    return pod(name, gpu=gpus, labels={"app": app}, annotations=wish or {}, **more)


def in_namespace(one: Pod, namespace: str) -> Pod:
    """Return the same pod in another namespace."""
    metadata = msgspec.structs.replace(one.metadata, namespace=namespace)
    return msgspec.structs.replace(one, metadata=metadata)


def one_node(policy: str = "single-numa-node", machine: str = TWO_ROOTS) -> World:
    """Return a world of one node."""
    world = World()
    world.add_node("n", policy, machine=machine)
    return world


def zone_of(world: World, name: str) -> tuple[int, ...]:
    """Return the NUMA nodes of a pod's devices, by the kubelet that gave them."""
    (node,) = (one.spec.node_name for one in world.pods if one.metadata.name == name)
    kubelet = world.kubelets[node]
    held = kubelet.placement(name, "main").devices[GPU]
    return tuple(sorted({n for id_ in held for n in kubelet.devices.numa_nodes_of(GPU, id_)}))


def plan(world: World, pods: list[Pod]) -> list[tuple[PodInfo, Chosen]]:
    """Return where the members of a gang go, in the order in which they are bound."""
    engine = world.scheduler().engine
    infos = [PodInfo(one) for one in pods]
    request = GangRequest(Gang(name="default/g", min_count=len(pods)), infos, len(pods))
    return GangPlanner(engine, EngineBooks(engine)).plan(request).placements


@pytest.mark.parametrize(
    ("level", "zone"), [("numa", "NUMA node 0"), ("pci-root", "PCI root pci0000:00")]
)
def test_a_pod_is_refused_where_its_kubelet_would_put_it_beside_one_that_it_avoids(
    level: str, zone: str
) -> None:
    world = one_node()
    world.run(gpu_pod("worker", "worker"), "n")
    server = gpu_pod("server", "server", {**AWAY, LEVEL: level})
    assert world.scheduler().reasons(server) == {
        f"zone-anti-affinity app=worker: its kubelet would take {zone}, where one of them is"
    }


def test_it_is_taken_once_its_kubelet_has_no_room_left_there() -> None:
    world = one_node()
    for index in range(4):
        world.run(gpu_pod(f"worker-{index}", "worker"), "n")
    decision = world.scheduler().decide(gpu_pod("server", "server", AWAY))
    assert isinstance(decision, Chosen)
    world.run(gpu_pod("server", "server", AWAY), "n")
    assert zone_of(world, "server") == (1,)


def test_another_node_is_taken_where_the_zone_is_right() -> None:
    world = one_node()
    world.add_node("empty", machine=TWO_ROOTS)
    world.run(gpu_pod("worker", "worker"), "n")
    for wish in (AWAY, {ANTI: "app=worker"}):
        decision = world.scheduler().decide(gpu_pod("server", "server", wish))
        assert isinstance(decision, Chosen)
        assert (decision.node, decision.doubts) == ("empty", ())


def test_what_is_preferred_only_takes_the_wrong_zone_if_there_is_no_other() -> None:
    world = one_node()
    world.run(gpu_pod("worker", "worker"), "n")
    decision = world.scheduler().decide(gpu_pod("server", "server", {ANTI: "app=worker"}))
    assert isinstance(decision, Chosen)
    assert decision.doubts == (
        "zone-anti-affinity app=worker: its kubelet would take NUMA node 0, where one of them is",
    )


def test_pods_of_other_namespaces_keep_nobody_away() -> None:
    world = one_node()
    world.run(in_namespace(gpu_pod("worker", "worker"), "others"), "n")
    world.run(
        in_namespace(gpu_pod("jealous", "jealous", {ANTI: "app", MODE: "Required"}), "others"), "n"
    )
    assert isinstance(world.scheduler().decide(gpu_pod("server", "server", AWAY)), Chosen)


def test_a_pod_that_keeps_others_away_keeps_those_away_that_wish_nothing() -> None:
    world = one_node()
    world.run(gpu_pod("server", "server", AWAY), "n")
    worker = gpu_pod("worker", "worker")
    assert world.scheduler().reasons(worker) == {
        "zone-anti-affinity app=worker of default/server: its kubelet would take NUMA node 0,"
        " where one of them is"
    }
    assert isinstance(world.scheduler().decide(gpu_pod("web", "web")), Chosen)


def test_what_only_prefers_to_be_alone_keeps_nobody_away() -> None:
    world = one_node()
    world.run(gpu_pod("server", "server", {ANTI: "app=worker"}), "n")
    assert isinstance(world.scheduler().decide(gpu_pod("worker", "worker")), Chosen)


def test_pods_are_spread_over_zones() -> None:
    world, wish = one_node(), {SPREAD: "app=prefill", MODE: "Required"}
    world.run(gpu_pod("a", "prefill", wish), "n")
    assert world.scheduler().reasons(gpu_pod("b", "prefill", wish)) == {
        "zone-spread app=prefill: its kubelet would take NUMA node 0, where one of them is;"
        " NUMA node 1 has none"
    }
    for index in range(3):
        world.run(gpu_pod(f"decode-{index}", "decode"), "n")
    world.run(gpu_pod("b", "prefill", wish), "n")
    assert (zone_of(world, "a"), zone_of(world, "b")) == ((0,), (1,))
    assert isinstance(world.scheduler().decide(gpu_pod("c", "prefill", wish)), Chosen)


def test_a_pod_is_put_where_one_is_that_it_wants_near() -> None:
    world, wish = one_node(), {NEAR: "app=cache", MODE: "Required"}
    assert isinstance(world.scheduler().decide(gpu_pod("first", "web", wish)), Chosen)
    world.run(gpu_pod("big", "big", gpu=4), "n")
    world.run(gpu_pod("cache", "cache"), "n")
    assert zone_of(world, "cache") == (1,)
    assert isinstance(world.scheduler().decide(gpu_pod("near", "web", wish)), Chosen)
    world.run(gpu_pod("rest", "big", gpu=3), "n")
    kubelet = world.kubelets["n"]
    kubelet.remove("big")
    kubelet.collect_garbage()
    world.pods = [one for one in world.pods if one.metadata.name != "big"]
    assert world.scheduler().reasons(gpu_pod("late", "web", wish)) == {
        "zone-affinity app=cache: its kubelet would take NUMA node 0; they are in NUMA node 1"
    }


@pytest.mark.parametrize("key", [SPREAD, ANTI, NEAR])
def test_nothing_is_promised_where_the_kubelet_aligns_nothing(key: str) -> None:
    world = one_node("none")
    wish = {key: "app=worker", MODE: "Required"}
    relation = f"{key.rpartition('/')[2]} app=worker"
    assert world.scheduler().reasons(gpu_pod("a", "worker", wish)) == {f"{relation}: {LUCK}"}


def test_nothing_is_promised_of_roots_if_the_kubelet_takes_any_device_of_a_numa_node() -> None:
    world = one_node(machine="1 socket, 8 cores, smt 2, 64Gi, gpu 4, 2 switches")
    wish = {**AWAY, LEVEL: "pci-root"}
    world.run(gpu_pod("worker", "worker"), "n")
    assert world.scheduler().reasons(gpu_pod("a", "server", wish)) == {
        f"zone-anti-affinity app=worker: {LUCK}"
    }


def test_nothing_is_promised_of_roots_beside_a_pod_whose_devices_are_somewhere() -> None:
    """The worker has a device of which nobody knows the root."""
    npu = "vendor.example/npu"
    machine = from_shape(f"{TWO_ROOTS}, npu 2")
    hidden = tuple(replace(device, pci="") for device in machine.devices[npu])
    world = World()
    world.add_node("n", machine=replace(machine, devices={**machine.devices, npu: hidden}))
    world.run(pod("worker", labels={"app": "worker"}, also={npu: "1"}), "n")
    server = gpu_pod("server", "server", {**AWAY, LEVEL: "pci-root"})
    assert world.scheduler().reasons(server) == {
        "zone-anti-affinity app=worker: where default/worker is, is not known"
    }


def test_nothing_is_promised_without_exact_data() -> None:
    from numakube.testing import Scheduler

    scheduler = Scheduler.of(one_node().facts(exact=False))
    assert scheduler.reasons(gpu_pod("a", "server", AWAY)) == {
        "zone-anti-affinity app=worker: where its kubelet puts pods is not known,"
        " for want of exact data"
    }


def test_members_of_a_gang_are_placed_in_an_order_in_which_they_are_spread() -> None:
    """Two prefill pods and four decode pods: whichever order they come in."""
    for mode in ("Preferred", "Required"):
        for order in ("ppdddd", "ddddpp", "dpdpdd"):
            wish = {SPREAD: "app=prefill", MODE: mode}
            kinds = {"p": ("prefill", wish), "d": ("decode", None)}
            pods = [gpu_pod(f"{kind}{at}", *kinds[kind]) for at, kind in enumerate(order)]
            world = one_node()
            placed = plan(world, pods)
            assert "".join(one.name[0] for one, _ in placed) == "pdddpd"
            for one, chosen in placed:
                assert chosen.doubts == ()
                world.run(one.pod, chosen.node)
            prefill = {zone_of(world, f"p{at}") for at, kind in enumerate(order) if kind == "p"}
            assert prefill == {(0,), (1,)}, (mode, order)


def test_a_pod_that_is_in_no_zone_is_told_so() -> None:
    shared = pod("a", guaranteed=False, annotations=AWAY)
    assert one_node().scheduler().reasons(shared) == {
        "zone-anti-affinity app=worker: the pod gets nothing for itself that is in a NUMA node"
    }


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({ANTI: "app in ("}, "zone-anti-affinity"),
        ({ANTI: ""}, "is empty and would mean every pod of the namespace"),
        ({ANTI: "a" * 2000}, "2000 characters; there may be 1024"),
        ({ANTI: "app=x", MODE: "required"}, "unknown word 'required'"),
        ({ANTI: "app=x", LEVEL: "socket"}, "unknown word 'socket'"),
        ({MODE: "Required"}, "says nothing without one of"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(annotations: dict[str, str], told: str) -> None:
    (reason,) = one_node().scheduler().reasons(gpu_pod("a", "a", annotations))
    assert reason.startswith("metadata.annotations[numakube.dev/zone-")
    assert told in reason


def test_the_doctor_and_explanations_say_whether_relations_hold() -> None:
    world = one_node()
    world.run(gpu_pod("worker", "worker"), "n")
    world.run(gpu_pod("server", "server", AWAY), "n")
    facts = world.facts()
    (entry,) = diagnose(facts, only=["NUMA-ZONE-RELATION-BROKEN"]).entries
    assert [(one.subject.name, one.detail) for one in entry.findings] == [
        (
            "server",
            "zone-anti-affinity app=worker does not hold: it is in NUMA node 0, where one of them"
            " is",
        )
    ]
    server = next(one for one in facts.pods if one.metadata.name == "server")
    seen = observer("zone-affinity").of_pod(observed(facts, "n"), server)
    assert seen.is_bad
    assert seen.text == "zone-anti-affinity app=worker does not hold"
    unmet = audit(facts, facts.pods, wishes=[observer("zone-affinity")]).unmet
    assert [(one.name, one.why) for one in unmet] == [("server", seen.words)]
    for index in range(2):
        world.run(gpu_pod(f"worker-{index}", "worker"), "n")
    planned, scheduler = manifest_subject(gpu_pod("planned", "server", AWAY)), world.scheduler()
    told = explain(world.facts(), scheduler.engine, planned)
    told = with_relations(told, scheduler.engine, planned)
    assert "On n it would get NUMA node 1: zone-anti-affinity app=worker holds." in told.notes


def test_a_binding_waits_for_younger_pods_that_have_to_be_there_before_it() -> None:
    world, wish = one_node(), {SPREAD: "app=prefill", MODE: "Required"}
    scheduler = world.scheduler()
    ages = {"old": "2026-01-01T00:00:00Z", "young": "2026-01-02T00:00:00Z"}

    def aged(one: Pod, age: str) -> Pod:
        metadata = msgspec.structs.replace(one.metadata, creation_timestamp=ages[age])
        return msgspec.structs.replace(one, metadata=metadata)

    younger = scheduler.assume(aged(gpu_pod("d", "decode"), "young"))
    older = scheduler.assume(aged(gpu_pod("p", "prefill", wish), "old"))
    node = scheduler.engine.cluster.node("n")
    assert node is not None
    assert coming_before(older, node) == ("default/d",)
    assert coming_before(younger, node) == ()
    scheduler.see(running(younger.pod, "n"))
    assert coming_before(older, node) == ()


async def test_pods_of_other_namespaces_delay_a_binding_and_do_not_prevent_it() -> None:
    """Unless the pod insists on its own relations: then others have to be there first."""
    world = one_node()
    scheduler, sleeps = world.scheduler(), list[float]()

    def aged(one: Pod, day: int, namespace: str) -> Pod:
        created = f"2026-01-0{day}T00:00:00Z"
        metadata = msgspec.structs.replace(
            one.metadata, creation_timestamp=created, namespace=namespace
        )
        return msgspec.structs.replace(one, metadata=metadata)

    class Clock:
        async def sleep(self, seconds: float) -> None:
            sleeps.append(seconds)

    services = Services()
    services.offer(CLIENT, cast("Any", SimpleNamespace(clock=Clock())))
    plugin = ZoneAffinity.make({}, Handle(scheduler.engine.cluster, services=services))
    scheduler.assume(aged(gpu_pod("a", "jealous", {**AWAY}), 9, "theirs"))
    modest = scheduler.assume(aged(gpu_pod("b", "web"), 2, "ours"))
    assert (await plugin.pre_bind(CycleState(), modest, "n")).ok
    assert 9 < sum(sleeps) < 11
    strict = scheduler.assume(aged(gpu_pod("c", "web", {**AWAY}), 1, "ours"))
    assert not (await plugin.pre_bind(CycleState(), strict, "n")).ok


def test_nobody_says_where_a_pod_is_that_its_node_has_not_reported() -> None:
    world = one_node()
    facts = world.facts()
    new = running(gpu_pod("new", "server", AWAY), "n")
    seen = observer("zone-affinity").of_pod(observed(facts, "n"), new)
    assert seen.text == "zone-anti-affinity app=worker unknown"
    assert seen.words == ("zone-anti-affinity app=worker unknown: where the pod is, is not known.",)


def test_a_pod_whose_resources_are_in_no_zone_together_is_told_where_it_would_be() -> None:
    """No zone has all that it asks for; it is in several."""
    (relation,) = zone_wish_of({SPREAD: "app=x"}).relations
    both = frozenset({"NUMA node 0", "NUMA node 1"})
    taken = {str(at): frozenset({"NUMA node 0"}) for at in range(3)}
    others = Others(zones=taken, counts_itself=True)
    told = verdict(relation, others, ForeseenZones(both, both), offered=frozenset())
    assert told.reason == (
        "its kubelet would take NUMA node 0, where 3 of them are; NUMA node 1 has none"
    )
