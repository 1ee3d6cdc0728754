"""Is there a scheduler for every pod that waits for one, and exactly one?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from numakube.api.pod import has_ended
from numakube.api.scheduler_config import DEFAULT_SCHEDULER, HOLDER_PREFIX, MAIN_LEASE
from numakube.insight.collected import LEASES
from numakube.insight.deployed_programs import ProgramRole, deployed
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, maker_of
from numakube.insight.doctor.node_clock_checks import clock_offset
from numakube.insight.known_schedulers import (
    configuration_of,
    known_schedulers,
    numa_schedulers,
    profiles,
    profiles_in,
    was_looked_at,
)
from numakube.insight.near_names import nearest_scheduler, scheduler_hint
from numakube.insight.object_ages import age_seconds, pod_age
from numakube.scheduling.plugins.pod_gangs import Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.display import age_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.meta import Lease
    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

_PATIENCE_SECONDS: Final = 30
_SILENT_SECONDS: Final = 300
_DEFAULT_DURATION: Final = 15

UNKNOWN: Final = Rule(
    id="NUMA-SCHEDULER-UNKNOWN",
    severity=Severity.ERROR,
    title="Pods name a scheduler that does not exist",
    why="No scheduler will ever look at them; they stay Pending without an event.",
    fix="# correct spec.schedulerName in the pod template, or deploy a scheduler of that name",
)
SILENT: Final = Rule(
    id="NUMA-SCHEDULER-SILENT",
    severity=Severity.WARNING,
    title="Pods wait and their scheduler says nothing about them",
    why="It is down, stuck, or has no profile of that name.",
    fix="kubectl get leases -A   # who leads, since when? then the log of the scheduler",
)
LEASE_EXPIRED: Final = Rule(
    id="NUMA-SCHEDULER-LEASE-EXPIRED",
    severity=Severity.ERROR,
    title="The lease of a NUMA scheduler is not renewed",
    why="No scheduler of that name leads: its pods stay Pending.",
    fix="kubectl get pods -A -l app.kubernetes.io/part-of=numakube   # does any run?",
)
TWO_LEADERS: Final = Rule(
    id="NUMA-SCHEDULER-TWO-LEADERS",
    severity=Severity.ERROR,
    title="Two schedulers of one name are at work",
    why=(
        "Each has a lease of its own, so both schedule the same pods and give the same zone away"
        " twice."
    ),
    fix="# delete one of the deployments, or give it another --scheduler-name",
)

SHARED_NAME: Final = Rule(
    id="NUMA-SCHEDULER-SHARED-NAME",
    severity=Severity.WARNING,
    title="Two schedulers serve pods of default-scheduler",
    why=(
        "Ours takes these pods only while it holds kube-scheduler's lease, so that they are not"
        " bound twice. Which of the two schedules them depends on who started first."
    ),
    fix=(
        "# stop kube-scheduler (on kubeadm, replace its static pod), or take default-scheduler out"
        " of the profiles of numakube's scheduler"
    ),
)

FOREIGN_LEASE: Final = Rule(
    id="NUMA-SCHEDULER-FOREIGN-LEASE",
    severity=Severity.ERROR,
    title="A scheduler wants kube-scheduler's lease and does not do its work",
    why=(
        "Only the holder of the lease works: either this scheduler's pods wait, or all pods that"
        " name no scheduler."
    ),
    fix=(
        "# in the scheduler's configuration, leaderElection.resourceName: a name of its own, or"
        " leave it out"
    ),
)

RULES: Final = (UNKNOWN, SILENT, LEASE_EXPIRED, TWO_LEADERS, SHARED_NAME, FOREIGN_LEASE)


def check_names(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for pods that no scheduler serves."""
    known = known_schedulers(facts)
    for pod in facts.pods:
        if not _is_unseen(facts, pod):
            continue
        name, age = pod.spec.scheduler_name or DEFAULT_SCHEDULER, pod_age(facts, pod) or 0
        if name not in known and facts.missing(LEASES) is None:
            yield _unknown(pod, name, known)
        elif age > _SILENT_SECONDS and not _waits_for_its_gang(facts, pod):
            detail = f"schedulerName {name}: neither a condition nor an event"
            yield _about(SILENT, pod, detail)


def _is_unseen(facts: ClusterFacts, pod: Pod) -> bool:
    """Tell whether a pod waits for a scheduler, and none has said anything about it for a while."""
    if pod.spec.node_name or has_ended(pod) or pod.spec.scheduling_gates:
        return False
    if was_looked_at(pod):
        return False
    age = pod_age(facts, pod)
    return age is not None and age > _PATIENCE_SECONDS


def _waits_for_its_gang(facts: ClusterFacts, pod: Pod) -> bool:
    """Tell whether *pod* is tried with others, and nothing is said of it before all are there."""
    return isinstance(gang_of(PodInfo(pod), facts.objects), Gang)


def _unknown(pod: Pod, name: str, known: frozenset[str]) -> Finding:
    near = nearest_scheduler(name, known)
    fix = f"schedulerName: {near}   # in the pod template" if near else ""
    return _about(UNKNOWN, pod, f"schedulerName {name}; {scheduler_hint(name, known)}", fix=fix)


def _about(rule: Rule, pod: Pod, detail: str, *, fix: str = "") -> Finding:
    maker = maker_of(pod)
    subject = FindingSubject(maker.kind, maker.name, maker.namespace, "spec.schedulerName")
    return Finding(rule=rule, subject=subject, detail=detail, fix=fix)


