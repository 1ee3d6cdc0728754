"""Old versions, clocks that differ, and what may not be read."""

from __future__ import annotations

from tests.insight.doctor.breaking import LONG_AGO, Expected, case
from tests.insight.doctor.documents import SCHEDULER, Documents, pod

from numakube.insight.collected import OTHER_KINDS

LATER = "2026-06-01T12:03:00.000000Z"


@case
def _an_old_kubelet(world: Documents) -> Expected:
    world.nodes["node-0"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.27.16"
    return {"NUMA-NODE-OLD-KUBELET": ("node-0", "v1.27.16")}


@case
def _a_kubelet_from_the_future(world: Documents) -> Expected:
    world.nodes["node-0"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.99.0"
    return {"NUMA-NODE-NEW-KUBELET": ("node-0", "v1.99.0")}


@case
def _an_old_api_server(world: Documents) -> Expected:
    world.version = "v1.20.1+k3s1"
    return {"NUMA-API-OLD": ("v1.20.1+k3s1",)}


@case
def _a_node_that_takes_no_pods(world: Documents) -> Expected:
    del world.nodes["node-0"]["status"]["allocatable"]["pods"]
    return {"NUMA-NODE-NO-PODS": ("node-0", "maxPods")}


@case
def _a_node_without_hostname(world: Documents) -> Expected:
    del world.nodes["node-0"]["metadata"]["labels"]["kubernetes.io/hostname"]
    return {"NUMA-NODE-NO-HOSTNAME": ("node-0", "kubernetes.io/hostname=node-0")}


@case
def _a_clock_that_is_ahead(world: Documents) -> Expected:
    world.leases[1]["spec"]["renewTime"] = LATER
    return {"NUMA-CLOCK-NODE": ("node-1", "3 minutes in the future")}


@case
def _a_clock_that_is_behind(world: Documents) -> Expected:
    world.leases[1]["spec"]["renewTime"] = LONG_AGO
    return {"NUMA-CLOCK-NODE": ("node-1", "it is Ready, yet", "20 minutes")}


@case
def _the_clock_of_the_reader(world: Documents) -> Expected:
    for lease in world.leases:
        lease["spec"]["renewTime"] = LATER
    return {"NUMA-CLOCK-HERE": ("3 minutes behind",)}


@case
def _a_scheduler_without_the_right_to_bind(world: Documents) -> Expected:
    role = next(
        clusterrole
        for clusterrole in world.clusterroles
        if clusterrole["metadata"]["name"] == SCHEDULER
    )
    role["rules"] = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    return {"NUMA-RBAC-MISSING": ("numakube/numakube-scheduler", "may not create pods/binding")}


@case
def _an_exporter_whose_account_has_no_role(world: Documents) -> Expected:
    world.daemonsets[0]["spec"]["template"]["spec"]["serviceAccountName"] = ""
    return {"NUMA-RBAC-MISSING": ("numakube/default", "patch noderesourcetopologies")}


@case
def _events_that_may_not_be_read(world: Documents) -> Expected:
    for what in ("events", "leases.coordination.k8s.io", "podgroups.scheduling.k8s.io"):
        right = f"not allowed (403): list {what}"
        name = what if what.startswith("podgroups") else what.partition(".")[0]
        world.errors.append({"what": name, "why": right})
    rights = "list events, leases.coordination.k8s.io, podgroups.scheduling.k8s.io"
    return {"NUMA-ACCESS-FORBIDDEN": (f"may not (403): {rights}", "--clusterrole=view")}


@case
def _a_scheduler_that_could_not_be_asked(world: Documents) -> Expected:
    world.errors.append({"what": "scheduler/sched-0", "why": "it wants a token: ask for one"})
    return {"NUMA-ACCESS-SCHEDULER": ("sched-0", "it wants a token")}


@case
def _kubelets_that_may_not_be_asked(world: Documents) -> Expected:
    for node in world.nodes:
        why = "not allowed (403): get nodes/proxy"
        world.errors.append({"what": f"configz/{node}.json", "why": why})
    world.configz.clear()
    return {"NUMA-ACCESS-KUBELET": ("node-0", "node-3", "nodes/proxy")}


@case
def _a_dump_without_most_kinds(world: Documents) -> Expected:
    world.errors.append({"what": OTHER_KINDS, "why": "dump.yaml has nodes, pods alone"})
    return {"NUMA-ACCESS-PARTIAL": ("dump.yaml has nodes, pods alone",)}


@case
def _a_pod_that_cannot_be_read(world: Documents) -> Expected:
    world.pods.append(pod("bent"))
    world.pods[-1]["spec"]["containers"] = "none"
    return {"NUMA-ACCESS-MALFORMED": ("default/bent", "containers")}


@case
def _a_quantity_that_no_server_accepts(world: Documents) -> Expected:
    world.nodes["node-0"]["status"]["allocatable"]["vendor.example/nic"] = "several"
    return {"NUMA-DOCTOR-INCOMPLETE": ("several",)}
