"""Which schedulers there are, by every sign of them: a pod that names another waits for ever.

Such a pod stays Pending without an event or a condition. Signs are leases, command lines, profiles,
events, and pods that a scheduler has looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.scheduler_config import DEFAULT_SCHEDULER, SCHEDULER_NAME
from numakube.insight.deployed_programs import ProgramRole, deployed
from numakube.insight.near_names import scheduler_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

_CONFIG: Final = "kubescheduler.config.k8s.io"
_NODE_LEASES: Final = "kube-node-lease"
_SCHEDULING: Final = frozenset({"Scheduled", "FailedScheduling", "Preempted"})
_GATED: Final = "SchedulingGated"
"""The API server itself writes this reason."""


def profiles(facts: ClusterFacts) -> Iterator[str]:
    """Yield the names of the profiles that schedulers told of."""
    for scheduler in facts.schedulers.values():
        yield from profiles_in(scheduler.documents.get("configz"))


def profiles_in(document: Any) -> Iterator[str]:  # noqa: ANN401 - JSON of another program
    """Yield the names of the profiles in what a scheduler says of its configuration."""
    listed = configuration_of(document).get("profiles")
    for profile in listed if isinstance(listed, list) else ():
        name = profile.get("schedulerName") if isinstance(profile, dict) else None
        if isinstance(name, str) and name:
            yield name


def configuration_of(document: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON of another program
    """Return the configuration in an answer of ``/configz``."""
    config = document.get(_CONFIG) if isinstance(document, dict) else None
    return config if isinstance(config, dict) else {}


def known_schedulers(facts: ClusterFacts) -> frozenset[str]:
    """Return the names of the schedulers of which there is any sign."""
    leases = {
        lease.metadata.name for lease in facts.leases if lease.metadata.namespace != _NODE_LEASES
    }
    flags = {one.scheduler_name for one in deployed(facts, ProgramRole.SCHEDULER)}
    served = {pod.spec.scheduler_name for pod in facts.pods if was_looked_at(pod)}
    told = {
        event.reporting_component or event.source.component
        for event in facts.events
        if event.reason in _SCHEDULING
    }
    found = leases | flags | served | told | set(profiles(facts)) | {DEFAULT_SCHEDULER}
    return frozenset(found - {""})


def was_looked_at(pod: Pod) -> bool:
    """Tell whether a scheduler has given *pod* a node, or said why it has none."""
    conditions = pod.status.conditions if pod.status else ()
    return bool(pod.spec.node_name) or any(
        condition.type == "PodScheduled" and condition.reason != _GATED for condition in conditions
    )


def said_of(pod: Pod) -> str:
    """Return why *pod* has no node, as its scheduler last said; empty if it has said nothing."""
    conditions = pod.status.conditions if pod.status else ()
    return next(
        (
            condition.message
            for condition in conditions
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        "",
    )


def unserved(facts: ClusterFacts, pod: Pod) -> str:
    """Say that no scheduler serves *pod*, and which may be meant; empty if one does, or may.

    Nothing is said without leases: where not even those of nodes were read, little is known.
    """
    name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    if not facts.leases or was_looked_at(pod):
        return ""
    known = known_schedulers(facts)
    if name in known:
        return ""
    return f"there is no sign of a scheduler {name}; {scheduler_hint(name, known)}"


_USUAL: Final = frozenset(
    {
        SCHEDULER_NAME,
        "numakube-kube-scheduler",
        "numa-scheduler",
        "topo-aware-scheduler",
        "topology-aware-scheduler",
    }
)


def numa_schedulers(facts: ClusterFacts) -> frozenset[str]:
    """Return the names that pods give to have their NUMA zones looked after."""
    flags = (one.scheduler_name for one in deployed(facts, ProgramRole.SCHEDULER))
    return _USUAL | {name for name in flags if name} | frozenset(profiles(facts))
