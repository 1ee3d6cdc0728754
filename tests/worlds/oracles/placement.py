"""Pods run if and only if they fit, and whoever is asked says the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from tests.apps.scheduler.brute_force import fits as would_admit
from tests.worlds.stock import STOCK
from tests.worlds.virtual_lab import Lab

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.nodes import Node
from numakube.api.pod import Pod, has_ended
from numakube.api.pod_resources import pending_resize
from numakube.api.zone_relations import NO_WISH, zone_wish_of
from numakube.errors import MalformedObject
from numakube.insight.explain import explain, in_its_gang, pod_subject
from numakube.insight.explain.claim_explanation import explain_claim
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.node_explanation import explain_node
from numakube.insight.scheduler_engine import engine_of
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.scheduling.numa.caches.report_coverage import PATIENCE_SECONDS
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_placement.webhook.admission_review import AdmissionRequest, judge
from numakube_planning.fit_endpoint import trying
from numakube_planning.simulation.compared_schedulers import ours
from numakube_planning.simulation.simulated_cluster import cluster_of, waiting_in
from numakube_planning.simulation.simulator import Run
from numakube_planning.simulation.simulator import SimulatorOptions as SimulationOptions

WRONG: Final = "wrong-"
"""How the names of pods begin whose annotations cannot be read."""
_POD: Final = {"apiVersion": "v1", "kind": "Pod"}
_BRIEF: Final = ExplainOptions(changes=False)
SIMULATED: Final = SimulationOptions(until=120.0, patience_seconds=60.0)


async def no_pod_is_bound_twice(lab: Lab) -> AsyncIterator[str]:
    """No pod was ever seen on two nodes, or said to be scheduled twice."""
    for uid, nodes in lab.seen.nodes.items():
        if len(nodes) > 1:
            yield f"{uid} was on {', '.join(sorted(nodes))}"
    told: dict[str, int] = {}
    for event in (await lab.through(lab.client.list(CORE_EVENTS))).items:
        if event.reason == "Scheduled":
            uid = event.involved_object.uid
            told[uid] = told.get(uid, 0) + (event.count or 1)
    for uid, times in told.items():
        if times > 1:
            yield f"{uid} was said to be scheduled {times} times"


async def no_kubelet_rejects_a_pod(lab: Lab) -> AsyncIterator[str]:
    """Kubelets admit every pod that our schedulers bind to them."""
    for pod in lab.seen.rejected.values():
        if lab.could_know(pod) and pod.status is not None:
            yield f"{pod.metadata.name} on {pod.spec.node_name}: {pod.status.message}"


async def no_pod_waits_that_fits(lab: Lab) -> AsyncIterator[str]:
    """Every pod that fits by a fresh look, or by the kubelets' own word, runs.

    A scheduler trusts a report that does not say which pods it has only after a while.
    """
    found = [one async for one in _waiting_though_they_fit(lab)]
    if found and not all(map(lab.tells_exactly, lab.pool.kubelets)):
        await lab.pass_time(PATIENCE_SECONDS)
        found = [one async for one in _waiting_though_they_fit(lab)]
    for text in found:
        yield text


async def _waiting_though_they_fit(lab: Lab) -> AsyncIterator[str]:
    if not lab.served or lab.unsettled:
        return
    facts = await lab.facts()
    nodes = facts.nodes
    for pod in lab.waiting():
        if pod.spec.scheduling_gates or lab.age(pod) < lab.young_seconds:
            continue
        name, subject = pod.metadata.name, pod_subject(pod)
        told = explain(facts, engine_of(facts), subject, _BRIEF)
        told = in_its_gang(told, facts, engine_of, subject)
        if told.verdict == "fits":
            yield f"{name} waits, and explain says: {told.summary}"
        elif is_plain(pod):
            places = [
                kubelet
                for kubelet in lab.pool.kubelets
                if takes(lab, nodes.get(kubelet), kubelet, pod)
            ]
            if places and all(lab.tells_exactly(place) for place in places):
                yield f"{name} waits, and the kubelet of {places[0]} would admit it: {told.summary}"


async def explanations_of_nodes_and_claims_are_true(lab: Lab) -> AsyncIterator[str]:
    """A node takes what its explanation says, and devices of a claim are where its pods run."""
    facts = await lab.facts()
    pods = {pod.metadata.key: pod for pod in lab.pods}
    plain = [pod for pod in lab.waiting() if is_plain(pod)]
    for name, node in facts.nodes.items() if plain and lab.all_exact else ():
        engine, options = engine_of(facts), ExplainOptions(node=name, changes=False)
        told = explain_node(facts, name, partial(explain, facts, engine, options=options))
        for entry in told.waiting:
            pod = pods.get(entry.pod)
            if entry.verdict == "fits" and pod in plain and not takes(lab, node, name, pod):
                yield f"explain node says that {entry.pod} fits on {name}, and its kubelet does not"
    for key, claim in facts.objects.resource_claims.items():
        if claim.status.allocation is None:
            continue
        has = explain_claim(facts, claim, partial(explain, facts, engine_of(facts)))
        for user in has.users:
            places = {device.node for device in has.devices if device.node}
            if user.node and user.reserved and not places <= {user.node}:
                yield f"explain claim has {key} on {places}, {user.pod} is on {user.node}"
            if user.reserved and (user.state == "gone") == (user.pod in pods):
                yield f"explain claim says of {user.pod}, for which {key} is kept: {user.state}"


async def nobody_is_evicted_in_vain(lab: Lab) -> AsyncIterator[str]:
    """Whoever had others evicted runs then; a gang is not ended that has lost nobody."""
    events = (await lab.through(lab.client.list(CORE_EVENTS))).items
    ended = {event.involved_object.uid for event in events if event.reason == "GangIncomplete"}
    lost = {gang for uid, gang in lab.seen.gangs.items() if uid not in ended and _is_lost(lab, uid)}
    for uid in ended:
        if lab.seen.gangs.get(uid) not in lost:
            yield f"{uid} was evicted because its gang {lab.seen.gangs.get(uid)} has lost somebody"
    if lab.unsettled or not lab.all_exact or not lab.served:
        return
    waiting = {pod.metadata.uid: pod for pod in lab.waiting() if lab.age(pod) > lab.young_seconds}
    for event in events:
        by = (event.message or "").removeprefix("Preempted by pod ").partition(" on ")[0]
        if event.reason == "Preempted" and by in waiting and by not in lab.seen.nodes:
            yield f"{event.message}, and {waiting[by].metadata.name} waits"


def _is_lost(lab: Lab, uid: str) -> bool:
    """Tell whether a pod that was on a node is not there any more, or has ended."""
    pod = lab.seen.pods.get(uid)
    return uid in lab.seen.nodes and (pod is None or has_ended(pod))


async def the_webhook_refuses_what_cannot_run(lab: Lab) -> AsyncIterator[str]:
    """It lets in every pod that runs, and none whose annotations no scheduler can read."""
    for pod in (await lab.through(lab.client.list(PODS.raw))).items:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        answer = judge(AdmissionRequest(uid=name, operation="CREATE", object={**pod, **_POD}))
        refused = answer.status.message if answer.status is not None else ""
        if node and refused:
            yield f"{name} runs on {node}, and the webhook would have refused it: {refused}"
        if not refused and name.startswith(WRONG):
            yield f"{name} has an annotation that nobody can read, and the webhook lets it in"


async def no_pod_of_the_stock_scheduler_waits_that_fits(lab: Lab) -> AsyncIterator[str]:
    """By the kubelets' own word, when all that they hold is known."""
    if lab.extender is None or lab.unsettled or not lab.all_exact:
        return
    nodes = (await lab.facts()).nodes
    for pod in lab.waiting(STOCK):
        places = [
            kubelet for kubelet in lab.pool.kubelets if takes(lab, nodes.get(kubelet), kubelet, pod)
        ]
        if places and lab.age(pod) >= lab.young_seconds and is_plain(pod):
            yield f"{pod.metadata.name} waits, and the kubelet of {places[0]} would admit it"


