"""What looks broken and is not: cases in which the doctor must hold its tongue."""

from __future__ import annotations

import pytest
from tests.insight.doctor.documents import NOW, Documents, healthy, pod, resources, workload

from numakube.insight.deployed_programs import ProgramRole
from numakube.insight.doctor.program_rights_checks import NEEDED, check_rights
from numakube.manifests.exporter import ExporterManifest
from numakube.manifests.extender import ExtenderManifest
from numakube.manifests.scheduler import SchedulerManifest
from numakube.topology.fingerprint import fingerprint_of

FINGERPRINT = "nodeTopologyPodsFingerprint"
METHOD = "nodeTopologyPodsFingerprintMethod"


def ids(world: Documents) -> list[str]:
    """Return the ids of what is found."""
    return [entry.rule.id for entry in world.diagnosis().entries]


def reported_as(world: Documents, *names: str, method: str = "all") -> None:
    """Let node-0 have a foreign report with the fingerprint of these pods."""
    told = {
        FINGERPRINT: fingerprint_of([("default", name) for name in names]),
        METHOD: method,
    }
    world.report("node-0", exact=False, attributes=told)


def test_a_fingerprint_of_the_pods_there_is_well() -> None:
    """Of all of them."""
    world = healthy()
    world.run("shared", "node-0", resources={})
    reported_as(world, "web-0", "shared")
    assert ids(world) == []


def test_a_fingerprint_may_be_of_exclusive_pods_only() -> None:
    """If its method says so."""
    world = healthy()
    world.run("shared", "node-0", resources={})
    reported_as(world, "web-0", method="with-exclusive-resources")
    assert ids(world) == []


def test_ended_pods_may_be_in_a_fingerprint_or_not() -> None:
    """Producers differ."""
    world = healthy()
    world.pods.append(pod("done", node="node-0", status={"phase": "Succeeded"}))
    reported_as(world, "web-0")
    assert ids(world) == []
    reported_as(world, "web-0", "done")
    assert ids(world) == []


def test_reports_may_be_late() -> None:
    """A pod that came a moment ago is not missed, by name or by fingerprint."""
    world = healthy()
    world.run("fresh", "node-1", status={"startTime": NOW})
    world.run("new", "node-0", status={"startTime": NOW})
    reported_as(world, "web-0")
    assert ids(world) == []


def test_a_pod_that_went_a_moment_ago_is_still_in_the_report() -> None:
    """Events of the kubelet tell that something has happened there."""
    world = healthy()
    reported_as(world, "web-0", "gone")
    assert ids(world) == ["NUMA-NRT-FINGERPRINT"]
    killed = {"reason": "Killing", "source": {"host": "node-0"}, "lastTimestamp": NOW}
    world.events.append(killed)
    assert ids(world) == []


def test_nodes_that_exporters_do_not_choose_need_no_report() -> None:
    """The node selector of the DaemonSet says which nodes are meant."""
    world = healthy()
    del world.topologies["node-1"]
    assert ids(world) == ["NUMA-NRT-MISSING"]
    world.daemonsets[0]["spec"]["template"]["spec"]["nodeSelector"] = {"numa": "yes"}
    assert ids(world) == []
    world.nodes["node-1"]["metadata"]["labels"]["numa"] = "yes"
    assert ids(world) == ["NUMA-NRT-MISSING"]


@pytest.mark.parametrize("change", ["new", "down", "control-plane", "windows"])
def test_some_nodes_need_no_report(change: str) -> None:
    """New ones, those that are down, and those that are not for pods of users."""
    world = healthy()
    del world.topologies["node-1"]
    node = world.nodes["node-1"]
    if change == "new":
        node["metadata"]["creationTimestamp"] = NOW
    elif change == "down":
        node["status"]["conditions"][0]["status"] = "Unknown"
    elif change == "control-plane":
        key = "node-role.kubernetes.io/control-plane"
        node["spec"] = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    else:
        node["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    assert ids(world) == []


def test_pods_of_other_schedulers_need_not_be_aligned() -> None:
    """Most pods of a cluster are not meant to be."""
    world = healthy()
    loose = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "3"}}
    world.run("loose", "node-0", resources=loose, spec={"schedulerName": "default-scheduler"})
    world.report("node-0")
    assert ids(world) == []


