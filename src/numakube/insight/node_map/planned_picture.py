"""What a node would look like with some pods more and some less, as its kubelet would do it.

    plan = planned(facts, "node-1", arriving=pods, leaving=("default/web",))
    plan.picture, plan.refused

The pods that leave are gone before the first one arrives. A pod that is refused takes nothing, and
those after it are asked all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from numakube.insight.facts import model_of
from numakube.insight.node_map.picture import PictureChange, letter_of
from numakube.insight.node_map.picture_from_facts import (
    node_picture,
    pod_names,
    reported_pods,
    with_claimed,
)
from numakube.insight.node_map.picture_from_report import picture_of_report
from numakube.insight.scheduler_holdings import given_holding, with_allotments
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.kubelet.predicates import check_fit
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import remove_pod, report_of
from numakube.topology.numa_zones import Unusable
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.node_map.picture import (
        DrawnCache,
        DrawnCore,
        DrawnCpu,
        DrawnDevice,
        DrawnMemory,
        DrawnZone,
        NodePicture,
    )
    from numakube.kubelet.kubelet_model import KubeletNode


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that the kubelet would not admit, in its words and in ours."""

    pod: str
    reason: str
    message: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """How it would turn out; ``before`` is the node as it is."""

    before: NodePicture
    picture: NodePicture
    refused: tuple[RejectedPod, ...] = ()


def planned(
    facts: ClusterFacts, node: str, *, arriving: Sequence[Pod] = (), leaving: Sequence[str] = ()
) -> PlannedNode | Unusable:
    """Return the plan for *node*, or why there is none.

    Args:
        facts: what is known of the cluster.
        node: which node.
        arriving: pods to admit, in this order.
        leaving: ``namespace/name`` of pods on the node that are to be gone.
    """
    model = model_of(facts, node)
    if isinstance(model, Unusable):
        return model
    running = {pod.metadata.key: pod for pod in facts.pods_on(node)}
    unknown = [name for name in leaving if name not in running]
    if unknown:
        return Unusable(f"no such pod on node {node}: {', '.join(unknown)}")
    for name in leaving:
        remove_pod(model, running.pop(name).metadata.uid)
    trial = _Trial(facts, node, model, list(running.values()))
    refused = tuple(one for pod in arriving if (one := trial.admit(pod)) is not None)
    before = node_picture(facts, node)
    # A rebuilt model knows its pods by their hashes, which its report then hashes once more.
    known = {uid_hash(digest): name for digest, name in pod_names(facts, node).items()}
    report = with_allotments(
        report_of(model),
        running.values(),
        key=lambda uid: uid_hash(uid_hash(uid)),
        given=lambda pod: given_holding(facts, pod),
    )
    after = with_claimed(
        picture_of_report(node, report, pods={**known, **trial.names}),
        [device.without(leaving) for device in facts.dra_devices(node)],
        reported=reported_pods(facts, node),
    )
    return PlannedNode(before, compared(before, after), refused)


class _Trial:
    """Admits pods one after the other, as the kubelet of a node would."""

    def __init__(
        self, facts: ClusterFacts, node: str, model: KubeletNode, running: list[Pod]
    ) -> None:
        self.names: dict[str, str] = {}
        self._model = model
        self._running = running
        status = facts.nodes[node].status if node in facts.nodes else None
        self._allocatable = amounts_of(status.allocatable) if status else None

    def admit(self, pod: Pod) -> RejectedPod | None:
        """Return why *pod* is refused; ``None`` if it runs."""
        # The same pod may run here already: the plan's is another one.
        uid = f"planned {len(self.names)} {pod.metadata.uid}"
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
        trace = AdmissionTrace()
        outcome = self._model.admit(pod, trace=trace)
        if isinstance(outcome, Rejected):
            return _refused(pod, outcome, trace)
        if self._allocatable is not None:
            misfit = check_fit(pod, self._running, self._allocatable)
            if misfit is not None:
                self._model.remove(uid)
                return _refused(pod, misfit, None)
        self.names[uid_hash(uid)] = self._name(pod)
        self._running.append(pod)
        return None

    def _name(self, pod: Pod) -> str:
        """Return a name that no other pod in the picture has."""
        key = pod.metadata.key
        again = sum(other.metadata.key == key for other in self._running)
        return f"{key} (again)" if again == 1 else f"{key} ({again} more)" if again else key


def _refused(pod: Pod, outcome: Rejected, trace: AdmissionTrace | None) -> RejectedPod:
    aligned = trace is not None and not trace.failed and trace.alignments
    why = trace.alignments[-1].why if trace is not None and aligned else ""
    return RejectedPod(pod.metadata.key, outcome.reason, outcome.message, why)


# Before and after: the picture of a plan, with what it takes and what it frees marked.


