"""What must hold in every world once it is quiet; each oracle yields what does not.

They know the kubelets' own books and the objects of the API server. Where a tool is judged, its
answer is compared with what schedulers and kubelets have really done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from tests.apps.scheduler.brute_force import fits as would_admit
from tests.lab.exporters.truth import true_zones
from tests.worlds.virtual_lab import VirtualLab

from numakube.api.nodes import Node
from numakube.api.pod import Pod, has_ended
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.explain import explain, in_its_gang, pod_subject
from numakube.insight.explain.pod_explanation import Options
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.trial_placement import trying
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology

_BRIEF: Final = Options(changes=False)
YOUNG_SECONDS: Final = 20.0
"""How old a pod has to be before it must have been placed; owners make new ones all the time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold.

    Attributes:
        oracle: which one found it.
    """

    oracle: str
    text: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.oracle.replace('_', ' ')}: {self.text}"


async def no_pod_is_bound_twice(lab: VirtualLab) -> AsyncIterator[str]:
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


async def no_kubelet_rejects_a_pod(lab: VirtualLab) -> AsyncIterator[str]:
    """Kubelets admit every pod that our schedulers bind to them."""
    for pod in lab.seen.rejected.values():
        if lab.could_know(pod) and pod.status is not None:
            yield f"{pod.metadata.name} on {pod.spec.node_name}: {pod.status.message}"


async def nothing_is_logged_as_an_error(lab: VirtualLab) -> AsyncIterator[str]:
    """No program complains."""
    for line in lab.complaints:
        yield line


async def no_zone_holds_more_than_it_has(lab: VirtualLab) -> AsyncIterator[str]:
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


async def caches_equal_a_fresh_list(lab: VirtualLab) -> AsyncIterator[str]:
    """Every scheduler knows what the API server says, and waits for every pod that waits."""
    nodes = {one.metadata.name for one in (await lab.through(lab.client.list(NODES))).items}
    pods = (await lab.through(lab.client.list(PODS))).items
    placed = {
        one.metadata.uid: one.spec.node_name
        for one in pods
        if one.spec.node_name and not has_ended(one)
    }
    waiting = {one.metadata.uid: one.metadata.name for one in lab.waiting()}
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


async def no_pod_waits_that_fits(lab: VirtualLab) -> AsyncIterator[str]:
    """Every pod that fits by a fresh look, or by the kubelets' own word, runs."""
    if not lab.served or lab.unsettled:
        return
    facts = await lab.facts()
    nodes = facts.nodes
    for pod in lab.waiting():
        if pod.spec.scheduling_gates or lab.age(pod) < YOUNG_SECONDS:
            continue
        name, subject = pod.metadata.name, pod_subject(pod)
        told = explain(facts, engine_of(facts), subject, _BRIEF)
        told = in_its_gang(told, facts, engine_of, subject)
        if told.verdict == "fits":
            yield f"{name} waits, and explain says: {told.summary}"
        elif _is_plain(pod):
            places = [one for one in lab.pool.kubelets if _takes(lab, nodes.get(one), one, pod)]
            if places and all(lab.tells_exactly(one) for one in places):
                yield f"{name} waits, and the kubelet of {places[0]} would admit it: {told.summary}"


def _is_plain(pod: Pod) -> bool:
    """Whether nothing but room decides where *pod* may run."""
    spec = pod.spec
    annotated = any("koordinator" in key for key in pod.metadata.annotations)
    gang = gang_key(PodInfo(pod)) is not None
    constrained = gang or spec.affinity or spec.topology_spread_constraints or spec.resource_claims
    return not (constrained or spec.node_selector or spec.resources or annotated)


def _takes(lab: VirtualLab, node: Node | None, name: str, pod: Pod) -> bool:
    if node is None or node.spec.unschedulable or node.spec.taints:
        return False
    admission = lab.pool.kubelet(name).admission
    return admission is not None and would_admit(admission, pod)


async def schedulers_say_what_fits(lab: VirtualLab) -> AsyncIterator[str]:
    """A scheduler that is asked whether a waiting pod would fit, as ``/v1/fit`` asks, says no."""
    if lab.unsettled:
        return
    for name, running in lab.schedulers.items():
        if not running.process.leading or running.task.done() or running.shard:
            continue
        for pod in lab.waiting():
            info = PodInfo(pod)
            held = pod.spec.scheduling_gates or gang_key(info) is not None
            if held or lab.age(pod) < YOUNG_SECONDS:
                continue
            with trying(running.process.scheduler.engine) as trials:
                (trial,) = trials.pods([info])
            if trial.node:
                yield f"{info.key} waits, and scheduler {name} says that it fits on {trial.node}"


async def tools_show_what_kubelets_hold(lab: VirtualLab) -> AsyncIterator[str]:
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


async def a_quiet_cluster_is_quiet(lab: VirtualLab) -> AsyncIterator[str]:
    """No report is written again when nothing has happened for a while."""
    for name in lab.rewritten if not lab.unsettled else ():
        # Silence has an end, and it may be just now.
        if lab.producers.get(name) != "surprises":
            yield f"the report of {name} was written although nothing had changed"


async def doctor_is_not_broken(lab: VirtualLab) -> AsyncIterator[str]:
    """No check of the doctor fails, and it finds no gang untried."""
    facts = await lab.facts()
    for entry in diagnose(facts).entries:
        if entry.rule.id in _NEVER:
            yield f"{entry.rule.id}: {entry.findings[0]}"


_NEVER: Final = {"NUMA-DOCTOR-INCOMPLETE", "NUMA-GANG-UNTRIED"}
Oracle = Callable[[VirtualLab], AsyncIterator[str]]
ORACLES: Final[tuple[Oracle, ...]] = (
    no_pod_is_bound_twice,
    no_kubelet_rejects_a_pod,
    nothing_is_logged_as_an_error,
    no_zone_holds_more_than_it_has,
    caches_equal_a_fresh_list,
    no_pod_waits_that_fits,
    schedulers_say_what_fits,
    tools_show_what_kubelets_hold,
    a_quiet_cluster_is_quiet,
    doctor_is_not_broken,
)
