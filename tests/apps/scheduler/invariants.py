"""What must hold whatever happens: checked at the end of every test with faults.

No pod is bound twice or lost; no kubelet rejects a pod of ours as long as reports are true; no zone
is believed to hold more than it has; and after some quiet every cache equals a fresh list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.lab.exporters.truth import true_zones

from numakube.api.pod import Pod, has_ended
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.kube.store import Change, Removed
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.testing import until
from numakube_lab.testing import LabCluster, RunningScheduler


@dataclass(slots=True)
class Ledger:
    """Everything that was ever seen of pods.

    Attributes:
        nodes: the nodes that each pod was seen on, by uid.
        gone: uids of the pods that were deleted.
        rejected: names and reasons of the pods of ours that kubelets refused.
    """

    nodes: dict[str, set[str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    rejected: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, world: LabCluster) -> Ledger:
        """Keep a ledger of *world* from now on."""
        ledger = cls()
        world.pods.store.subscribe(ledger.note)
        return ledger

    def note(self, change: Change[Pod]) -> None:
        """Write down a change."""
        pod = change.object
        seen = self.nodes.setdefault(pod.metadata.uid, set())
        if isinstance(change, Removed):
            self.gone.add(pod.metadata.uid)
        if pod.spec.node_name:
            seen.add(pod.spec.node_name)
        status = pod.status
        if (
            pod.spec.scheduler_name == SCHEDULER_NAME
            and status is not None
            and status.phase == "Failed"
        ):
            self.rejected[pod.metadata.name] = f"{status.reason}: {status.message}"

    def bound_twice(self) -> dict[str, set[str]]:
        """Return the pods that were seen on several nodes."""
        return {uid: nodes for uid, nodes in self.nodes.items() if len(nodes) > 1}


async def assert_invariants(
    world: LabCluster, ledger: Ledger, *, deleted: Iterable[str] = (), truthful: bool = True
) -> None:
    """Assert what must hold once things are quiet.

    Args:
        world: the cluster.
        ledger: what was seen from the beginning.
        deleted: uids of the pods whose deletion was somebody's wish.
        truthful: whether the exporters have told the truth all the time.
    """
    assert ledger.bound_twice() == {}
    assert ledger.gone <= set(deleted), "pods are lost"
    if truthful:
        assert ledger.rejected == {}
    await assert_told_once(world)
    assert_zones_hold(world)
    for running in world.running:
        if not running.task.done():
            await assert_caches_are_fresh(world, running)


async def assert_told_once(world: LabCluster) -> None:
    """Assert that no pod was said to be scheduled twice."""
    told: dict[str, int] = {}
    for event in (await world.client.list(CORE_EVENTS)).items:
        if event.reason == "Scheduled":
            uid = event.involved_object.uid
            told[uid] = told.get(uid, 0) + (event.count or 1)
    assert {uid: times for uid, times in told.items() if times > 1} == {}


def assert_zones_hold(world: LabCluster) -> None:
    """Assert that no zone of any kubelet or in any belief holds more than it has."""
    for name, kubelet in world.pool.kubelets.items():
        if kubelet.admission is not None:
            for zone, amounts in true_zones(kubelet.admission.model).items():
                for resource, (allocatable, available) in amounts.items():
                    assert 0 <= available <= allocatable, (name, zone, resource)
    for running in world.running:
        for node in running.process.mirror.cluster.nodes():
            belief = node.numa
            for free in () if belief is None else belief.available:
                assert all(amount >= 0 for amount in free.values()), (node.name, free)


async def assert_caches_are_fresh(world: LabCluster, running: RunningScheduler) -> None:
    """Assert that a scheduler comes to know exactly what the server says."""
    mirror = running.process.mirror

    async def differences() -> str:
        nodes = {node.metadata.name for node in (await world.client.list(NODES)).items}
        pods = (await world.client.list(PODS)).items
        placed = {
            pod.metadata.uid: pod.spec.node_name
            for pod in pods
            if pod.spec.node_name and not has_ended(pod)
        }
        waiting = {
            pod.metadata.uid
            for pod in pods
            if not pod.spec.node_name
            and pod.spec.scheduler_name in running.process.parts.engine.runtimes
            and pod.metadata.deletion_timestamp is None
        }
        queued = {entry.uid for entry in running.process.scheduler.queue}
        known = placed_pods(mirror.cluster)
        return "; ".join(
            text
            for text, same in (
                (
                    f"nodes {set(mirror.cluster.row_of)} != {nodes}",
                    set(mirror.cluster.row_of) == nodes,
                ),
                (f"pods {_differing(known, placed)}", known == placed),
                (f"queue {queued ^ waiting}", queued == waiting),
                ("assumed pods", not any(mirror.is_assumed(uid) for uid in known)),
            )
            if not same
        )

    await until(differences, lambda text: not text)


def placed_pods(cluster: Cluster) -> dict[str, str]:
    """Return the node of every pod that a scheduler counts."""
    return {uid: node.name for node in cluster.nodes() for uid in node.pods}


def _differing(one: dict[str, str], two: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {
        uid: (one.get(uid, ""), two.get(uid, ""))
        for uid in one.keys() | two.keys()
        if one.get(uid) != two.get(uid)
    }
