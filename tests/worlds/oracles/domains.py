"""Gangs are in the domains of their topology that they asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator

from tests.apps.scheduler.gang_trials import RACK
from tests.worlds.manifests import WISHES
from tests.worlds.virtual_lab import Lab

from numakube.api.pod import Pod, has_ended
from numakube.kube.catalog import NODES

_KEYS = {option: key for key, option in WISHES.items()}


async def gangs_are_where_they_asked_to_be(lab: Lab) -> AsyncIterator[str]:
    """Nobody is outside the rack of the others, and no slice is divided that was placed whole."""
    nodes = (await lab.through(lab.client.list(NODES))).items
    racks = {node.metadata.name: node.metadata.labels.get(RACK, "") for node in nodes}
    gangs: defaultdict[object, list[Pod]] = defaultdict(list)
    for pod in lab.pods:
        if (gang := lab.seen.gangs.get(pod.metadata.uid)) is not None:
            gangs[gang].append(pod)
    for gang, pods in gangs.items():
        wishes = pods[0].metadata.annotations
        bound = [pod for pod in pods if pod.spec.node_name in racks and not has_ended(pod)]
        inside = Counter(racks[pod.spec.node_name] for pod in bound)
        required = {wishes.get(_KEYS["required"]), wishes.get(_KEYS["kueue"])}
        if RACK in required and len(inside) > 1:
            yield f"gang {gang} has pods in racks {dict(inside)}, and asked for one"
        ever = sum(known == gang for known in lab.seen.gangs.values())
        size = wishes.get(_KEYS["slices"], "").partition("=")[2]
        if size and len(bound) == ever and any(count % int(size) for count in inside.values()):
            yield f"gang {gang} has pods in racks {dict(inside)}, in slices of {size}"