def compared(before: NodePicture, after: NodePicture) -> NodePicture:
    """Return *after* with everything marked that differs from *before*, two states of one node.

    Pods keep the letters and colours that they have in *before*. Those that are gone stay in the
    legend, marked as freed, with what they held.
    """
    after = _in_old_order(before, after)
    pen = _Comparison(before, after)
    return replace(
        after,
        zones=tuple(map(pen.zone, after.zones)),
        homeless=tuple(map(pen.device, after.homeless)),
        planned=True,
    )


def _in_old_order(before: NodePicture, after: NodePicture) -> NodePicture:
    """Return *after* with all pods of *before* first, in the same places."""
    now = {pod.name: pod for pod in after.pods}
    old = {pod.name for pod in before.pods}
    kept = [
        replace(now[pod.name], letter=pod.letter)
        if pod.name in now
        else replace(pod, change=PictureChange.FREED)
        for pod in before.pods
    ]
    new = [pod for pod in after.pods if pod.name not in old]
    marked = [
        replace(pod, change=PictureChange.TAKEN, letter=letter_of(len(kept) + number))
        for number, pod in enumerate(new)
    ]
    places = {pod.name: number for number, pod in enumerate([*kept, *marked])}
    mover = _Mover({number: places[pod.name] for number, pod in enumerate(after.pods)})
    return replace(
        after,
        pods=(*kept, *marked),
        zones=tuple(map(mover.zone, after.zones)),
        homeless=tuple(map(mover.device, after.homeless)),
    )


class _Mover:
    """Gives owners other numbers."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers

    def zone(self, zone: DrawnZone) -> DrawnZone:
        return replace(
            zone,
            caches=tuple(map(self._cache, zone.caches)),
            memory=tuple(map(self._bar, zone.memory)),
            devices=tuple(map(self.device, zone.devices)),
        )

    def device(self, device: DrawnDevice) -> DrawnDevice:
        sharers = tuple(self._numbers[owner] for owner in device.sharers)
        return replace(device, owner=self._owner(device.owner), sharers=sharers)

    def _owner(self, owner: int | None) -> int | None:
        return None if owner is None else self._numbers[owner]

    def _cache(self, cache: DrawnCache) -> DrawnCache:
        return replace(cache, cores=tuple(map(self._core, cache.cores)))

    def _core(self, core: DrawnCore) -> DrawnCore:
        cpus = (replace(cpu, owner=self._owner(cpu.owner)) for cpu in core.cpus)
        return replace(core, cpus=tuple(cpus))

    def _bar(self, bar: DrawnMemory) -> DrawnMemory:
        parts = (
            replace(part, owners=tuple(self._numbers[owner] for owner in part.owners))
            for part in bar.parts
        )
        return replace(bar, parts=tuple(parts))


class _Comparison:
    """Looks up in one picture what another one shows."""

    def __init__(self, before: NodePicture, after: NodePicture) -> None:
        self._after = after
        self._cpus = {cpu.id: before.owner_name(cpu.owner) for cpu in before.cpus()}
        self._devices = {
            (device.resource, device.position): before.owner_name(device.owner)
            for device in before.devices()
        }
        self._memory = {
            (zone.id, bar.kind): {
                tuple(before.owner_name(owner) for owner in part.owners): part.size_bytes
                for part in bar.parts
            }
            for zone in before.zones
            for bar in zone.memory
        }

    def zone(self, zone: DrawnZone) -> DrawnZone:
        return replace(
            zone,
            caches=tuple(map(self._cache, zone.caches)),
            memory=tuple(self._bar(zone.id, bar) for bar in zone.memory),
            devices=tuple(map(self.device, zone.devices)),
        )

    def _cache(self, cache: DrawnCache) -> DrawnCache:
        return replace(cache, cores=tuple(map(self._core, cache.cores)))

    def _core(self, core: DrawnCore) -> DrawnCore:
        return replace(core, cpus=tuple(map(self._cpu, core.cpus)))

    def _cpu(self, cpu: DrawnCpu) -> DrawnCpu:
        was, now = self._cpus.get(cpu.id, ""), self._after.owner_name(cpu.owner)
        return cpu if was == now else replace(cpu, change=_change(now), was=was)

    def device(self, device: DrawnDevice) -> DrawnDevice:
        was = self._devices.get((device.resource, device.position), "")
        now = self._after.owner_name(device.owner)
        return device if was == now else replace(device, change=_change(now), was=was)

    def _bar(self, zone: int, bar: DrawnMemory) -> DrawnMemory:
        was = self._memory.get((zone, bar.kind), {})
        parts = []
        for part in bar.parts:
            owners = tuple(self._after.owner_name(owner) for owner in part.owners)
            same = was.get(owners, 0) == part.size_bytes
            parts.append(part if same else replace(part, change=PictureChange.TAKEN))
        still = {tuple(map(self._after.owner_name, part.owners)) for part in bar.parts}
        freed = sum(size for owners, size in was.items() if owners not in still)
        return replace(bar, parts=tuple(parts), freed_bytes=min(freed, bar.free_bytes))


def _change(now: str) -> PictureChange:
    return PictureChange.TAKEN if now else PictureChange.FREED
