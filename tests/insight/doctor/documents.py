"""A healthy cluster as the API server would show it, to be broken by tests.

Nodes are kubelet models; their reports are those of a perfect exporter. Everything is raw JSON, so
that tests go the whole way from what a bundle holds to findings.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import msgspec

from numakube.api.codec import convert
from numakube.api.nrt import Attribute, convert_nrt
from numakube.api.pod import Pod
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.gathering import ZONES, gather
from numakube.insight.collected import Collected, configz_file, list_file, scheduler_file
from numakube.insight.doctor.all_checks import Diagnosis, diagnose
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.manifests.exporter import ExporterManifest
from numakube.manifests.scheduler import SchedulerManifest
from numakube.testing import World, pod_document
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport
from numakube.topology.report_codec import decode_report, with_exact
from numakube.topology.topology_view import NodeTopology
from numakube_lab.testing import LabCluster

NOW = "2026-06-01T12:00:00Z"
BEFORE = "2026-06-01T11:00:00Z"
RENEWED = "2026-06-01T11:59:55.000000Z"
SCHEDULER = SCHEDULER_NAME
SHAPE = "2 sockets, 8 cores, smt 2, 32Gi, vendor.example/gpu 2"
KUBELET = "policy=single-numa-node"
IMAGE = "ghcr.io/numakube/numakube:latest"

Tree = dict[str, Any]
TREES = (
    "nodes", "topologies", "configz", "pods", "leases", "daemonsets", "deployments", "roles",
    "rolebindings", "clusterroles", "clusterrolebindings",
)  # fmt: skip


def resources(**amounts: Any) -> Tree:
    """Return equal requests and limits."""
    named = {name.replace("gpu", "vendor.example/gpu"): value for name, value in amounts.items()}
    return {"requests": named, "limits": named}


def pod(name: str, *, node: str = "", **parts: Any) -> Tree:
    """Return a Guaranteed pod for our scheduler, which runs since an hour if it has a node."""
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status: Tree = (
        {"phase": "Running", "startTime": BEFORE}
        if node
        else {"phase": "Pending", "conditions": [refusal]}
    )
    meta = {"uid": f"uid-{name}", "creationTimestamp": BEFORE, **parts.pop("metadata", {})}
    wanted = parts.pop("resources", resources(cpu=2, memory="1Gi"))
    containers = [{"name": "main", "resources": wanted}]
    spec = {"nodeName": node, "containers": containers, **parts.pop("spec", {})}
    document = pod_document(name, metadata=meta, **spec)
    return {**document, "status": {**status, **parts.pop("status", {})}}


def owned_by(kind: str, name: str) -> Tree:
    """Return the metadata of a pod that a controller made."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {"ownerReferences": [owner]}