def test_a_pod_that_waits_for_room_is_no_finding() -> None:
    """It fits an empty zone, and none has room for it now."""
    world = healthy()
    wanted = resources(cpu=10, memory="1Gi")
    for node in world.nodes:
        for number in range(2):
            world.run(f"holds-{node}-{number}", node, resources=wanted)
        world.report(node)
    world.pods.append(pod("patient", resources=wanted))
    assert ids(world) == []


def test_a_pod_larger_than_a_zone_fits_where_zones_may_be_joined() -> None:
    """A node with the policy restricted takes two."""
    world = healthy()
    wanted = {"cpu": 20, "memory": "1Gi"}
    world.pods.append(pod("wide", resources={"requests": wanted, "limits": wanted}))
    assert ids(world) == ["NUMA-POD-TOO-BIG"]
    world.add_node("joining", kubelet="policy=restricted")
    world.nodes["joining"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    assert ids(world) == []


def test_gated_and_new_pods_are_not_lost() -> None:
    """No scheduler looks at a gated pod, and none has had time for a new one."""
    world = healthy()
    gated = pod("gated", spec={"schedulerName": "none", "schedulingGates": [{"name": "later"}]})
    new = pod("new", spec={"schedulerName": "none"}, metadata={"creationTimestamp": NOW})
    for entry in (gated, new):
        entry["status"]["conditions"] = []
        world.pods.append(entry)
    assert ids(world) == []


def test_two_pools_of_one_type_are_on_purpose() -> None:
    """One of many nodes that differs is not."""
    world = healthy()
    for number in range(4):
        world.add_node(f"other-{number}", kubelet="policy=restricted")
    assert ids(world) == []


def test_kubelets_may_be_told_to_expect_many_zones() -> None:
    """Their own configuration says so, or exact data, even if another's report does not."""
    world = Documents()
    options = "policy=single-numa-node,max-allowable-numa-nodes=16"
    world.add_node("many", machine="2 sockets, 8 numa each, 2 cores, smt 2, 2Gi", kubelet=options)
    told = world.configz.pop("many")
    assert ids(world) == []
    world.configz["many"] = told
    world.report("many", exact=False)
    assert ids(world) == []
    del world.configz["many"]
    assert ids(world) == ["NUMA-KUBELET-TOO-MANY-ZONES"]


def test_unreadable_leases_are_no_proof_that_there_is_no_scheduler() -> None:
    """A name is called unknown only if everything that could know it was read."""
    world = healthy()
    world.errors.append({"what": "leases", "why": "not allowed: leases"})
    world.leases.clear()
    world.pods.append(pod("lost", spec={"schedulerName": "elsewhere"}))
    world.pods[-1]["status"]["conditions"] = []
    assert ids(world) == ["NUMA-SCHEDULER-SILENT", "NUMA-ACCESS-FORBIDDEN"]


def test_the_manifests_give_the_rights_that_are_asked_for() -> None:
    """For every program that has manifests; and without rights to look at, nothing is said."""
    world = Documents()
    for program in (ProgramRole.EXPORTER, ProgramRole.SCHEDULER, ProgramRole.EXTENDER):
        (world.daemonsets if program is ProgramRole.EXPORTER else world.deployments).append(
            workload(program.value)
        )
    assert list(check_rights(world.facts())) == []
    makers = (SchedulerManifest(), ExporterManifest(), ExtenderManifest())
    for maker in makers:
        world.apply(*maker.objects())
    assert list(check_rights(world.facts())) == []
    assert set(NEEDED) == set(ProgramRole)
    world.clusterroles.clear()
    assert len(list(check_rights(world.facts()))) == 3
