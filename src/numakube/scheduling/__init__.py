"""Decides where a pod runs: snapshot, plugins, queue, and the scheduling cycle. Pure.

Pure: nothing here talks to a cluster, reads a clock or draws random numbers by itself. A cycle
looks at a snapshot and returns a decision; the processes of `numakube.apps` carry it out.

Where modules name kube-scheduler without more, they mean release 1.37. Recorded cases of 1.35
differ from it in one respect: it rates no nodes by storage capacity. Of 1.37 there are no extension
points for whole groups of pods (``placementGenerate``, ``placementScore``, ``podGroupPostFilter``),
because gangs are planned here (`gang_planning`). Defaults of features of DRA are in
`numakube.dra.features`.

Lowest first; an import points downwards only:

    arrays       names for the arrays that nodes are judged with
    snapshot/    what is known of nodes and pods: objects for rules, arrays for speed
    matching     node selectors and taints, for one node and for all
    framework/   the contract between plugins and those who run them, after kube-scheduler's
    plugins/     the predicates and scores of kube-scheduler's default profile
    numa/        what we add: alignment on NUMA zones, and the reservations that it needs
    koordinator/ placement by the scheduler itself, as annotations ask for it
    preemption/  which pods make room for one that fits nowhere
    scheduling_queue
                 which pod is tried next
    cycle        one attempt: from a pod and the snapshot to a decision
    recorder/    what decisions were made of, for people
    config/      from a KubeSchedulerConfiguration to plugins
    assembly     every plugin there is, and the engine of a scheduler made of them
    gang_placements
                 where the members of a gang may go together
    gang_planning
                 one plan for all members of a gang

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.scheduling.assembly import (
        Engine,
        all_plugins,
        assemble,
        default_configuration,
        default_profile,
    )
    from numakube.scheduling.cycle import Attempt, Chosen, Cycle, Failed, FirstOfEquals, Refused
    from numakube.scheduling.scheduling_queue import (
        PodBackoff,
        ProfileHints,
        QueuedPod,
        SchedulingQueue,
    )

__all__ = [
    "Attempt",
    "Chosen",
    "Cycle",
    "Engine",
    "Failed",
    "FirstOfEquals",
    "PodBackoff",
    "ProfileHints",
    "QueuedPod",
    "Refused",
    "SchedulingQueue",
    "all_plugins",
    "assemble",
    "default_configuration",
    "default_profile",
]

__getattr__ = lazy_names(
    __name__,
    {
        "assembly": "default_configuration Engine all_plugins assemble default_profile",
        "cycle": "Attempt Chosen Cycle Failed FirstOfEquals Refused",
        "scheduling_queue": "PodBackoff ProfileHints QueuedPod SchedulingQueue",
    },
)