async def pods_run_where_their_disks_are(lab: Lab) -> AsyncIterator[str]:
    """A disk that cannot be reached from everywhere decides where its pod runs."""
    if lab.disks is None:
        return
    disks = {volume.metadata.name: volume for volume in lab.disks.volumes.store.values()}
    claims = {(c.metadata.namespace, c.metadata.name): c for c in lab.disks.claims.store.values()}
    nodes = {node.metadata.name: node for node in (await lab.through(lab.client.list(NODES))).items}
    for pod in lab.pods:
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            claim = claims.get((pod.metadata.namespace, source.claim_name)) if source else None
            disk = disks.get(claim.spec.volume_name) if claim is not None else None
            node = nodes.get(pod.spec.node_name)
            if disk is None or node is None or disk.spec.node_affinity is None:
                continue
            if not _reaches(node, disk.spec.node_affinity.required):
                yield f"{pod.metadata.name} is on {pod.spec.node_name}, and its disk is not"


def _reaches(node: Node, required: NodeSelector | None) -> bool:
    labels = node.metadata.labels
    return required is None or any(
        all(
            labels.get(expression.key) in expression.values for expression in term.match_expressions
        )
        for term in required.node_selector_terms
    )


def is_plain(pod: Pod) -> bool:
    """Whether nothing but room decides where *pod* may run."""
    spec = pod.spec
    wishes = zone_wish_of(pod.metadata.annotations) is not NO_WISH
    annotated = wishes or any("koordinator" in key for key in pod.metadata.annotations)
    gang = gang_key(PodInfo(pod)) is not None
    constrained = gang or spec.affinity or spec.topology_spread_constraints or spec.resource_claims
    return not (constrained or spec.node_selector or spec.resources or spec.volumes or annotated)