@dataclass
class Documents:
    """The cluster; *world* has its kubelets, *others* lists of further kinds by plural."""

    nodes: dict[str, Tree] = field(default_factory=dict)
    topologies: dict[str, Tree] = field(default_factory=dict)
    configz: dict[str, Tree] = field(default_factory=dict)
    world: World = field(default_factory=World)
    pods: list[Tree] = field(default_factory=list)
    leases: list[Tree] = field(default_factory=list)
    daemonsets: list[Tree] = field(default_factory=list)
    deployments: list[Tree] = field(default_factory=list)
    events: list[Tree] = field(default_factory=list)
    schedulers: dict[tuple[str, str], Tree] = field(default_factory=dict)
    roles: list[Tree] = field(default_factory=list)
    rolebindings: list[Tree] = field(default_factory=list)
    clusterroles: list[Tree] = field(default_factory=list)
    clusterrolebindings: list[Tree] = field(default_factory=list)
    others: dict[str, list[Tree]] = field(default_factory=dict)
    errors: list[Tree] = field(default_factory=list)
    version: str = "v1.35.2"
    taken_at: str = NOW

    @property
    def kubelets(self) -> dict[str, KubeletNode]:
        """The models of the nodes."""
        return self.world.kubelets

    def add_node(
        self, name: str, *, machine: Machine | str = SHAPE, kubelet: str = KUBELET
    ) -> KubeletNode:
        """Add a node with its report, its configuration and its lease."""
        machine = from_shape(machine) if isinstance(machine, str) else machine
        config = lab_configuration(machine, parse_kubelet_options(kubelet))
        labels = {"node.kubernetes.io/instance-type": "big"}
        settings = settings_of(config, machine)
        self.world.add_node(name, machine=machine, settings=settings, labels=labels)
        node = msgspec.to_builtins(self.world.nodes[name])
        node["metadata"]["creationTimestamp"] = BEFORE
        node["status"] |= {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.35.2"},
        }
        self.nodes[name] = node
        self.configz[name] = {"kubeletconfig": msgspec.to_builtins(config)}
        self.leases.append(lease(name, namespace="kube-node-lease", holder=name))
        self.report(name)
        return self.kubelets[name]

    def report(self, name: str, **options: Any) -> None:
        """Write the report of a node as it is now."""
        nrt = self.world.report(name, **options)
        self.topologies[name] = msgspec.json.decode(msgspec.json.encode(nrt))

    def attribute(self, node: str, attribute: Tree) -> None:
        """Have the exporter of a node write one more attribute."""
        nrt = convert_nrt(self.topologies[node])
        exact = decode_report(nrt.metadata.annotations[nrt_names.EXACT_ANNOTATION])
        assert isinstance(exact, ExactReport)
        more = (*nrt.attributes, convert(Attribute, attribute))
        nrt = with_exact(msgspec.structs.replace(nrt, attributes=more), exact)
        self.topologies[node] = msgspec.json.decode(msgspec.json.encode(nrt))

    def run(self, name: str, node: str, **parts: Any) -> Tree:
        """Run a pod on a node; its report does not know yet."""
        document = pod(name, node=node, **parts)
        self.world.run(convert(Pod, document), node)
        self.pods.append(document)
        return document

    def apply(self, *objects: Tree) -> None:
        """Create objects of rights; workloads have a place of their own."""
        lists = {
            "Role": self.roles,
            "RoleBinding": self.rolebindings,
            "ClusterRole": self.clusterroles,
            "ClusterRoleBinding": self.clusterrolebindings,
        }
        for item in objects:
            if item["kind"] in lists:
                lists[item["kind"]].append(item)

    def collected(self) -> Collected:
        """Return everything as a bundle holds it."""
        lists = {
            "nodes": list(self.nodes.values()),
            "noderesourcetopologies": list(self.topologies.values()),
            "pods": self.pods,
            "leases": self.leases,
            "daemonsets": self.daemonsets,
            "deployments": self.deployments,
            "events": self.events,
            "roles": self.roles,
            "rolebindings": self.rolebindings,
            "clusterroles": self.clusterroles,
            "clusterrolebindings": self.clusterrolebindings,
            **self.others,
        }
        encode = msgspec.json.encode
        files = {list_file(kind): encode({"items": items}) for kind, items in lists.items()}
        files |= {configz_file(node): encode(one) for node, one in self.configz.items()}
        files |= {scheduler_file(*key): encode(one) for key, one in self.schedulers.items()}
        files["errors.json"] = encode(self.errors)
        files["version.json"] = encode({"gitVersion": self.version})
        return Collected(self.taken_at, files)

    def facts(self) -> ClusterFacts:
        """Return everything as checks see it."""
        return facts_of(self.collected())

    def diagnosis(self) -> Diagnosis:
        """Return what the doctor says."""
        return diagnose(self.facts())


def lease(name: str, *, namespace: str, holder: str, renewed: str = RENEWED) -> Tree:
    """Return a lease."""
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def workload(program: str, *arguments: str, **status: int) -> Tree:
    """Return a Deployment or DaemonSet of ours."""
    labels = {"app": program}
    container = {"name": program, "image": IMAGE, "args": [program, *arguments]}
    spec = {"containers": [container], "serviceAccountName": f"numakube-{program}"}
    return {
        "metadata": {"name": f"numakube-{program}", "namespace": "numakube"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": status,
    }


async def reported(live: LabCluster) -> None:
    """Wait until the reports of a live lab have all its pods, in full."""

    async def is_complete() -> bool:
        facts = facts_of(await gather(live.client, what=ZONES))
        views = {name: facts.view(name) for name in facts.nodes}
        return all(
            isinstance(view, NodeTopology)
            and view.report is not None
            and all(view.report.accounts_for(one.metadata.uid) for one in facts.pods_on(name))
            for name, view in views.items()
        )

    await live.until(is_complete)


def healthy(nodes: int = 4) -> Documents:
    """Return a cluster in which everything is well: exporters, a scheduler, pods."""
    made = _healthy(nodes)
    kubelets = {name: kubelet.clone() for name, kubelet in made.kubelets.items()}
    trees = {name: copy.deepcopy(getattr(made, name)) for name in TREES}
    return Documents(world=World(kubelets=kubelets), **trees)


@functools.cache
def _healthy(nodes: int) -> Documents:
    world = Documents()
    for number in range(nodes):
        name = f"node-{number}"
        world.add_node(name)
        world.run(f"web-{number}", name)
        world.report(name)
    ready = nodes
    world.daemonsets.append(workload("exporter", desiredNumberScheduled=nodes, numberReady=ready))
    world.deployments.append(
        workload("scheduler", f"--scheduler-name={SCHEDULER}", replicas=2, readyReplicas=2)
    )
    world.leases.append(lease(SCHEDULER, namespace="numakube", holder="numakube-scheduler-1"))
    world.apply(*SchedulerManifest().objects(), *ExporterManifest().objects())
    return world
