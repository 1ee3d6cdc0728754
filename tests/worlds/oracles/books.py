"""Kubelets' books, schedulers' caches and what tools show of zones are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tests.lab.exporters.truth import true_zones
from tests.worlds.virtual_lab import EXACT, Lab

from numakube.api.pod import Pod, has_ended
from numakube.api.pod_resources import pending_resize
from numakube.insight.node_map.map_json import picture_document
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.usage.namespace_usage import namespace_usages
from numakube.insight.usage.zone_usage import node_usage
from numakube.kube.catalog import NODES, PODS
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.numa.caches.report_coverage import PATIENCE_SECONDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.resources import is_extended
from numakube_planning.audit import audit

PERIOD_SECONDS: Final = 15.0
"""By then a report tells of a pod."""


async def no_zone_holds_more_than_it_has(lab: Lab) -> AsyncIterator[str]:
    """Neither in a kubelet's books nor in a scheduler's belief."""
    for name, kubelet in lab.pool.kubelets.items():
        if kubelet.admission is None:
            continue
        for zone, amounts in true_zones(kubelet.admission.model).items():
            for resource, (allocatable, available) in amounts.items():
                if not 0 <= available <= allocatable:
                    yield f"{name}: {zone} has {available} of {allocatable} {resource}"
    for name, running in lab.schedulers.items():
        for node in running.process.mirror.cluster.nodes():
            for free in () if node.numa is None else node.numa.available:
                if any(amount < 0 for amount in free.values()):
                    yield f"scheduler {name} believes {free} of {node.name}"


async def caches_equal_a_fresh_list(lab: Lab) -> AsyncIterator[str]:
    """Every scheduler knows what the API server says, and waits for every pod that waits."""
    nodes = {node.metadata.name for node in (await lab.through(lab.client.list(NODES))).items}
    pods = (await lab.through(lab.client.list(PODS))).items
    placed = {
        pod.metadata.uid: pod.spec.node_name
        for pod in pods
        if pod.spec.node_name and not has_ended(pod)
    }
    waiting = {pod.metadata.uid: pod.metadata.name for pod in lab.waiting()}
    for name, running in lab.schedulers.items():
        if not running.process.leading or running.task.done():
            continue
        mirror = running.process.mirror
        known = {uid: node.name for node in mirror.cluster.nodes() for uid in node.pods}
        queued = {entry.uid for entry in running.process.scheduler.queue}
        if set(mirror.cluster.row_of) != nodes and not running.shard:
            yield f"scheduler {name} knows the nodes {sorted(mirror.cluster.row_of)}"
        wrong = {uid for uid in known | placed if known.get(uid) != placed.get(uid)}
        if wrong and not running.shard:
            yield f"scheduler {name} is wrong about {sorted(wrong)}"
        if queued != waiting.keys() and not running.shard:
            yield f"scheduler {name} has another queue: {sorted(queued ^ waiting.keys())}"
        if any(map(mirror.is_assumed, known)):
            yield f"scheduler {name} still assumes a pod"
    known = lab.extender.knows() if lab.extender is not None else placed
    if wrong := {uid for uid in known | placed if known.get(uid) != placed.get(uid)}:
        yield f"the extender is wrong about {sorted(wrong)}"


async def tools_show_what_kubelets_hold(lab: Lab) -> AsyncIterator[str]:
    """What top and map show of zones is what the kubelets' books say."""
    facts = await lab.facts()
    for name, kubelet in lab.pool.kubelets.items():
        if kubelet.admission is None or lab.producers.get(name) == "none":
            continue
        view = facts.view(name)
        if not isinstance(view, NodeTopology):
            yield f"nothing is known of {name}"
            continue
        truth = true_zones(kubelet.admission.model)
        for zone in view.zones:
            true = truth[f"node-{zone.id}"]
            told = {key: amount for key, amount in zone.available.items() if key in true}
            free = {key: true[key][1] * (1000 if key == "cpu" else 1) for key in told}
            wrong = {
                key: (amount, free[key])
                for key, amount in told.items()
                if amount > free[key] or (amount < free[key] and lab.producers[name] != "surprises")
            }
            if wrong:
                yield f"{name}: zone {zone.id} is shown with {wrong}"


