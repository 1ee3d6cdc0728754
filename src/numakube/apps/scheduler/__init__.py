"""The scheduler: the program that binds pods as `numakube.scheduling` decides.

The deciding half, plugins and configuration included, is `numakube.scheduling`. This is the acting
half:

    settings            options and configuration file
    process             all of it together, with leader election
    scheduler_parts     one of each part, put together
    scheduling_loop     the loop: from the queue through a cycle to what is done about it
    mirror_listener     what becomes of changes that the mirror tells of, rejections among them
    binding_cycle       reserve, permit, bind, and undo; where a tried pod waits next
    gang_step           plans for gangs, carried out as a whole
    preemption_actions  nominations, eviction of victims, and room that is kept
    decision_events     what users see: events and conditions
    binders             pods, volumes and claims, bound at the API server
    shards              several schedulers that share the nodes of a cluster
    metrics             figures
    scheduler_endpoints
                        a look inside

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.scheduler.process import SchedulerProcess

__all__ = [
    "SchedulerProcess",
]

__getattr__ = lazy_names(
    __name__,
    {
        "process": "SchedulerProcess",
    },
)
