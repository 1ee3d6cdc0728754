"""Which smaller requests and other reservations give a pod more places."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.insight.claim_world import DRIVER, add_claim, add_class, claiming, two_zones

from numakube.api.codec import convert
from numakube.api.meta import OwnerReference
from numakube.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from numakube.api.resource_claims import ResourceClaimTemplate
from numakube.insight.planned_pods import with_amounts
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.cycle import Chosen
from numakube.testing import World, kubelet_settings, pod
from numakube.values.cpuset import CpuSet
from numakube.values.resources import amount_of
from numakube_planning.advice import Advice, RequestAdvice, advice_lines, advice_on

GIB = 1 << 30
BOTH = {0: {"memory": GIB // 2}, 1: {"memory": GIB // 2}}


def settings(reserved: str = "0,4", **more: Any) -> KubeletSettings:
    """Return a kubelet that reserves one CPU and half a gibibyte of each zone."""
    return kubelet_settings(reserved=reserved, **{"reserved_memory": BOTH, **more})


def cluster(count: int = 3, **more: Any) -> World:
    """Return nodes of two zones with eight CPUs and 16Gi each, less what is reserved."""
    world = World()
    for number in range(count):
        world.add_node(f"node-{number}", settings=settings(**more))
    return world


def advised(world: World, one: Pod) -> Advice:
    """Return the advice on a pod."""
    return advice_on(world.facts(), engine_of, one, name=f"pod/{one.metadata.name}")


def applied(one: Pod, change: RequestAdvice) -> Pod:
    """Return the pod with a smaller request."""
    amount = amount_of(change.resource, change.to)
    return with_amounts(one, change.container, {change.resource: amount})


def admitted(kubelet: KubeletNode, one: Pod) -> int:
    """Return how many pods like *one* a kubelet admits, one after the other."""
    for number in range(100):
        meta = msgspec.structs.replace(one.metadata, uid=f"copy {number}")
        if not isinstance(kubelet.admit(msgspec.structs.replace(one, metadata=meta)), Admitted):
            return number
    return 100


def test_the_reservation_makes_a_whole_zone_too_small() -> None:
    """Eight CPUs fit nowhere, seven fit everywhere."""
    advice = advised(cluster(), pod("web", cpu="8"))
    (less,) = (one for one in advice.smaller if one.resource == "cpu")
    assert (less.was, less.to, less.nodes, less.slots) == ("8", "7", 3, 6)
    (other,) = advice.reservations
    assert (other.nodes, other.was, other.slots, other.slots_then) == (3, "0,4", 0, 1)
    assert list(advice_lines(advice)) == [
        "pod/web (namespace default) asks for cpu 8, memory 1Gi.",
        "It fits on 0 of 3 nodes now, 0 times in all. Idle, they would hold 0.",
        "",
        "Ask for less:",
        "  cpu 7 instead of 8 in container main: fits on 3 nodes now instead of 0, 6 times on idle"
        " nodes instead of 0; a zone has 7 after reservations.",
        "",
        "Reserve otherwise:",
        "  reservedSystemCPUs 0,4 costs 1 slot of each of 3 nodes like node-0: with 0,8 (zone 0"
        " alone) it holds 1 instead of 0.",
    ]


@pytest.mark.parametrize(
    "one",
    [
        pod("cpus", cpu="4"),
        pod("memory", cpu="1", memory="8Gi"),
        pod("all-memory", cpu="1", memory="16Gi"),
        pod("gpus", cpu="1", gpu=2),
    ],
    ids=lambda one: one.metadata.name,
)
def test_every_smaller_request_holds_what_it_promises(one: Pod) -> None:
    """The scheduler places it, and kubelets admit so many; what is promised grows line by line."""
    world = cluster()
    advice = advised(world, one)
    assert advice.smaller
    best = advice.slots or 0
    for change in advice.smaller:
        smaller = applied(one, change)
        assert isinstance(world.scheduler().decide(smaller), Chosen)
        kubelets = cluster().kubelets.values()
        assert sum(admitted(kubelet, smaller) for kubelet in kubelets) == change.slots > best
        best = change.slots


def test_every_other_reservation_holds_what_it_promises() -> None:
    """For CPUs and for memory, on a kubelet that starts with it."""
    world = cluster(1)
    (cpus,) = advised(world, pod("cpus", cpu="4")).reservations
    chosen = CpuSet.parse(cpus.to.split()[0])
    machine = world.kubelets["node-0"].machine
    kubelet = KubeletNode(machine, settings(str(chosen)))
    assert admitted(kubelet, pod("cpus", cpu="4")) == cpus.slots_then == cpus.slots + 1

    wide = pod("wide", cpu="1", memory="16Gi")
    (memory,) = advised(world, wide).reservations
    assert memory.to == "1Gi of zone 0"
    kubelet = KubeletNode(machine, settings(reserved_memory={0: {"memory": GIB}}))
    assert admitted(kubelet, wide) == memory.slots_then == 1


def test_less_is_reserved_where_moving_does_not_help() -> None:
    """All CPUs for the system are in one zone already, and one of them is too many."""
    world = cluster(1, reserved="0,8", reserved_memory={0: {"memory": GIB}})
    (cpus,) = advised(world, pod("seven", cpu="7")).reservations
    assert (cpus.to, cpus.slots, cpus.slots_then) == ("0 (zone 0 alone)", 1, 2)


def test_what_runs_now_counts_for_places_but_not_for_slots() -> None:
    """Daemons count for both."""
    world = cluster(1)
    world.run(pod("other", cpu="6"), "node-0")
    advice = advised(world, pod("web", cpu="7"))
    assert (advice.nodes, advice.places, advice.slots) == (1, 1, 2)

    world = cluster(1)
    owner = OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name="agent", uid="agent", controller=True
    )
    daemon = pod("agent", cpu="6")
    meta = msgspec.structs.replace(daemon.metadata, owner_references=(owner,))
    world.run(msgspec.structs.replace(daemon, metadata=meta), "node-0")
    advice = advised(world, pod("web", cpu="7"))
    assert (advice.places, advice.slots) == (1, 1)


def test_nodes_that_would_never_take_the_pod_are_left_out() -> None:
    """A selector is not about room."""
    world = cluster(2)
    picky = pod("web", cpu="8", node_selector={"kubernetes.io/hostname": "node-1"})
    advice = advised(world, picky)
    assert [other.nodes for other in advice.smaller if other.resource == "cpu"] == [1]
    assert [reservation.like for reservation in advice.reservations] == ["node-1"]


def test_nothing_is_advised_where_nothing_helps() -> None:
    """And what is not known is said."""
    advice = advised(cluster(1), pod("tiny", cpu="1", memory="1Mi"))
    assert not [other for other in advice.smaller if other.resource == "cpu"]
    counts = advice_on(cluster(1).facts(exact=False), engine_of, pod("web", cpu="8"), name="pod/w")
    assert counts.slots is None
    assert counts.notes == (
        "no node that could take it has exact data: idle nodes are not counted",
    )
    world = two_zones()
    (note,) = advised(world, claiming("web", "mine", cpu="8")).notes
    assert note == 'it is not even tried: could not find ResourceClaim "default/mine"'
    add_claim(world, "mine")
    advice = advised(world, claiming("web", "mine", cpu="8"))
    assert advice.notes == (
        "for its claims, each node is counted once now, and idle nodes as if they had all",
    )


def test_claims_are_made_from_templates_for_the_question() -> None:
    """The pod that is named has its own, which others cannot use."""
    world = two_zones("single-numa-node")
    add_class(world)
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER, "count": 1}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    tree = {"metadata": {"name": "gpu", "namespace": "default"}, "spec": spec}
    template = convert(ResourceClaimTemplate, tree)
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="gpu"),)
    made = (PodResourceClaimStatus(name="gpu", resource_claim_name="others"),)
    one = pod("web", cpu="8", resource_claims=claims)
    one = msgspec.structs.replace(one, status=PodStatus(resource_claim_statuses=made))
    facts = world.facts(claim_templates={"default/gpu": template})
    advice = advice_on(facts, engine_of, one, name="pod/web")
    assert (advice.nodes, advice.places) == (1, 1)
    wide = with_amounts(one, "main", {"cpu": 9000})
    advice = advice_on(facts, engine_of, wide, name="pod/web")
    assert [(less.to, less.nodes) for less in advice.smaller] == [("8", 1), ("7", 1)]


def test_more_cpus_are_advised_where_a_kubelet_gives_out_whole_cores() -> None:
    """Eleven make up no number of them; both neighbours are told."""
    world, shape = World(), "2 sockets, 8 cores, smt 2, 32Gi"
    whole = kubelet_settings(reserved="0,16", cpu_options={"full-pcpus-only": "true"})
    world.add_node("n", machine=shape, settings=whole)
    advice = advised(world, pod("a", cpu="11"))
    assert [(other.was, other.to, other.nodes) for other in advice.larger] == [("11", "12", 1)]
    assert advice.smaller[0].to == "10"
    lines = list(advice_lines(advice))
    assert lines.index("Ask for more:") < lines.index("Ask for less:")
    assert advised(world, pod("a", cpu="12")).larger == ()
    assert advised(world, pod("a", cpu="1500m")).larger == ()
