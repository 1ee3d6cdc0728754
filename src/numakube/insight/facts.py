"""What is known of a cluster, as typed values: the one input of every tool.

    facts = facts_of(collected)
    facts.pod("default", "web"), facts.pods_on("node-1"), facts.view("node-1")

Reading never fails as a whole: an object that cannot be read, a kind that the user may not list and
a cluster without NodeResourceTopologies are listed in `ClusterFacts.unreadable`, so that a tool can
say what its answer does not rest on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.api.koordinator import keys
from numakube.api.kubelet_config import decode_configz
from numakube.api.meta import CoreEvent, Lease, ServerVersion, release_of
from numakube.api.nodes import Node
from numakube.api.nrt import (
    V1ALPHA1,
    NodeResourceTopology,
    attribute_value,
    by_node,
    to_v1alpha2,
)
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.api.pod import Pod, has_ended
from numakube.api.resource_claims import ResourceClaimTemplate
from numakube.api.volcano_numatopology import PLURAL as NUMATOPOLOGIES
from numakube.api.volcano_numatopology import Numatopology
from numakube.api.workloads import (
    Namespace,
    PriorityClass,
    Workload,
)
from numakube.dra.features import LATEST
from numakube.errors import InvalidValue, MalformedObject, NumakubeError
from numakube.insight import collected as names
from numakube.insight.dra_devices import DraDevices
from numakube.insight.list_reading import Unreadable, read_list, read_object
from numakube.insight.rbac import Role, RoleBinding
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS, POD_GROUP_KINDS
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.topology import nrt_names
from numakube.topology.exporter_presence import current_state, trouble_with
from numakube.topology.model_report import node_of
from numakube.topology.numa_zones import Unusable
from numakube.topology.report_update import current_reports, distrusted, promises_updates
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.topology.volcano import as_nrt
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.insight.collected import Collected
    from numakube.insight.dra_devices import DraDevice
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.topology.pci_places import PciPlaces

NO_REPORT: Final = "the node has no NodeResourceTopology; does its exporter run?"
NOT_READY: Final = "NotReady"
CORDONED: Final = "SchedulingDisabled"
NO_EXPORTER: Final = "NoExporter"
"""Beside kubectl's words: nobody keeps the node's report up to date."""


@dataclass(frozen=True, slots=True)
class SchedulerFacts:
    """What one scheduler (or extender) told of itself.

    Attributes:
        documents: by name (``cache``, ``queue``, ``reservations``, ``attempts``, ``configz``), as
            plain JSON values.
    """

    name: str
    documents: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """Everything that is known of a cluster.

    Attributes:
        taken_at: when it was read, in RFC 3339.
        nodes: by name; so are ``topologies`` and ``kubelet_configs``.
        pods: all of them, those that have ended included, in the server's order.
        old_topologies: whether reports are served in v1alpha1 only.
        topologies_in_namespaces: whether reports are in namespaces, as they were once.
        objects: what scheduling depends on besides; its namespace labels are filled in.
        claims_known: whether resource claims could be listed.
        roles: those of namespaces and of the cluster; so are ``role_bindings``.
        unreadable: what could not be read, and why.
    """

    taken_at: str = ""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    topologies: Mapping[str, NodeResourceTopology] = field(default_factory=dict)
    old_topologies: bool = False
    topologies_in_namespaces: bool = False
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    events: tuple[CoreEvent, ...] = ()
    leases: tuple[Lease, ...] = ()
    daemon_sets: tuple[Workload, ...] = ()
    deployments: tuple[Workload, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    claims_known: bool = False
    claim_templates: Mapping[str, ResourceClaimTemplate] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    role_bindings: tuple[RoleBinding, ...] = ()
    kubelet_configs: Mapping[str, KubeletConfiguration] = field(default_factory=dict)
    schedulers: Mapping[str, SchedulerFacts] = field(default_factory=dict)
    version: ServerVersion = field(default_factory=ServerVersion)
    unreadable: tuple[Unreadable, ...] = ()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod by name."""
        return self._pods_by_key.get(f"{namespace}/{name}")

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods that are bound to *node* and have not ended."""
        return self._pods_by_node.get(node, ())

    def view(self, node: str) -> NodeTopology | Unusable | None:
        """Return what the NodeResourceTopology of *node* says; ``None`` if there is none.

        What has happened as foreseen is in it, even if the exporter reports only surprises; what
        pods held that are gone is free in it, even if the exporter is gone, too.
        """
        if node not in self.topologies:
            return None
        if node not in self._views:
            view = view_of(self.topologies[node])
            if isinstance(view, NodeTopology) and not self.missing(names.PODS):
                view = current_state(view, self._bound.get(node, ()), now=self._read_at)
            self._views[node] = view
        return self._views[node]

    def orphans(self) -> Iterator[tuple[str, str]]:
        """Yield the nodes whose reports nobody keeps up to date, and why."""
        for name, report in self.topologies.items():
            exporter = attribute_value(report.attributes, nrt_names.EXPORTER) or ""
            # Reading a report takes much longer than looking for a pod.
            if trouble_with(exporter, self._bound.get(name, ()), now=self._read_at):
                view = self.view(name)
                if isinstance(view, NodeTopology) and view.orphaned:
                    yield name, view.orphaned

    def dra_devices(self, node: str) -> tuple[DraDevice, ...]:
        """Return the devices that DRA drivers offer on *node*; none if claims are not known."""
        if self.missing(names.RESOURCE_CLAIMS):
            return ()
        return self._dra_devices.on(self.nodes.get(node))

    def pci_places(self, node: str) -> PciPlaces | None:
        """Return on which NUMA nodes the PCI functions of *node* are, if its report tells."""
        view = self.view(node)
        return None if view is None or isinstance(view, Unusable) else view.pci

    def missing(self, plural: str) -> Unreadable | None:
        """Return why a kind could not be listed; ``None`` if it was."""
        return next(
            (unreadable for unreadable in self.unreadable if unreadable.what == plural), None
        )

    @property
    def why_no_reports(self) -> str:
        """Why reports could not be listed, if that was not allowed; empty if it was."""
        missing = self.missing(names.TOPOLOGIES)
        right = missing.right if missing is not None else ""
        return f"403 Forbidden: you may not {right}" if right else ""

    @property
    def kubernetes_minor(self) -> int:
        """The minor version of the API server; the latest that is known if it was not read."""
        release = release_of(self.version.git_version)
        return LATEST if release is None else release[1]

    @cached_property
    def allots(self) -> bool:
        """Whether a scheduler gives NUMA nodes in this cluster, by pods or by labels of nodes."""
        return any(keys.RESOURCE_STATUS in pod.metadata.annotations for pod in self.pods) or any(
            keys.NODE_POLICY in node.metadata.labels for node in self.nodes.values()
        )

    @cached_property
    def _pods_by_key(self) -> dict[str, Pod]:
        return {pod.metadata.key: pod for pod in self.pods}

    @cached_property
    def _pods_by_node(self) -> dict[str, tuple[Pod, ...]]:
        running = {
            node: tuple(pod for pod in pods if not has_ended(pod))
            for node, pods in self._bound.items()
        }
        return {node: pods for node, pods in running.items() if pods}

    @cached_property
    def _bound(self) -> dict[str, list[Pod]]:
        """Pods by node, ended ones too."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            if pod.spec.node_name:
                found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    @cached_property
    def _read_at(self) -> datetime | None:
        try:
            return parse_time(self.taken_at)
        except InvalidValue:
            return None

    @cached_property
    def _dra_devices(self) -> DraDevices:
        return DraDevices(self.objects, minor=self.kubernetes_minor, pci=self.pci_places)

    @cached_property
    def _views(self) -> dict[str, NodeTopology | Unusable]:
        return {}