def takes(lab: Lab, node: Node | None, name: str, pod: Pod) -> bool:
    if node is None or node.spec.unschedulable or node.spec.taints:
        return False
    if any(other.spec.node_name == name and pending_resize(other) for other in lab.pods):
        # Room is kept for what a running pod is to have, which the kubelet has yet to give it.
        return False
    admission = lab.pool.kubelet(name).admission
    return admission is not None and would_admit(admission, pod)


async def schedulers_say_what_fits(lab: Lab) -> AsyncIterator[str]:
    """A scheduler that is asked whether a waiting pod would fit, as ``/v1/fit`` asks, says no."""
    if lab.unsettled:
        return
    for name, running in lab.schedulers.items():
        if not running.process.leading or running.task.done() or running.shard:
            continue
        for pod in lab.waiting():
            info = PodInfo(pod)
            held = pod.spec.scheduling_gates or gang_key(info) is not None
            if held or lab.age(pod) < lab.young_seconds:
                continue
            with trying(running.process.parts.engine) as trials:
                (trial,) = trials.pods([info])
            if trial.node:
                yield f"{info.key} waits, and scheduler {name} says that it fits on {trial.node}"


async def simulation_says_what_fits(lab: Lab) -> AsyncIterator[str]:
    """In a simulation of the present state no pod of ours starts that waits here."""
    if lab.unsettled or not lab.all_exact or not lab.served or lab.sharded:
        return
    waiting = lab.waiting()
    young = any(lab.age(pod) < lab.young_seconds for pod in waiting)
    if any(
        not pod.spec.node_name and pod not in waiting and not has_ended(pod) for pod in lab.pods
    ):
        return  # A simulation has one scheduler, which takes the pods of others for its own.
    if not waiting or young or any(pod.spec.scheduling_gates for pod in waiting):
        return
    # Simulated kubelets are of a release that reads what pods ask for as a whole.
    if any(pod.spec.resources for pod in waiting) and not lab.all_read_pod_level:
        return
    facts = await lab.facts()
    try:
        run = Run(cluster_of(facts, "the lab"), ours(), 0, SIMULATED)
    except MalformedObject as error:
        yield f"the present state cannot be simulated: {error}"
        return
    run.play(waiting_in(facts))
    # A simulation places the pods of a gang one by one.
    alone = {pod.metadata.name for pod in waiting if gang_key(PodInfo(pod)) is None}
    for name, fate in run.fates().items():
        if fate in facts.nodes and name in alone:
            yield f"{name} waits, and runs on {fate} in a simulation"
