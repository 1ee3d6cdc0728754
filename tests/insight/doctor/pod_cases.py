"""Pods that cannot be aligned, and pods that kubelets reject."""

from __future__ import annotations

from typing import Any

from tests.insight.doctor.breaking import Expected, case
from tests.insight.doctor.documents import NOW, Documents, owned_by, pod, resources


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
def _a_pod_that_was_refused_and_fits(world: Documents) -> Expected:
    world.pods.append(pod("ready"))
    young = pod("young", resources=resources(cpu=3, memory="1Gi"))
    young["metadata"]["creationTimestamp"] = NOW
    world.pods.append(young)
    world.report("node-0")
    return {"NUMA-POD-FITS": ("default/ready", "fits on node-", "debug queue")}


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


@case
def _a_new_size_that_a_kubelet_refuses(world: Documents) -> Expected:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pending["message"] = "the CPUs of a container are exclusive"
    running = next(entry for entry in world.pods if entry["spec"].get("nodeName") == "node-0")
    running["status"]["conditions"] = [pending]
    return {"NUMA-POD-RESIZE-INFEASIBLE": ("on node-0: the CPUs of a container are exclusive",)}
