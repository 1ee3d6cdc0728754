"""Clusters whose devices or reports are broken in one way each."""

from __future__ import annotations

from dataclasses import replace

from tests.insight.doctor.breaking import Expected, case, kubelet_config
from tests.insight.doctor.documents import SHAPE, Documents, Tree, pod

from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.fingerprint import fingerprint_of

GPU = "vendor.example/gpu"
GONE = "numakube-exporter-22222"
FINGERPRINT = "nodeTopologyPodsFingerprint"


def exporter_pod(name: str, node: str) -> Tree:
    """Return the pod of an exporter that runs on *node*."""
    made = pod(name, node=node, resources={})
    made["metadata"]["namespace"] = "numakube"
    return made


# Devices


@case
def _gpus_without_numa_node(world: Documents) -> Expected:
    devices = {GPU: tuple(Device(f"gpu{n}", ()) for n in range(4))}
    machine = replace(from_shape(SHAPE), devices=devices)
    world.add_node("homeless", machine=machine)
    return {"NUMA-DEV-NO-TOPOLOGY": ("homeless", "4 of 4 vendor.example/gpu", "numa_node")}


@case
def _gpus_that_are_in_no_zone_of_a_foreign_report(world: Documents) -> Expected:
    world.report("node-3", exact=False)
    for zone in world.topologies["node-3"]["zones"]:
        zone["resources"] = [
            resource for resource in zone["resources"] if "gpu" not in resource["name"]
        ]
    return {"NUMA-DEV-NOT-IN-ZONES": ("node-3", "offers 4 vendor.example/gpu")}


@case
def _a_broken_gpu(world: Documents) -> Expected:
    machine = from_shape(SHAPE)
    first, *others = machine.devices[GPU]
    broken = Device(first.id, first.numa_nodes, healthy=False)
    machine = replace(machine, devices={GPU: (broken, *others)})
    world.add_node("ill", machine=machine)
    return {"NUMA-DEV-UNHEALTHY": ("ill", "1 of 4 vendor.example/gpu")}


# Reports


@case
def _no_definition_of_reports(world: Documents) -> Expected:
    world.topologies.clear()
    why = "the server does not have it"
    world.errors.append({"what": "noderesourcetopologies", "why": why})
    return {"NUMA-NRT-CRD-MISSING": ("numakube deploy api",)}


@case
def _reports_of_the_first_version_c21(world: Documents) -> Expected:
    for report in world.topologies.values():
        report["apiVersion"] = "topology.node.k8s.io/v1alpha1"
        report["topologyPolicies"] = ["SingleNUMANodeContainerLevel"]
        report.pop("attributes")
    return {"NUMA-NRT-OLD-API": ("v1alpha1 only", "numakube deploy api")}


@case
def _reports_in_namespaces_c20(world: Documents) -> Expected:
    for report in world.topologies.values():
        report["apiVersion"] = "topology.node.k8s.io/v1alpha1"
        report["metadata"]["namespace"] = "default"
        report["topologyPolicies"] = ["SingleNUMANodeContainerLevel"]
        report.pop("attributes")
    return {"NUMA-NRT-OLD-API": ("in v1alpha1 only and in namespaces", "kubectl delete crd")}


@case
def _a_node_without_report(world: Documents) -> Expected:
    del world.topologies["node-2"]
    return {"NUMA-NRT-MISSING": ("node-2", "spec.nodeName=node-2")}


@case
def _zones_without_a_number(world: Documents) -> Expected:
    for zone in world.topologies["node-0"]["zones"]:
        zone["name"] = "left"
    return {"NUMA-NRT-UNUSABLE": ("node-0", "left")}


@case
def _an_attribute_that_makes_no_sense(world: Documents) -> Expected:
    attribute = {"name": "topologyManagerMaxNUMANodes", "value": "true"}
    world.attribute("node-0", attribute)
    return {"NUMA-NRT-ODD": ("node-0", "topologyManagerMaxNUMANodes: 'true' ignored")}


@case
def _a_report_that_says_it_is_old(world: Documents) -> Expected:
    attribute = {"name": "topology.numakube.dev/stale", "value": "the kubelet does not answer"}
    world.attribute("node-1", attribute)
    return {"NUMA-NRT-STALE": ("node-1", "the kubelet does not answer")}


@case
def _an_exporter_of_surprises_that_is_silent_for_too_long(world: Documents) -> Expected:
    annotations = world.topologies["node-1"]["metadata"].setdefault("annotations", {})
    annotations["topology.numakube.dev/surprises-only"] = "300 2026-06-01T11:40:00Z"
    return {"NUMA-NRT-SILENT": ("node-1", "20 minutes ago", "every 5 minutes")}


@case
def _a_kubelet_that_was_reconfigured_beside_its_state(world: Documents) -> Expected:
    text = "cpu_manager_state was written under the policy none"
    attribute = {"name": "topology.numakube.dev/state-files", "value": text}
    world.attribute("node-1", attribute)
    return {"NUMA-KUBELET-STATE-FILES": ("node-1", text, "systemctl stop kubelet")}