def facts_of(collected: Collected) -> ClusterFacts:
    """Return what was collected as typed values."""
    reader = _Reader(collected)
    refusals = reader.refusals()
    topologies = reader.all(names.TOPOLOGIES, NodeResourceTopology)
    namespaces = reader.by_key(names.NAMESPACES, Namespace)
    return ClusterFacts(
        taken_at=collected.taken_at,
        nodes=reader.by_key(names.NODES, Node),
        pods=reader.all(names.PODS, Pod),
        topologies={
            **{
                numatopology.metadata.name: as_nrt(numatopology)
                for numatopology in reader.all(NUMATOPOLOGIES, Numatopology)
            },
            **reader.topologies(topologies, refusals),
        },
        old_topologies=any(one.api_version == V1ALPHA1 for one in topologies),
        topologies_in_namespaces=any(one.metadata.namespace for one in topologies),
        objects=reader.objects(namespaces),
        namespaces=namespaces,
        events=reader.all(names.EVENTS, CoreEvent),
        leases=reader.all(names.LEASES, Lease),
        daemon_sets=reader.all(names.DAEMON_SETS, Workload),
        deployments=reader.all(names.DEPLOYMENTS, Workload),
        priority_classes=reader.by_key(names.PRIORITY_CLASSES, PriorityClass),
        claims_known=names.list_file(names.RESOURCE_CLAIMS) in collected.files,
        claim_templates=reader.by_key(names.CLAIM_TEMPLATES, ResourceClaimTemplate),
        roles=(*reader.all(names.ROLES, Role), *reader.all(names.CLUSTER_ROLES, Role)),
        role_bindings=(
            *reader.all(names.ROLE_BINDINGS, RoleBinding),
            *reader.all(names.CLUSTER_ROLE_BINDINGS, RoleBinding),
        ),
        kubelet_configs=reader.kubelet_configs(),
        schedulers=reader.schedulers(),
        version=reader.one(names.VERSION, ServerVersion) or ServerVersion(),
        unreadable=(*refusals, *reader.unreadable),
    )


