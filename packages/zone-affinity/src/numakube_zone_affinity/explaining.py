"""What explanations say of a pod that waits: where its kubelet would put it, and beside whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.scheduling.snapshot.pods import PodInfo
from numakube_zone_affinity.node_zones import foreseen_zones, prospect, wish_of

if TYPE_CHECKING:
    from numakube.insight.explain import Subject
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.scheduling import Engine


def with_relations(explanation: Explanation, engine: Engine, subject: Subject) -> Explanation:
    """Return *explanation* with what becomes of the relations on the node that would be chosen."""
    pod = PodInfo(subject.unbound())
    wish = wish_of(pod)
    node = engine.cluster.node(explanation.chosen) if explanation.chosen else None
    if not wish.relations or subject.pod.spec.node_name or node is None:
        return explanation
    names = ", ".join(map(str, wish.relations))
    verdict = prospect(pod, node)
    zones = foreseen_zones(pod, node, wish.level)
    if not verdict.holds:
        note = f"On {node.name}: {verdict.reason}. It is preferred only."
    elif zones is not None and zones.certain:
        note = f"On {node.name} it would get {' and '.join(sorted(zones.certain))}: {names} holds."
    else:
        note = f"On {node.name}: {names} holds wherever it will be."
    return msgspec.structs.replace(explanation, notes=(*explanation.notes, note))
