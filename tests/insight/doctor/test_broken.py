"""Clusters that are broken in one way each: the doctor finds that, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.insight.doctor import claim_cases, placement_cases, report_cases  # noqa: F401 - cases
from tests.insight.doctor.breaking import CASES, Break, Expected, case, kubelet_config
from tests.insight.doctor.documents import (
    KUBELET,
    SCHEDULER,
    Documents,
    healthy,
    lease,
    owned_by,
    pod,
    resources,
)

from numakube.insight.doctor.all_checks import RULES

LATER = "2026-06-01T12:03:00.000000Z"
LONG_AGO = "2026-06-01T11:40:00.000000Z"


# Kubelets


@case
def _policy_none_where_pods_want_alignment(world: Documents) -> Expected:
    del world.nodes["node-0"], world.topologies["node-0"], world.configz["node-0"]
    world.pods = world.pods[1:]
    world.add_node("blind", kubelet="policy=none")
    world.nodes["blind"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    world.run("wishful", "blind")
    world.report("blind")
    return {"NUMA-KUBELET-POLICY-NONE": ("blind", "default/wishful", "topologyManagerPolicy")}


@case
def _cpu_manager_off(world: Documents) -> Expected:
    world.add_node("shared", kubelet=f"{KUBELET},cpu=none")
    world.nodes["shared"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    return {"NUMA-KUBELET-CPU-NOT-STATIC": ("shared", "single-numa-node", "cpu_manager_state")}


@case
def _memory_manager_off(world: Documents) -> Expected:
    world.add_node("loose", kubelet=f"{KUBELET},memory=None")
    world.nodes["loose"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    return {"NUMA-KUBELET-MEMORY-OFF": ("loose", "memoryManagerPolicy is None")}


@case
def _reserved_memory_does_not_add_up(world: Documents) -> Expected:
    kubelet_config(world, "node-1", kubeReserved={"memory": "1Gi"})
    return {"NUMA-KUBELET-RESERVED-MEMORY": ("node-1", "512Mi", "1124Mi")}


@case
def _a_setting_that_kubelets_refuse(world: Documents) -> Expected:
    kubelet_config(world, "node-1", podsPerCore=-1)
    return {"NUMA-KUBELET-INVALID-CONFIG": ("node-1", "podsPerCore")}


@case
def _static_cpus_without_a_reserved_one(world: Documents) -> Expected:
    kubelet_config(world, "node-2", reservedSystemCPUs="")
    return {"NUMA-KUBELET-NO-RESERVED-CPUS": ("node-2", "reservedSystemCPUs")}


@case
def _sixteen_zones_and_no_option(world: Documents) -> Expected:
    many = "2 sockets, 8 numa each, 2 cores, smt 2, 2Gi"
    options = f"{KUBELET},max-allowable-numa-nodes=16"
    world.add_node("many", machine=many, kubelet=options)
    world.nodes["many"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    world.report("many", exact=False)
    kubelet_config(world, "many", topologyManagerPolicyOptions={})
    return {"NUMA-KUBELET-TOO-MANY-ZONES": ("many", "16 NUMA nodes", "max-allowable-numa-nodes")}


def _of_a_kind_of_its_own(world: Documents, name: str, *, machine: str, kubelet: str) -> None:
    world.add_node(name, machine=machine, kubelet=kubelet)
    world.nodes[name]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")


@case
def _a_page_size_that_one_numa_node_lacks(world: Documents) -> Expected:
    pages = "2 sockets, 8 cores, smt 2, 32Gi, hugepages-1Gi 2/-"
    _of_a_kind_of_its_own(world, "pages", machine=pages, kubelet=KUBELET)
    return {"NUMA-KUBELET-CRASH": ("pages", "hugepages-1Gi", "node 1", "memoryManagerPolicy")}


@case
def _thirty_four_numa_nodes_under_the_static_memory_manager(world: Documents) -> Expected:
    words = f"{KUBELET},memory=Static"
    _of_a_kind_of_its_own(world, "gpus", machine="gb200-nvl4, nvidia.com/gpu 0", kubelet=words)
    return {"NUMA-KUBELET-NO-ANSWER": ("gpus", "would not answer for about 10 hours", "None")}


@case
def _one_node_of_a_pool_differs(world: Documents) -> Expected:
    world.add_node("odd", kubelet="policy=restricted,scope=pod")
    return {"NUMA-KUBELET-MIXED-POLICIES": ("odd", "restricted/pod", "instance-type=big")}


@case
def _cpu_manager_that_looks_once_a_minute(world: Documents) -> Expected:
    kubelet_config(world, "node-0", cpuManagerReconcilePeriod="1m0s")
    return {"NUMA-KUBELET-SLOW-RECONCILE": ("node-0", "1m0s")}


# Processes and schedulers


@case
def _exporters_that_are_not_ready(world: Documents) -> Expected:
    world.daemonsets[0]["status"]["numberReady"] = 1
    return {"NUMA-EXPORTER-NOT-READY": ("numakube/numakube-exporter", "1 of 4")}


@case
def _a_scheduler_that_is_not_ready(world: Documents) -> Expected:
    world.deployments[0]["status"]["readyReplicas"] = 0
    return {"NUMA-SCHEDULER-NOT-READY": ("numakube/numakube-scheduler", "0 of 2")}


@case
def _an_exporter_that_crashes(world: Documents) -> Expected:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {"name": "exporter", "restartCount": 3, "state": state, "lastState": last}
    crashing = pod("exporter-x", node="node-0", resources={})
    crashing["metadata"] |= {"namespace": "numakube", "labels": {"app": "exporter"}}
    crashing["status"]["containerStatuses"] = [status]
    world.pods.append(crashing)
    return {"NUMA-PROCESS-RESTARTS": ("numakube/exporter-x", "exit code 137 (OOMKilled)")}


@case
def _two_exporters_on_one_node(world: Documents) -> Expected:
    container = {"name": "rte", "image": "quay.io/x/resource-topology-exporter:v1"}
    labels = {"app": "rte"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    world.daemonsets.append({"metadata": {"name": "rte", "namespace": "rte"}, "spec": spec})
    for name, namespace, app in (("e-1", "numakube", "exporter"), ("r-1", "rte", "rte")):
        one = pod(name, node="node-0", resources={})
        one["metadata"] |= {"namespace": namespace, "labels": {"app": app}}
        world.pods.append(one)
    return {"NUMA-EXPORTER-TWICE": ("node-0", "pods of numakube/numakube-exporter and rte/rte")}


@case
def _an_exporter_that_may_not_write(world: Documents) -> Expected:
    failed = {"type": "NodeTopologyUpdated", "status": "False", "reason": "UpdateFailed"}
    exporter = pod("exporter-x", node="node-0", resources={})
    exporter["metadata"] |= {"namespace": "numakube", "labels": {"app": "exporter"}}
    exporter["status"]["conditions"] = [failed]
    world.pods.append(exporter)
    return {"NUMA-EXPORTER-CONDITION": ("numakube/exporter-x", "UpdateFailed")}


@case
def _a_node_that_a_scheduler_does_not_trust(world: Documents) -> Expected:
    numa = {"blocked": "foreign pods", "zones": []}
    cache = {"nodes": [{"name": "node-0", "numa": numa}, {"name": "node-1"}]}
    world.schedulers["numakube-scheduler-1", "cache"] = cache
    return {"NUMA-SCHEDULER-BLOCKED-NODES": ("node-0", "foreign pods")}


@case
def _an_object_that_a_scheduler_cannot_use(world: Documents) -> Expected:
    unusable = [{"object": "Pod default/odd", "reason": "KeyError: 'x'"}]
    world.schedulers["numakube-scheduler-1", "cache"] = {"nodes": [], "unusable": unusable}
    return {"NUMA-SCHEDULER-UNUSABLE-OBJECT": ("default/odd", "KeyError: 'x'")}


@case
def _a_scheduler_without_any_reports_c21(world: Documents) -> Expected:
    document = {"nodes": [], "topologyTrouble": "never synced: the cluster serves none"}
    world.schedulers["numakube-scheduler-1", "cache"] = document
    return {"NUMA-SCHEDULER-NO-TOPOLOGIES": ("numakube-scheduler-1: never synced", "deploy api")}


def mispredicted(severity: str) -> dict[str, Any]:
    """Return what a scheduler records of a pod that came out otherwise than foreseen."""
    event = {"event": "mispredicted", "node": "node-1", "severity": severity}
    attempts = [{"number": 1, "events": [{"event": "bound", "node": "node-1"}, event]}]
    return {"items": [{"pod": "default/web-1", "attempts": attempts}]}


@case
def _a_verdict_that_was_not_foreseen(world: Documents) -> Expected:
    world.schedulers["numakube-scheduler-1", "attempts"] = mispredicted("verdict")
    return {"NUMA-SCHEDULER-MISPREDICTED": ("node-1", "trace pod web-1 -n default")}


@case
def _zones_that_were_not_foreseen(world: Documents) -> Expected:
    world.schedulers["numakube-scheduler-1", "attempts"] = mispredicted("zones")
    return {"NUMA-SCHEDULER-OTHER-ZONES": ("node-1", "default/web-1")}


@case
def _a_typo_in_the_name_of_the_scheduler(world: Documents) -> Expected:
    world.pods.append(pod("lost", spec={"schedulerName": "numakube-schedular"}))
    world.pods[-1]["status"]["conditions"] = []
    return {"NUMA-SCHEDULER-UNKNOWN": ("default/lost", "did you mean numakube-scheduler?")}


@case
def _a_scheduler_that_says_nothing(world: Documents) -> Expected:
    world.pods.append(pod("ignored"))
    world.pods[-1]["status"]["conditions"] = []
    return {"NUMA-SCHEDULER-SILENT": ("default/ignored", SCHEDULER)}


@case
def _a_lease_that_nobody_renews(world: Documents) -> Expected:
    world.leases[-1]["spec"]["renewTime"] = LONG_AGO
    return {"NUMA-SCHEDULER-LEASE-EXPIRED": ("numakube/numakube-scheduler", "20 minutes")}


@case
def _two_leaders(world: Documents) -> Expected:
    world.leases.append(lease(SCHEDULER, namespace="other", holder="another"))
    return {"NUMA-SCHEDULER-TWO-LEADERS": ("numakube/", "other/", "another leads")}


@case
def _two_that_say_they_lead(world: Documents) -> Expected:
    config = {"kubescheduler.config.k8s.io": {"profiles": [{"schedulerName": SCHEDULER}]}}
    for name in ("one", "other"):
        queue = {"speaker": {"kind": "scheduler", "identity": name, "leads": True}}
        world.schedulers[name, "queue"] = queue
        world.schedulers[name, "configz"] = config
    return {"NUMA-SCHEDULER-TWO-LEADERS": (f"profile {SCHEDULER}: one, other",)}


@case
def _a_kube_scheduler_beside_ours_for_the_default_scheduler(world: Documents) -> Expected:
    """B16: it holds its lease, and ours waits."""
    config = {"profiles": [{"schedulerName": "default-scheduler"}]}
    world.schedulers["one", "configz"] = {"kubescheduler.config.k8s.io": config}
    world.leases.append(lease("kube-scheduler", namespace="kube-system", holder="master-1_0c5f"))
    words = ("kube-system/kube-scheduler", "master-1_0c5f holds the lease: ours waits")
    return {"NUMA-SCHEDULER-SHARED-NAME": words}


@case
def _a_kube_scheduler_that_stands_by_while_ours_leads(world: Documents) -> Expected:
    """B16: it would take the pods when ours stops."""
    config = {"profiles": [{"schedulerName": "default-scheduler"}]}
    world.schedulers["one", "configz"] = {"kubescheduler.config.k8s.io": config}
    holder = "numakube-scheduler_0c5f"
    world.leases.append(lease("kube-scheduler", namespace="kube-system", holder=holder))
    world.pods[0]["metadata"]["labels"] = {"component": "kube-scheduler"}
    return {"NUMA-SCHEDULER-SHARED-NAME": ("web-0", "stands by while ours leads")}


# Pods


@case
def _fractions_of_cpus(world: Documents) -> Expected:
    wanted = resources(cpu="1500m", memory="1Gi")
    for number in range(3):
        meta = owned_by("ReplicaSet", "thin")
        world.run(f"thin-{number}", "node-0", resources=wanted, metadata=meta)
    world.report("node-0")
    return {"NUMA-POD-FRACTIONAL-CPU": ("ReplicaSet", "default/thin", "1500m")}


@case
def _a_pod_that_is_not_guaranteed(world: Documents) -> Expected:
    wanted = {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": 4, "memory": "1Gi"}}
    world.run("burst", "node-0", resources=wanted)
    world.report("node-0")
    return {"NUMA-POD-NOT-GUARANTEED": ("default/burst", "Burstable")}


@case
def _a_helper_on_shared_cpus(world: Documents) -> Expected:
    containers = [
        {"name": "main", "resources": resources(cpu=2, memory="1Gi")},
        {"name": "logs", "resources": resources(cpu="100m", memory="64Mi")},
    ]
    world.run("mixed", "node-0", spec={"containers": containers})
    world.report("node-0")
    return {"NUMA-POD-PARTLY-SHARED": ("default/mixed", "logs")}


@case
def _a_large_init_container(world: Documents) -> Expected:
    init = [{"name": "setup", "resources": resources(cpu=6, memory="1Gi")}]
    world.run("heavy", "node-0", spec={"initContainers": init})
    world.report("node-0")
    return {"NUMA-POD-INIT-LARGER": ("default/heavy", "setup asks for 6 CPUs, the others for 2")}


@case
def _claims_beside_cpus(world: Documents) -> Expected:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    spec = {"resourceClaims": claims}
    # Ours keeps the devices of the second one near its CPUs.
    world.run("claiming", "node-0", spec={**spec, "schedulerName": "topo-aware-scheduler"})
    world.run("looked-after", "node-0", spec=spec)
    world.report("node-0")
    return {"NUMA-POD-MIXED-DRA": ("default/claiming", "2 CPUs")}


@case
def _claims_that_our_scheduler_refuses(world: Documents) -> Expected:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    world.pods.append(pod("claiming", resources={}, spec={"resourceClaims": claims}))
    world.version = "v1.33.4"
    return {"NUMA-POD-DRA-REFUSED": ("default/claiming", "1.34 or later")}


@case
def _a_pod_that_is_larger_than_any_zone(world: Documents) -> Expected:
    world.pods.append(pod("giant", resources=resources(cpu=20, memory="1Gi")))
    told = ("default/giant", "asks for 20 cpu in one zone", "has 16", "explain pod giant")
    return {"NUMA-POD-TOO-BIG": told}


@case
def _a_pod_whose_parts_fit_no_zone_together(world: Documents) -> Expected:
    world.add_node("uneven", machine="1 socket, 24 cores, 8Gi")
    world.nodes["uneven"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    world.pods.append(pod("wide", resources=resources(cpu=18, memory="10Gi")))
    return {"NUMA-POD-TOO-BIG": ("default/wide", "no zone has everything")}


@case
def _a_pod_that_is_larger_than_any_node(world: Documents) -> Expected:
    world.pods.append(pod("colossal", resources=resources(cpu=200, memory="1Gi")))
    return {"NUMA-POD-NO-NODE": ("default/colossal", "asks for 200 cpu", "has 30")}


@case
def _a_device_that_nobody_has(world: Documents) -> Expected:
    wanted = {"cpu": 2, "memory": "1Gi", "vendor.example/gpus": 1}
    world.pods.append(pod("typo", resources={"requests": wanted, "limits": wanted}))
    return {"NUMA-POD-NO-DEVICE": ("default/typo", "did you mean vendor.example/gpu?")}


def rejected(name: str, **parts: Any) -> dict[str, Any]:
    """Return a pod that a kubelet has rejected."""
    status = {"phase": "Failed", "reason": "TopologyAffinityError"}
    return pod(name, node="node-0", status=status, **parts)


@case
def _a_pod_that_a_kubelet_rejected(world: Documents) -> Expected:
    world.pods.append(rejected("unlucky"))
    return {"NUMA-POD-REJECTED": ("default/unlucky", "1 with TopologyAffinityError, by node-0")}


@case
def _a_workload_whose_pods_are_rejected_again_and_again(world: Documents) -> Expected:
    for number in range(40):
        meta = owned_by("ReplicaSet", "wild")
        spec = {"schedulerName": "default-scheduler"}
        world.pods.append(rejected(f"wild-{number}", metadata=meta, spec=spec))
    return {"NUMA-POD-RUNAWAY": ("default/wild", "40 with", "schedulerName: numakube-scheduler")}


# Nodes, clocks, access


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
    for one in world.leases:
        one["spec"]["renewTime"] = LATER
    return {"NUMA-CLOCK-HERE": ("3 minutes behind",)}


@case
def _a_scheduler_without_the_right_to_bind(world: Documents) -> Expected:
    role = next(one for one in world.clusterroles if one["metadata"]["name"] == SCHEDULER)
    role["rules"] = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    return {"NUMA-RBAC-MISSING": ("numakube/numakube-scheduler", "may not create pods/binding")}


@case
def _an_exporter_whose_account_has_no_role(world: Documents) -> Expected:
    world.daemonsets[0]["spec"]["template"]["spec"]["serviceAccountName"] = ""
    return {"NUMA-RBAC-MISSING": ("numakube/default", "patch noderesourcetopologies")}


@case
def _events_that_may_not_be_read(world: Documents) -> Expected:
    for what in ("events", "leases.coordination.k8s.io"):
        right = f"not allowed (403): list {what}"
        world.errors.append({"what": what.partition(".")[0], "why": right})
    return {"NUMA-ACCESS-FORBIDDEN": ("may not (403): list events, leases.coordination.k8s.io",)}


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
def _a_pod_that_cannot_be_read(world: Documents) -> Expected:
    world.pods.append(pod("bent"))
    world.pods[-1]["spec"]["containers"] = "none"
    return {"NUMA-ACCESS-MALFORMED": ("default/bent", "containers")}


@case
def _a_quantity_that_no_server_accepts(world: Documents) -> Expected:
    world.nodes["node-0"]["status"]["allocatable"]["vendor.example/nic"] = "several"
    return {"NUMA-DOCTOR-INCOMPLETE": ("several",)}


@pytest.mark.parametrize("break_it", CASES.values(), ids=CASES)
def test_what_is_broken_is_found_and_nothing_else(break_it: Break) -> None:
    """With the object, what was seen there, and what to do about it."""
    world = healthy()
    expected = break_it(world)

    found = {entry.rule.id: entry.findings for entry in world.diagnosis().entries}

    assert set(found) == set(expected)
    for rule, words in expected.items():
        told = "\n".join(
            f"{one.subject.kind} {one.subject.key} {one.subject.field}: {one.detail}\n{one.remedy}"
            for one in found[rule]
        )
        for word in words:
            assert word in told


def test_every_rule_is_broken_by_some_case() -> None:
    """A rule that no test breaks may never speak up."""
    broken: set[str] = set()
    for break_it in CASES.values():
        broken |= set(break_it(healthy()))
    assert broken == {rule.id for rule in RULES}


def test_a_healthy_cluster_has_no_findings() -> None:
    """Not even notes."""
    assert healthy().diagnosis().entries == ()


def test_a_healthy_cluster_with_devices_of_a_driver_has_no_findings() -> None:
    """Pods with claims of their own and of templates among them."""
    world = healthy()
    claim_cases.with_devices(world)
    world.others["resourceclaims"].append(claim_cases.claim("mine", device="gpu-0"))
    world.pods.append(claim_cases.claiming("web", resourceClaimName="mine"))
    assert world.diagnosis().entries == ()