class _Reader:
    """Reads file by file, and remembers what it could not read."""

    def __init__(self, collected: Collected) -> None:
        self.unreadable: list[Unreadable] = []
        self._files = collected.files

    def all(self, plural: str, type_: type[Any]) -> tuple[Any, ...]:
        found, bad = read_list(type_, self._files.get(names.list_file(plural)), plural)
        self.unreadable += bad
        return found

    def by_key(self, plural: str, type_: type[Any]) -> dict[str, Any]:
        return {one.metadata.key: one for one in self.all(plural, type_)}

    def topologies(
        self, objects: tuple[NodeResourceTopology, ...], refusals: tuple[Unreadable, ...]
    ) -> dict[str, NodeResourceTopology]:
        found: list[NodeResourceTopology] = []
        for report in objects:
            try:
                found.append(to_v1alpha2(report))
            except MalformedObject as error:
                what = f"{names.TOPOLOGIES} {report.metadata.key}"
                self.unreadable.append(Unreadable(what, f"{error.path}: {error.detail}"))
        reports = by_node(found)
        updates = self.all(names.TOPOLOGY_UPDATES, NodeResourceTopologyUpdate)
        current = {
            report.metadata.name: report for report in current_reports(reports.values(), updates)
        }
        why = next(
            (refusal.why for refusal in refusals if refusal.what == names.TOPOLOGY_UPDATES), ""
        )
        if not why:
            return current
        return {
            name: distrusted(one, f"its updates: {why}") if promises_updates(one) else one
            for name, one in current.items()
        }

    def one(self, file: str, type_: type[Any]) -> Any:  # noqa: ANN401 - of the given type
        found, bad = read_object(type_, self._files.get(file), file)
        self.unreadable += bad
        return found

    def objects(self, namespaces: Mapping[str, Namespace]) -> ClusterObjects:
        objects = ClusterObjects()
        for name, namespace in namespaces.items():
            objects.namespace_labels[name] = namespace.metadata.labels
        for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS):
            file = names.list_name(kind.plural, kind.group)
            getattr(objects, kind.field).update(self.by_key(file, kind.object_type))
        return objects

    def kubelet_configs(self) -> dict[str, KubeletConfiguration]:
        configs = {}
        for node, content in self._below(names.CONFIGZ):
            try:
                configs[node] = decode_configz(content, names.configz_file(node))
            except NumakubeError as error:
                self.unreadable.append(Unreadable(names.configz_file(node), str(error)))
        return configs

    def schedulers(self) -> dict[str, SchedulerFacts]:
        documents: dict[str, dict[str, Any]] = {}
        for path, content in self._below(names.SCHEDULER):
            scheduler, _, what = path.rpartition("/")
            try:
                documents.setdefault(scheduler, {})[what] = msgspec.json.decode(content)
            except BROKEN_JSON as error:
                file = names.scheduler_file(scheduler, what)
                self.unreadable.append(Unreadable(file, f"not JSON: {error}"))
        return {name: SchedulerFacts(name, found) for name, found in documents.items()}

    def refusals(self) -> tuple[Unreadable, ...]:
        found: tuple[Unreadable, ...] | None = self.one(names.ERRORS, tuple[Unreadable, ...])
        return found or ()

    def _below(self, folder: str) -> list[tuple[str, bytes]]:
        start, end = f"{folder}/", ".json"
        return [
            (name[len(start) : -len(end)], content)
            for name, content in sorted(self._files.items())
            if name.startswith(start) and name.endswith(end)
        ]


def model_of(facts: ClusterFacts, node: str) -> KubeletNode | Unusable:
    """Return the kubelet model of *node*, which the caller may change, or why there is none."""
    view = facts.view(node)
    if view is None:
        return Unusable(facts.why_no_reports or NO_REPORT)
    if isinstance(view, Unusable):
        return view
    if view.report is None:
        return Unusable(f"its NodeResourceTopology has no exact report ({view.producer} wrote it)")
    return node_of(view.report)


def troubles_of(node: Node | None) -> tuple[str, ...]:
    """Return why *node* takes no pods, or no new ones; empty if nothing is known against it."""
    if node is None:
        return ()
    ready = next(
        (condition.status for condition in node.status.conditions if condition.type == "Ready"),
        "True",
    )
    return (*((NOT_READY,) if ready != "True" else ()), *((CORDONED,) * node.spec.unschedulable))