async def schedulers_count_on_nothing_that_is_held(lab: Lab) -> AsyncIterator[str]:
    """No scheduler believes more of a zone to be free than its kubelet's books have."""
    for name, node, zone, amounts in _believed(lab):
        if wrong := {key: pair for key, pair in amounts.items() if pair[0] > pair[1]}:
            yield f"scheduler {name} believes of {node}, zone {zone}: {wrong}"


async def schedulers_know_what_is_free(lab: Lab) -> AsyncIterator[str]:
    """Nor less, once the last report has told of everything.

    A scheduler trusts a report that does not say which pods it has only after a while.
    """
    if lab.unsettled or not _missed(lab):
        return
    await lab.pass_time(PATIENCE_SECONDS + PERIOD_SECONDS)
    for text in _missed(lab):
        yield text


def _missed(lab: Lab) -> list[str]:
    kept = {pod.spec.node_name for pod in lab.pods if pending_resize(pod)}
    return [
        f"scheduler {name} believes of {node}, zone {zone}: {wrong}"
        for name, node, zone, amounts in _believed(lab)
        if node not in kept and lab.producers[node] != "surprises"
        if (wrong := {key: pair for key, pair in amounts.items() if pair[0] < pair[1]})
    ]


def _believed(lab: Lab) -> Iterator[tuple[str, str, int, dict[str, tuple[int, int]]]]:
    """Yield of each scheduler, node and zone what it believes to be free, and what really is."""
    for name, running in lab.schedulers.items():
        if not running.process.leading or running.task.done():
            continue
        for node in running.process.mirror.cluster.nodes():
            kubelet = lab.pool.kubelets.get(node.name)
            belief, topology = node.numa, node.numa.topology if node.numa is not None else None
            if belief is None or topology is None or lab.producers.get(node.name) == "none":
                continue
            if kubelet is None or not kubelet.is_up or kubelet.admission is None:
                continue
            truth = true_zones(kubelet.admission.model)
            for zone, free in zip(topology.zones, belief.available, strict=True):
                true = truth[f"node-{zone.id}"]
                amounts = {
                    key: (free[key], true[key][1] * (1000 if key == "cpu" else 1))
                    for key in free.keys() & true.keys()
                }
                yield name, node.name, zone.id, amounts


async def maps_show_who_holds_what(lab: Lab) -> AsyncIterator[str]:
    """A map names for every pod the CPUs that its kubelet's state has for it."""
    facts = await lab.facts()
    for name, kubelet in lab.pool.kubelets.items():
        if kubelet.admission is None or lab.producers.get(name) not in EXACT:
            continue
        shown = {
            pod["name"]: pod["cpus"]
            for pod in picture_document(node_picture(facts, name))["pods"]
            if pod["cpus"]
        }
        held = {
            pod.metadata.key: str(cpus)
            for pod in lab.pods
            if pod.spec.node_name == name
            and not _is_allotted(pod)
            and (cpus := _held(lab, name, kubelet.admission.model, pod))
        }
        named = {pod.metadata.key for pod in lab.pods if not _is_allotted(pod)}
        shown = {key: cpus for key, cpus in shown.items() if key in named}
        if shown != held:
            wrong = {key: (shown.get(key), held.get(key)) for key in shown.keys() ^ held.keys()}
            wrong |= {
                key: (shown[key], held[key])
                for key in shown.keys() & held.keys()
                if shown[key] != held[key]
            }
            yield f"the map of {name} and its kubelet differ: {wrong}"


