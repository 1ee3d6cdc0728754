"""Kinds of nodes as they are when nothing but their daemons runs, and how many pods each holds.

A *slot* is a place for one pod of the kind in question on an idle node: the kubelet model admits
copies of the pod until it refuses one, or the node's allocatable amounts are used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError, InvalidValue
from numakube.insight.explain.empty_node import stays_with_its_node
from numakube.insight.facts import model_of
from numakube.insight.how_many_fit import copies
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.resource_fit import check_fit
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_from_report import remove_pod
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.values.resources import Amounts

_MOST_SLOTS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleKind:
    """Nodes that are alike when idle.

    Attributes:
        nodes: their names, the first of which stands for all.
        version: of their kubelets, such as ``1.35``.
        zones: what each zone may give out.
        daemons: pods that stay with the node.
    """

    nodes: tuple[str, ...]
    model: KubeletNode
    version: str
    allocatable: Amounts
    zones: tuple[Amounts, ...]
    daemons: tuple[Pod, ...]

    def slots(self, pod: Pod) -> int:
        """Return how many pods like *pod* one such node holds."""
        return self._held(self.model.clone(), pod, self.allocatable)

    def slots_with(self, settings: KubeletSettings, pod: Pod, freed: Amounts) -> int:
        """Return the same for a kubelet with other *settings*, which leave *freed* more to pods.

        A kubelet that would not start with them holds none.
        """
        devices = self.model.devices
        known = {name: devices.devices_of(name) for name in devices.resources()}
        machine = self.model.machine
        try:
            model = KubeletNode(machine, settings, devices=known, kubernetes=self.version)
        except ConfigError:
            return 0
        for daemon in self.daemons:
            model.admit(daemon)
        more = {name: self.allocatable.get(name, 0) + amount for name, amount in freed.items()}
        return self._held(model, pod, {**self.allocatable, **more})

    def _held(self, model: KubeletNode, pod: Pod, allocatable: Amounts) -> int:
        running = list(self.daemons)
        for number, one in enumerate(copies(pod, _MOST_SLOTS)):
            if check_fit(one, running, allocatable) is not None:
                return number
            if not isinstance(model.admit(one), Admitted):
                return number
            running.append(one)
        return _MOST_SLOTS


def idle_kinds(facts: ClusterFacts, nodes: Iterable[str]) -> list[IdleKind]:
    """Return *nodes* by kind, the most frequent first; those without exact data are left out."""
    alike: dict[object, list[str]] = {}
    for name in nodes:
        view = facts.view(name)
        if isinstance(view, NodeTopology) and view.report is not None and name in facts.nodes:
            alike.setdefault(_likeness(facts, view, name), []).append(name)
    kinds = (_idle(facts, names) for names in alike.values())
    found = [kind for kind in kinds if kind is not None]
    return sorted(found, key=lambda kind: -len(kind.nodes))


def _likeness(facts: ClusterFacts, view: NodeTopology, name: str) -> object:
    """Return what nodes have in common that hold the same pods when idle."""
    report = view.report
    daemons = sorted(str(PodInfo(pod).requests) for pod in _daemons(facts, name))
    zones = tuple(tuple(sorted(zone.allocatable.items())) for zone in view.zones)
    allocatable = tuple(sorted(facts.nodes[name].status.allocatable.items()))
    # Nodes that are alike share one machine.
    own = (id(report.machine), repr(report.settings), repr(report.devices)) if report else ()
    return own, zones, allocatable, tuple(daemons)


def _daemons(facts: ClusterFacts, name: str) -> Iterator[Pod]:
    return (pod for pod in facts.pods_on(name) if stays_with_its_node(PodInfo(pod)))


def _idle(facts: ClusterFacts, names: list[str]) -> IdleKind | None:
    name = names[0]
    view, model = facts.view(name), model_of(facts, name)
    if isinstance(model, Unusable) or not isinstance(view, NodeTopology) or view.report is None:
        return None
    daemons = tuple(_daemons(facts, name))
    kept = {pod.metadata.uid for pod in daemons}
    for pod in facts.pods_on(name):
        if pod.metadata.uid not in kept:
            remove_pod(model, pod.metadata.uid)
    model.collect_garbage()
    try:
        allocatable = amounts_of(facts.nodes[name].status.allocatable)
    except InvalidValue:
        return None
    return IdleKind(
        nodes=tuple(names),
        model=model,
        version=view.report.kubernetes,
        allocatable=allocatable,
        zones=tuple(zone.allocatable for zone in view.zones),
        daemons=daemons,
    )
