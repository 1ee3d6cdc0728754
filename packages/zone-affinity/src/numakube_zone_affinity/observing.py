"""Whether what pods wish about others within their node holds, for tools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.node_islands import told_islands
from numakube.insight.observations import UNKNOWN, Observation
from numakube.kubelet.device_links import held_linked
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import node_of
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import short_name
from numakube_zone_affinity.node_zones import NodeZones, reported, wish_of
from numakube_zone_affinity.zone_verdicts import Outlook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.insight.observations import ObservedNode
    from numakube_zone_affinity.zone_verdicts import ZoneVerdict

_WORDS: Final = {
    Outlook.HOLDS: "holds",
    Outlook.LUCK: "holds by luck",
    Outlook.BROKEN: "does not hold",
    Outlook.UNKNOWN: "unknown",
}


class RelationObserver:
    """What tools find by the entry point ``zone-affinity``."""

    def of_pod(self, node: ObservedNode, pod: Pod) -> Observation:
        """Return what has become of the relations of a pod."""
        info = PodInfo(pod)
        if not wish_of(info).relations:
            return Observation(text=UNKNOWN)
        zones = zones_of(node)
        verdicts = reported(info, zones)
        places = sorted(zones.held(info, wish_of(info).level) or ())
        return Observation(
            text=", ".join(f"{name} {_WORDS[one.outlook]}" for name, one in verdicts),
            words=tuple(_sentence(name, one, places) for name, one in verdicts),
            is_bad=any(one.outlook is Outlook.BROKEN for _, one in verdicts),
            document={
                "zones": places,
                "relations": {name: one.outlook.value for name, one in verdicts},
            },
        )

    def of_zone(self, node: ObservedNode, zone: int) -> Observation:
        """Return nothing: relations are of pods."""
        del node, zone
        return Observation(text=UNKNOWN)


OBSERVER: Final = RelationObserver()


class LinkObserver:
    """What tools find by the entry point ``linked``."""

    def of_pod(self, node: ObservedNode, pod: Pod) -> Observation:
        """Return whether the devices of a pod that asks for links are linked."""
        info = PodInfo(pod)
        if wish_of(info).linked is None:
            return Observation(text=UNKNOWN)
        zones = zones_of(node)
        if zones.model is None:
            return Observation(text=UNKNOWN)
        found = held_linked(zones.model, zones.name_of(info), zones.told)
        told = {name: _LINKED[linked] for name, linked in found.items()}
        return Observation(
            text=", ".join(f"{short_name(name)} {word}" for name, word in told.items()) or UNKNOWN,
            words=tuple(f"Its devices {name} are {word}." for name, word in told.items()),
            is_bad=False in found.values(),
            document={"linked": found},
        )

    def of_zone(self, node: ObservedNode, zone: int) -> Observation:
        """Return nothing: links are asked for by pods."""
        del node, zone
        return Observation(text=UNKNOWN)


LINKS: Final = LinkObserver()
_LINKED: Final = {True: "linked", False: "not linked", None: "linked in an unknown way"}


def zones_of(node: ObservedNode) -> NodeZones:
    """Return the zones of a node by its report."""
    view = node.view
    exact = view.report if isinstance(view, NodeTopology) else None
    model = None if exact is None else node_of(exact)
    pods: Mapping[str, PodInfo] = {pod.metadata.uid: PodInfo(pod) for pod in node.pods}
    told = told_islands(node.annotations)
    return NodeZones(None if isinstance(model, Unusable) else model, pods, told)


def _sentence(name: str, verdict: ZoneVerdict, places: list[str]) -> str:
    if verdict.holds:
        return f"{name} holds: the pod is in {' and '.join(places)}."
    return f"{name} {_WORDS[verdict.outlook]}: {verdict.reason}."
