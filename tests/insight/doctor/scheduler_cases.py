"""Exporters and schedulers that are not there, or do what they should not."""

from __future__ import annotations

from typing import Any

from tests.insight.doctor.breaking import LONG_AGO, Expected, case
from tests.insight.doctor.documents import NOW, SCHEDULER, Documents, lease, pod


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
    young = pod("young", spec={"schedulerName": "numakube-schedular"})
    young["metadata"]["creationTimestamp"] = NOW
    young["status"]["conditions"] = []
    world.pods.append(young)  # that another pod names it too is no sign of a scheduler
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


@case
def _a_second_scheduler_under_the_lease_of_kube_scheduler(world: Documents) -> Expected:
    config = {
        "profiles": [{"schedulerName": "my-second"}],
        "leaderElection": {"resourceName": "kube-scheduler"},
    }
    world.schedulers["one", "configz"] = {"kubescheduler.config.k8s.io": config}
    words = ("its lease is kube-system/kube-scheduler; it serves my-second",)
    return {"NUMA-SCHEDULER-FOREIGN-LEASE": words}