def check_leases(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the leases of NUMA schedulers."""
    names = numa_schedulers(facts)
    offset = clock_offset(facts)
    held = [
        lease
        for lease in facts.leases
        if lease.metadata.name in names and lease.spec.holder_identity
    ]
    alive = []
    for lease in held:
        age = age_seconds(facts, lease.spec.renew_time)
        if age is not None and age + offset > _limit(lease):
            detail = (
                f"{lease.spec.holder_identity} renewed it {age_words(age + offset)} ago;"
                f" it lasts {lease.spec.lease_duration_seconds or _DEFAULT_DURATION} seconds"
            )
            yield Finding(rule=LEASE_EXPIRED, subject=_lease(lease), detail=detail)
        elif age is not None:
            alive.append(lease)
    yield from _twice(alive)


def _limit(lease: Lease) -> int:
    """Return after how many seconds without a renewal a lease is given up on."""
    return 2 * (lease.spec.lease_duration_seconds or _DEFAULT_DURATION) + _PATIENCE_SECONDS


def _twice(alive: list[Lease]) -> Iterator[Finding]:
    times = Counter(lease.metadata.name for lease in alive)
    for lease in alive:
        if times[lease.metadata.name] > 1:
            detail = f"{lease.spec.holder_identity} leads; there is a leader elsewhere too"
            yield Finding(rule=TWO_LEADERS, subject=_lease(lease), detail=detail)


def _lease(lease: Lease) -> FindingSubject:
    return FindingSubject("Lease", lease.metadata.name, lease.metadata.namespace, "spec.renewTime")


def check_leaders(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for schedulers that say of themselves that they lead, with the same profile."""
    leading: dict[str, list[str]] = {}
    for scheduler in facts.schedulers.values():
        if any(_leads(document) for document in scheduler.documents.values()):
            for profile in set(profiles_in(scheduler.documents.get("configz"))):
                leading.setdefault(profile, []).append(scheduler.name)
    for profile, names in leading.items():
        if len(names) > 1:
            detail = f"both lead with the profile {profile}: {', '.join(sorted(names))}"
            yield Finding(
                rule=TWO_LEADERS, subject=FindingSubject("Scheduler", profile), detail=detail
            )


def check_default_scheduler(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for a kube-scheduler beside a scheduler of ours that serves its pods."""
    flags = (one.scheduler_name for one in deployed(facts, ProgramRole.SCHEDULER) if one.is_ours)
    if DEFAULT_SCHEDULER not in {*flags, *profiles(facts)}:
        return
    held = [lease for lease in facts.leases if _is_held_by_another(facts, lease)]
    for lease in held:
        detail = f"{lease.spec.holder_identity} holds the lease: ours waits until it stops"
        yield Finding(rule=SHARED_NAME, subject=_lease(lease), detail=detail)
    standing_by = [] if held else facts.pods
    for pod in standing_by:
        if pod.metadata.labels.get("component") == MAIN_LEASE[1] and not has_ended(pod):
            subject = FindingSubject("Pod", pod.metadata.name, pod.metadata.namespace)
            detail = "it stands by while ours leads, and takes the pods when ours stops"
            yield Finding(rule=SHARED_NAME, subject=subject, detail=detail)


def check_main_lease(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for a scheduler under kube-scheduler's lease that does not serve its pods."""
    for scheduler in facts.schedulers.values():
        document = scheduler.documents.get("configz")
        names = sorted(profiles_in(document))
        if _lease_in(document) == MAIN_LEASE and DEFAULT_SCHEDULER not in names:
            detail = f"its lease is {'/'.join(MAIN_LEASE)}; it serves {', '.join(names)}"
            subject = FindingSubject(
                "Scheduler", scheduler.name, field="leaderElection.resourceName"
            )
            yield Finding(rule=FOREIGN_LEASE, subject=subject, detail=detail)


def _lease_in(document: Any) -> tuple[str, str] | None:  # noqa: ANN401 - JSON of another program
    """Return the lease in what a scheduler says of its configuration, if it elects a leader."""
    election = configuration_of(document).get("leaderElection")
    if not isinstance(election, dict) or election.get("leaderElect") is False:
        return None
    namespace = election.get("resourceNamespace") or MAIN_LEASE[0]
    return (namespace, election.get("resourceName", ""))


def _is_held_by_another(facts: ClusterFacts, lease: Lease) -> bool:
    """Tell whether *lease* is kube-scheduler's, and a scheduler that is not ours renews it."""
    holder = lease.spec.holder_identity or ""
    is_main = (lease.metadata.namespace, lease.metadata.name) == MAIN_LEASE
    age = age_seconds(facts, lease.spec.renew_time)
    is_alive = age is not None and age + clock_offset(facts) <= _limit(lease)
    return is_main and is_alive and bool(holder) and not holder.startswith(HOLDER_PREFIX)


def _leads(document: Any) -> bool:  # noqa: ANN401 - JSON of another program
    speaker = document.get("speaker") if isinstance(document, dict) else None
    if not isinstance(speaker, dict) or speaker.get("kind") != "scheduler":
        return False
    return speaker.get("leads") is True


CHECKS: Final = (
    check_names,
    check_leases,
    check_leaders,
    check_default_scheduler,
    check_main_lease,
)