@case
def _a_kubelet_that_its_state_keeps_from_starting(world: Documents) -> Expected:
    text = "the kubelet will not start: memory_manager_state was written under the policy None"
    attribute = {"name": "topology.numakube.dev/stale", "value": text}
    world.attribute("node-1", attribute)
    return {
        "NUMA-NRT-STALE": ("node-1", text),
        "NUMA-KUBELET-STATE-FILES": ("node-1", "memory_manager_state was written"),
    }


@case
def _a_kubelet_with_another_policy_than_its_report(world: Documents) -> Expected:
    world.nodes["node-1"]["metadata"]["labels"].pop("node.kubernetes.io/instance-type")
    kubelet_config(world, "node-1", topologyManagerPolicy="restricted")
    return {"NUMA-NRT-POLICY-DRIFT": ("node-1", "single-numa-node", "restricted", "restart")}


@case
def _zones_that_are_smaller_than_the_node(world: Documents) -> Expected:
    world.nodes["node-1"]["status"]["allocatable"]["cpu"] = "62"
    world.nodes["node-1"]["status"]["capacity"]["cpu"] = "64"
    return {"NUMA-NRT-CAPACITY": ("node-1", "cpu: all zones together 30, the node 62")}


@case
def _a_report_of_a_vanished_node(world: Documents) -> Expected:
    world.topologies["gone"] = {**world.topologies["node-0"], "metadata": {"name": "gone"}}
    return {"NUMA-NRT-ORPHAN": ("gone", "kubectl delete noderesourcetopology gone")}


@case
def _a_report_of_koordlet(world: Documents) -> Expected:
    world.report("node-0", exact=False)
    labels = {"app.kubernetes.io/managed-by": "Koordinator"}
    world.topologies["node-0"]["metadata"]["labels"] = labels
    return {"NUMA-NRT-NOT-LIVE": ("node-0", "koordlet")}


@case
def _our_exporter_without_the_kubelets_configuration(world: Documents) -> Expected:
    world.report("node-0", exact=False)
    why = "there is no file /var/lib/kubelet/config.yaml"
    report = world.topologies["node-0"]
    known = [attribute for attribute in report["attributes"] if "Manager" not in attribute["name"]]
    unknown = {"name": "topology.numakube.dev/policy-unknown", "value": why}
    report["attributes"] = [*known, unknown]
    return {"NUMA-NRT-POLICY-UNKNOWN": ("node-0", why, "nodes/configz", "--kubelet-config-file")}


@case
def _our_exporter_without_exact_data(world: Documents) -> Expected:
    world.report("node-0", exact=False)
    why = "there is no cpu_manager_state of the static policy"
    annotations = world.topologies["node-0"]["metadata"].setdefault("annotations", {})
    annotations["topology.numakube.dev/inexact"] = why
    return {"NUMA-NRT-INEXACT": ("node-0", why, "--kubelet-state-dir")}


@case
def _a_node_whose_exporter_is_gone(world: Documents) -> Expected:
    name = "topology.numakube.dev/exporter"
    for node in world.nodes:
        world.attribute(node, {"name": name, "value": f"numakube/numakube-exporter-{node[-1] * 5}"})
        world.pods.append(exporter_pod(f"numakube-exporter-{node[-1] * 5}", node))
    world.pods[:] = [item for item in world.pods if item["metadata"]["name"] not in ("web-2", GONE)]
    return {"NUMA-NRT-NO-EXPORTER": ("node-2", GONE, "its report names 1 pod that is gone")}


@case
def _a_report_that_rte_has_taken_over(world: Documents) -> Expected:
    report = world.topologies["node-1"]
    report["metadata"]["annotations"]["k8stopoawareschedwg/rte-update"] = "reactive"
    names = ("topologyManagerPolicy", "topologyManagerScope")
    report["attributes"] = [
        attribute for attribute in report["attributes"] if attribute["name"] in names
    ]
    return {"NUMA-NRT-OVERWRITTEN": ("node-1", "rte, it seems, has written", "--adopt")}


@case
def _a_report_that_lacks_a_pod_that_runs_for_an_hour(world: Documents) -> Expected:
    world.run("unseen", "node-2")
    return {"NUMA-NRT-FROZEN": ("node-2", "default/unseen", "60 minutes")}


@case
def _a_report_that_names_a_pod_that_is_gone(world: Documents) -> Expected:
    world.pods[:] = [item for item in world.pods if item["metadata"]["name"] != "web-2"]
    return {"NUMA-NRT-FROZEN": ("node-2", "it names 1 pod which the API server does not know")}


@case
def _a_foreign_report_from_before_the_last_pod(world: Documents) -> Expected:
    old = fingerprint_of([("default", "web-2")])
    world.run("unseen", "node-2", status={"startTime": "2026-06-01T11:30:00Z"})
    world.report("node-2", exact=False, attributes={FINGERPRINT: old})
    return {"NUMA-NRT-FROZEN": ("node-2", "default/unseen", "30 minutes")}


@case
def _a_fingerprint_of_other_pods(world: Documents) -> Expected:
    other = fingerprint_of([("default", "somebody-else")])
    world.report("node-2", exact=False, attributes={FINGERPRINT: other})
    return {"NUMA-NRT-FINGERPRINT": ("node-2", other, "resyncMethod")}
