"""Containers run where schedulers that choose CPUs have said, and nobody else does."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.worlds.enforced import confined
from tests.worlds.oracles.books import cpus_of
from tests.worlds.virtual_lab import Lab

from numakube.api.pod import has_ended
from numakube.values.cpuset import CpuSet, union


async def enforcers_keep_pods_on_their_cpus(lab: Lab) -> AsyncIterator[str]:
    """A container can use what it was given for itself, all of it and nothing else.

    What a kubelet has pinned stays as it is; those that have nothing of their own keep off.
    """
    for name, running in lab.enforcers.running.items():
        if running.task.done():
            yield f"the enforcer of {name} has ended: {running.task}"
            continue
        kubelet = lab.pool.kubelets[name]
        if kubelet.admission is None:
            continue
        model = kubelet.admission.model
        pods = [pod for pod in lab.pods if pod.spec.node_name == name and not has_ended(pod)]
        pinned = {pod.metadata.uid: cpus_of(model, pod.metadata.uid) for pod in pods}
        found = [one for one in confined(running.groups, pods) if not pinned[one.pod.metadata.uid]]
        taken = union(one.given.bits for one in found)
        machine = union(
            1 << cpu for node in model.machine.nodes for core in node.cores for cpu in core.threads
        )
        for one in found:
            who = f"{one.pod.metadata.name}/{one.container} on {name}"
            if one.given and one.can_use != one.given:
                yield f"{who} was given CPUs {one.given}, and can use {one.can_use}"
            if not one.given and one.can_use.bits & taken and taken != machine:
                others = CpuSet(one.can_use.bits & taken)
                yield f"{who} can use CPUs {others}, which others have for themselves"