async def namespaces_have_what_their_pods_have(lab: Lab) -> AsyncIterator[str]:
    """What `top namespaces` adds up is the kubelets' own, and what is stranded is whole."""
    if not lab.all_exact or any(lab.age(pod) < PERIOD_SECONDS for pod in lab.pods):
        return
    facts = await lab.facts()
    usages = {usage.namespace: usage for usage in namespace_usages(facts, facts.nodes)}
    held: Counter[str] = Counter()
    for pod in lab.pods:
        kubelet = lab.pool.kubelets.get(pod.spec.node_name)
        if kubelet is not None and kubelet.admission is not None and not has_ended(pod):
            cpus = _held(lab, kubelet.name, kubelet.admission.model, pod)
            if _is_allotted(pod):
                return
            held[pod.metadata.namespace] += len(cpus)
    for space, usage in usages.items():
        if usage.cpus != held[space] and not usage.unknown:
            yield f"top namespaces says {usage.cpus} CPUs of {space}, kubelets say {held[space]}"
    stranded: Counter[str] = Counter()
    for name in facts.nodes:
        for zone in node_usage(facts, name)[1]:
            stranded.update(zone.stranded)
    parts = sum((usage.strands for usage in usages.values()), Counter[str]())
    if +stranded != +parts:
        yield f"namespaces strand {dict(parts)}, stranded is {dict(stranded)}"


async def audit_says_where_pods_are(lab: Lab) -> AsyncIterator[str]:
    """The zones in an audit are those of the kubelet's state, and no pod is left out."""
    facts = await lab.facts()
    told = audit(facts, facts.pods, moves=False)
    unknown = {(pod.namespace, pod.name) for pod in told.unknown}
    misaligned = {(pod.namespace, pod.name): pod for pod in told.misaligned}
    for pod in lab.pods:
        name, place = pod.spec.node_name, (pod.metadata.namespace, pod.metadata.name)
        kubelet = lab.pool.kubelets.get(name)
        exact = kubelet is not None and lab.producers.get(name) in EXACT
        if kubelet is None or kubelet.admission is None or not exact or has_ended(pod):
            continue
        model = kubelet.admission.model
        cpus = cpus_of(model, pod.metadata.uid)
        if place in unknown and cpus and lab.age(pod) > PERIOD_SECONDS:
            yield f"audit does not know where {place[1]} is, which has CPUs {cpus} of {name}"
        if _is_allotted(pod) or not cpus:
            continue
        zones = zones_of(model, cpus)
        listed = misaligned.get(place)
        if listed is not None and not zones <= set(listed.zones):
            yield f"audit has {place[1]} on {listed.zones}, its CPUs {cpus} are on {zones}"
        most = max(1, len(pod.spec.containers) + len(pod.spec.init_containers))
        aligns = model.settings.topology_policy != "none"
        if aligns and listed is None and place not in unknown and len(zones) > most:
            smallest = min(
                len(_zone(model, node.id) & _usable(model)) for node in model.machine.nodes
            )
            # Devices may be on more NUMA nodes than CPUs need to be: then so is the pod.
            has_devices = pod.spec.resource_claims or any(map(is_extended, PodInfo(pod).requests))
            if len(cpus) <= smallest and not has_devices:
                yield f"audit has {place[1]} aligned, its CPUs {cpus} are on {zones}"


def _held(lab: Lab, node: str, model: KubeletNode, pod: Pod) -> CpuSet:
    """Return the CPUs that a pod has, of its kubelet or by a claim."""
    given = [
        cpus for claim, cpus in lab.claim_drivers.given(node) if pod.metadata.uid in claim.holders
    ]
    return CpuSet.of(cpu for cpus in (cpus_of(model, pod.metadata.uid), *given) for cpu in cpus)


def cpus_of(model: KubeletNode, uid: str) -> CpuSet:
    """Return the CPUs that the kubelet's state has for a pod."""
    held = 0
    for bits in (model.cpus.assignments.get(uid, {}) if model.cpus is not None else {}).values():
        held |= bits
    return CpuSet(held)


def zones_of(model: KubeletNode, cpus: CpuSet) -> set[int]:
    """Return the NUMA nodes that *cpus* are on."""
    return {node.id for node in model.machine.nodes if cpus & _zone(model, node.id)}


def _zone(model: KubeletNode, zone: int) -> CpuSet:
    (node,) = (node for node in model.machine.nodes if node.id == zone)
    return CpuSet.of(cpu for core in node.cores for cpu in core.threads)


def _usable(model: KubeletNode) -> CpuSet:
    return CpuSet(model.cpus.allocatable if model.cpus is not None else 0)


def _is_allotted(pod: Pod) -> bool:
    """Whether a scheduler, not the kubelet, has given a pod its CPUs."""
    return any("koordinator" in key for key in pod.metadata.annotations)
