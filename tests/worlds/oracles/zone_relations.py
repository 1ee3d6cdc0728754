"""Pods of a node are apart or together in its zones, and their devices linked, as they insist."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import combinations

from tests.worlds.enforced import is_allotted
from tests.worlds.oracles.books import cpus_of, zones_of
from tests.worlds.virtual_lab import Lab

from numakube.api.pod import Pod, has_ended
from numakube.api.zone_relations import ANTI_AFFINITY, SPREAD, Insistence, zone_wish_of
from numakube.kubelet.kubelet_model import KubeletNode


async def pods_are_in_the_zones_that_they_insist_on(lab: Lab) -> AsyncIterator[str]:
    """By the kubelets' own books, as far as schedulers could know them."""
    for name, kubelet in lab.pool.kubelets.items():
        if kubelet.admission is None:
            continue
        model = kubelet.admission.model
        there = [
            pod
            for pod in lab.pods
            if pod.spec.node_name == name and not has_ended(pod) and not is_allotted(pod)
        ]
        known = [pod for pod in there if lab.could_know(pod)]
        for text in (*_beside(model, known, there), *_unlinked(model, known)):
            yield f"{name}: {text}"


def _zones(model: KubeletNode, pod: Pod) -> set[int]:
    """Return the NUMA nodes of all that a pod has for itself."""
    uid = pod.metadata.uid
    zones = zones_of(model, cpus_of(model, uid))
    for held in model.devices.assignments.get(uid, {}).values():
        for resource, ids in held.items():
            zones |= {zone for id_ in ids for zone in model.devices.numa_nodes_of(resource, id_)}
    for blocks in (model.memory.assignments.get(uid, {}) if model.memory else {}).values():
        zones |= {zone for block in blocks for zone in block.numa_nodes}
    return zones


def _beside(model: KubeletNode, known: list[Pod], there: list[Pod]) -> Iterator[str]:
    places = {pod.metadata.uid: _zones(model, pod) for pod in there}
    for pod, other in combinations(known, 2):
        wish = zone_wish_of(pod.metadata.annotations)
        relation = wish.relation(ANTI_AFFINITY) if wish.is_required else None
        if relation is None or not relation.selector.matches(other.metadata.labels):
            continue
        if shared := places[pod.metadata.uid] & places[other.metadata.uid]:
            names = f"{pod.metadata.name} and {other.metadata.name}"
            yield f"{names} are both on NUMA nodes {sorted(shared)}"
    # Others of them may have ended: only two that came to an empty node tell of an order.
    spread = [pod for pod in known if zone_wish_of(pod.metadata.annotations).relation(SPREAD)]
    required = [pod for pod in spread if zone_wish_of(pod.metadata.annotations).is_required]
    if len(required) == len(spread) == 2 == len(model.machine.nodes):
        counts = Counter(zone for pod in spread for zone in places[pod.metadata.uid])
        if len(counts) == 1:
            names = " and ".join(pod.metadata.name for pod in spread)
            yield f"{names} are not spread: both are on NUMA node {next(iter(counts))}"


def _unlinked(model: KubeletNode, known: list[Pod]) -> Iterator[str]:
    """Yield pods whose devices are not pairwise linked although they insist."""
    links = model.machine.tree.links
    for pod in known:
        if zone_wish_of(pod.metadata.annotations).linked is not Insistence.REQUIRED:
            continue
        for held in model.devices.assignments.get(pod.metadata.uid, {}).values():
            for resource, ids in held.items():
                pci = {one.id: one.pci for one in model.devices.devices_of(resource)}
                for one, other in combinations(sorted(pci.get(id_, "") for id_ in ids), 2):
                    if one != other and (one, other) not in links:
                        yield f"{pod.metadata.name} has {resource} {one} and {other}, not linked"
