"""Claimed CPUs and memory in maps and sums: the pod's, and nobody else's."""

from __future__ import annotations

from typing import Any

import msgspec
from test_explaining_amounts import claim, offering

from numakube.api.codec import convert
from numakube.api.pod import PodResourceClaim
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import ResourceSlice
from numakube.insight.explain import explain
from numakube.insight.explain.explained_pod import pod_subject
from numakube.insight.explain.explanation_text import joined, lines_of
from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.usage.pod_alignment import PodUsage, pod_usages
from numakube.insight.usage.zone_usage import node_usage
from numakube.testing import pod
from numakube_planning.audit import audit


def cluster(
    cpus: str = "1-2,9-10", users: tuple[str, ...] = ("web",), memory_zone: int = 0
) -> ClusterFacts:
    """Return a node with a pod that has 4 CPUs and 8Gi of NUMA node 0 by claim."""
    world = offering()
    claim(world, "mine", 4, 8, zone=0)
    tree: Any = msgspec.to_builtins(world.objects.resource_claims["default/mine"])
    told = {"driver": "numakube.dev", "pool": "node-a/compute", "device": "cpu-numa0"}
    tree["status"]["allocation"]["devices"]["results"] = [
        {**result, "device": f"memory-numa{memory_zone}"}
        if result["request"] == "memory"
        else result
        for result in tree["status"]["allocation"]["devices"]["results"]
    ]
    tree["status"]["devices"] = [{**told, "data": {"cpus": cpus}}]
    tree["status"]["reservedFor"] = [
        {"resource": "pods", "name": user, "uid": user} for user in users
    ]
    world.objects.resource_claims["default/mine"] = convert(ResourceClaim, tree)
    uses = (PodResourceClaim(name="numa", resource_claim_name="mine"),)
    world.run(pod("web", cpu="4", memory="8Gi", resource_claims=uses), "node-a")
    world.run(pod("plain", cpu="1", guaranteed=False), "node-a")
    return world.facts()


def usages_of(facts: ClusterFacts) -> dict[str, PodUsage]:
    """Return what each pod has."""
    return {usage.name: usage for usage in pod_usages(facts, facts.pods)}


def test_the_map_draws_claimed_cpus_as_the_pods() -> None:
    picture = node_picture(cluster(), "node-a")
    (mark,) = picture.pods
    assert (mark.name, str(mark.cpus)) == ("default/web", "1-2,9-10")
    assert picture.sharing_pods == 1
    drawn = {device.resource for zone in picture.zones for device in zone.devices}
    assert drawn == {"vendor.example/gpu"}


def test_pods_are_aligned_by_what_their_claims_have() -> None:
    usages = usages_of(cluster())
    web = usages["web"]
    assert (str(web.cpus), web.zones, web.alignment) == ("1-2,9-10", (0,), "aligned")
    assert web.devices == {}
    assert str(usages["plain"].cpus) == ""


def test_zones_have_less_by_what_claims_have() -> None:
    _, zones = node_usage(cluster(), "node-a")
    free = {zone.zone: zone.free for zone in zones}
    assert free[0]["cpu"] == 4000
    assert free[1]["cpu"] == 8000
    assert free[1]["memory"] - free[0]["memory"] == 8 << 30


def test_an_audit_finds_pods_whose_claims_have_several_numa_nodes_and_no_others() -> None:
    """A kubelet that gives no CPUs to pods is no reason where claims do."""
    aligned = cluster()
    assert audit(aligned, aligned.pods, moves=False).misaligned == ()
    spread = cluster(memory_zone=1)
    (found,) = audit(spread, spread.pods, moves=False).misaligned
    assert (found.name, found.zones, found.cause) == ("web", (0, 1), "claims")
    assert found.why == "its claims have zones 0+1: no constraint keeps them together"


def test_what_several_pods_share_is_nobodys_own() -> None:
    usages = usages_of(cluster(users=("web", "other")))
    assert str(usages["web"].cpus) == ""


def test_nonsense_in_a_claims_status_is_nothing() -> None:
    usages = usages_of(cluster(cpus="x"))
    assert str(usages["web"].cpus) == ""


def with_function(facts_of: ClusterFacts, name: str) -> ClusterFacts:
    """Return the cluster with a function that the pod has by another claim."""
    text = {"k8s.cni.cncf.io/resourceName": {"string": name}}
    near = {"resource.kubernetes.io/numaNode": {"int": 0}}
    pool = {"name": "node-a/pci", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"pci-{n}", "attributes": {**near, **text}} for n in range(2)]
    spec = {"driver": "numakube.dev", "nodeName": "node-a", "pool": pool, "devices": devices}
    piece = convert(ResourceSlice, {"metadata": {"name": "pci"}, "spec": spec})
    facts_of.objects.resource_slices["pci"] = piece
    result = {"request": "vf", "driver": "numakube.dev", "pool": "node-a/pci", "device": "pci-0"}
    users = [{"resource": "pods", "name": "web", "uid": "web"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    metadata = {"name": "vf", "namespace": "default", "uid": "vf"}
    claimed = convert(ResourceClaim, {"metadata": metadata, "spec": {}, "status": status})
    facts_of.objects.resource_claims["default/vf"] = claimed
    return facts_of


def test_functions_are_called_as_pods_ask_for_them() -> None:
    facts = with_function(cluster(), "intel.com/sriov")
    assert usages_of(facts)["web"].devices == {"intel.com/sriov": 1}
    _, (first, second) = node_usage(facts, "node-a")
    assert first.free["intel.com/sriov"] == 1
    assert "intel.com/sriov" not in second.free
    drawn = [one for zone in node_picture(facts, "node-a").zones for one in zone.devices]
    assert {one.resource for one in drawn} == {"vendor.example/gpu", "intel.com/sriov"}


def test_a_name_that_is_no_resource_is_not_shown() -> None:
    facts = with_function(cluster(), "\x1b[31mred")
    assert usages_of(facts)["web"].devices == {"numakube.dev": 1}


def test_a_pod_with_claimed_cpus_is_not_said_to_run_on_shared_ones() -> None:
    facts = cluster()
    (running,) = [one for one in facts.pods if one.metadata.name == "web"]
    lines = joined(lines_of(explain(facts, engine_of(facts), pod_subject(running))))
    assert "its CPUs come by claim" in lines
    assert "shared CPUs" not in lines
