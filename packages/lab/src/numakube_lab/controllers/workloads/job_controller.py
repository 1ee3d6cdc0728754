"""Jobs: pods that run until enough of them have succeeded, or too many have failed.

Follows kube-controller-manager 1.35, with indexed jobs, suspension, deadlines, growing pauses after
failures and removal some time after the end. Not there: failure and success policies, backoff
limits per index, and ``podReplacementPolicy``.

Which pods of a job have ended how, each counted exactly once. A job's pods carry a finalizer, so
that none can vanish before it is counted. A pod that ended is first named in the job's status
(``uncountedTerminatedPods``), then loses its finalizer, and only then becomes part of the totals:
whatever is interrupted in between, nothing is lost or counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.pod import has_ended
from numakube.kube import ObjectKey, key_of, reference_to
from numakube.kube.catalog import PODS
from numakube.values.times import format_time
from numakube_lab.controllers.common.controller_loop import (
    Action,
    Create,
    Delete,
    LabController,
    Note,
    ObjectPlan,
    PlannedChange,
    soonest,
    status_change,
)
from numakube_lab.controllers.common.pod_states import (
    is_active,
    is_ready,
    is_terminating,
    owner_document,
    owner_key,
    phase_of,
    time_of,
)
from numakube_lab.controllers.object_types import (
    JOBS,
    Job,
    JobCondition,
    JobStatus,
    UncountedPods,
)
from numakube_lab.controllers.workloads.replica_set_controller import choose_victims
from numakube_lab.controllers.workloads.template_revisions import pod_from_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.pod import Pod
    from numakube.kube import Document, EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


TRACKING: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The pods of a job, counted.

    Attributes:
        succeeded: how many have succeeded, those that are not yet in the totals included.
        failed: likewise how many have failed.
        total_succeeded: the total that the status may show now.
        total_failed: likewise of those that failed.
        uncounted: the pods to be named in the status.
        releases: the removal of finalizers of pods that the status names.
        active: the pods that run or will.
        terminating: how many are being deleted and have not ended.
        indexes: the completion indexes that are done.
    """

    succeeded: int
    failed: int
    total_succeeded: int
    total_failed: int
    uncounted: UncountedPods
    releases: tuple[PlannedChange, ...]
    active: tuple[Pod, ...]
    terminating: int
    indexes: frozenset[int]

    @property
    def is_settled(self) -> bool:
        """Whether nothing runs and all that ended is in the totals."""
        return not self.active and not self.terminating and self.uncounted == UncountedPods()


def count(job: Job, pods: Sequence[Pod]) -> Counts:
    """Count the pods of *job*."""
    named = job.status.uncounted_terminated_pods or UncountedPods()
    tracked = {pod.metadata.uid: pod for pod in pods if TRACKING in pod.metadata.finalizers}
    good = [uid for uid, pod in tracked.items() if has_succeeded(pod)]
    bad = [uid for uid, pod in tracked.items() if has_failed(pod)]
    indexes = _done_indexes(job, pods)
    new_good = [uid for uid in good if uid not in named.succeeded]
    new_bad = [uid for uid in bad if uid not in named.failed]
    # Those that are named and have lost their finalizer go into the totals.
    total_good = job.status.succeeded + sum(uid not in tracked for uid in named.succeeded)
    total_bad = job.status.failed + sum(uid not in tracked for uid in named.failed)
    kept_good = [uid for uid in named.succeeded if uid in tracked]
    kept_bad = [uid for uid in named.failed if uid in tracked]
    succeeded = total_good + len(kept_good) + len(new_good)
    if is_indexed(job):
        succeeded, total_good = len(indexes), min(len(indexes), total_good)
    return Counts(
        succeeded=succeeded,
        failed=total_bad + len(kept_bad) + len(new_bad),
        total_succeeded=total_good,
        total_failed=total_bad,
        uncounted=UncountedPods(succeeded=(*kept_good, *new_good), failed=(*kept_bad, *new_bad)),
        releases=tuple(released(tracked[uid]) for uid in (*kept_good, *kept_bad)),
        active=tuple(pod for pod in pods if is_active(pod)),
        terminating=sum(is_terminating(pod) and not has_ended(pod) for pod in pods),
        indexes=indexes,
    )


def is_indexed(job: Job) -> bool:
    """Tell whether each completion of *job* has a number."""
    return job.spec.completion_mode == "Indexed"


def has_succeeded(pod: Pod) -> bool:
    """Tell whether *pod* did its work."""
    return phase_of(pod) == "Succeeded"


def has_failed(pod: Pod) -> bool:
    """Tell whether *pod* counts as failed: also if it is deleted before its end."""
    return phase_of(pod) == "Failed" or (is_terminating(pod) and not has_succeeded(pod))


def index_of(pod: Pod) -> int | None:
    """Return the completion index of *pod*."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def parse_indexes(text: str) -> frozenset[int]:
    """Return the numbers that ``1,3-5`` stands for."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def format_indexes(numbers: Iterable[int]) -> str:
    """Return numbers in the form ``1,3-5``; two in a row are written apart by a comma."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(_run(run) for run in runs)


def _run(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}"


def _done_indexes(job: Job, pods: Iterable[Pod]) -> frozenset[int]:
    if not is_indexed(job):
        return frozenset()
    limit = job.spec.completions or 0
    fresh = {index_of(pod) for pod in pods if has_succeeded(pod)}
    known = parse_indexes(job.status.completed_indexes)
    return frozenset(each for each in (*known, *fresh) if each is not None and each < limit)


def released(pod: Pod) -> PlannedChange:
    """Return the removal of the finalizer of *pod*."""
    others = [each for each in pod.metadata.finalizers if each != TRACKING]
    metadata = {
        "uid": pod.metadata.uid,
        "resourceVersion": pod.metadata.resource_version,
        "finalizers": others or None,
    }
    return PlannedChange(resource=PODS, key=key_of(pod), patch={"metadata": metadata})


BURST: Final = 500
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0
"""Seconds between the failure of a pod and the next one: doubling from one to the other."""

_JOB_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")

_INTERIM: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
"""What a job says as soon as its outcome is clear, and what it says when all its pods are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A job and its pods."""

    job: Job
    pods: Sequence[Pod]
    now: datetime


def reconcile(seen: ObservedJob) -> ObjectPlan:
    """Decide what to do about a job."""
    job, now = seen.job, seen.now
    if finished_at(job) is not None:
        return _after_the_end(seen)
    counts = count(job, seen.pods)
    verdict: JobCondition | None = None
    scaling: tuple[Action, ...] = ()
    wait: float | None = None
    # One that is being deleted only goes on counting, so that its pods can go too.
    if job.metadata.deletion_timestamp is None:
        verdict = _find(job, *_INTERIM) or _verdict(job, counts, seen)
        scaling, wait = _scaling(seen, counts, verdict)
    status, notes = _status(seen, counts, verdict)
    version = job.metadata.resource_version
    reported = status_change(JOBS, key_of(job), version, job.status, status)
    wait = soonest((wait, _until_deadline(job, now)))
    return ObjectPlan((*counts.releases, *scaling, *reported, *(notes if reported else ())), wait)


def finished_at(job: Job) -> datetime | None:
    """Return when *job* ended; None if it has not."""
    end = _find(job, "Complete", "Failed")
    return time_of(end.last_transition_time) if end else None


def _after_the_end(seen: ObservedJob) -> ObjectPlan:
    """Let go of what is left, and delete the job itself when its time has come."""
    job = seen.job
    releases = count(job, seen.pods).releases
    ended, keep = finished_at(job), job.spec.ttl_seconds_after_finished
    if ended is None or keep is None:
        return ObjectPlan(releases)
    left = (ended + timedelta(seconds=keep) - seen.now).total_seconds()
    if left > 0:
        return ObjectPlan(releases, left)
    deletion = Delete(
        resource=JOBS, key=key_of(job), uid=job.metadata.uid, propagation="Foreground"
    )
    return ObjectPlan((*releases, deletion))


def _verdict(job: Job, counts: Counts, seen: ObservedJob) -> JobCondition | None:
    """Return the outcome of *job*, if it is clear."""
    now = seen.now
    if counts.failed > job.spec.backoff_limit or _restarts_exceed(job, counts):
        message = "Job has reached the specified backoff limit"
        return _condition("FailureTarget", "BackoffLimitExceeded", message, now)
    if _until_deadline(job, now) == 0.0:
        message = "Job was active longer than specified deadline"
        return _condition("FailureTarget", "DeadlineExceeded", message, now)
    wanted = job.spec.completions
    if wanted is None:
        done = counts.succeeded > 0 and not counts.active
    else:
        done = counts.succeeded >= wanted
    if not done or job.spec.suspend:
        return None
    message = "Reached expected number of succeeded pods"
    return _condition("SuccessCriteriaMet", "CompletionsReached", message, now)


def _restarts_exceed(job: Job, counts: Counts) -> bool:
    """Tell whether pods that restart in place have done so too often."""
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        each.restart_count
        for pod in counts.active
        if pod.status
        for each in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    limit = job.spec.backoff_limit
    return restarts > 0 if limit == 0 else restarts >= limit


def _until_deadline(job: Job, now: datetime) -> float | None:
    """Return how long *job* may still be active: 0 if it was for too long, None without limit."""
    started, limit = time_of(job.status.start_time), job.spec.active_deadline_seconds
    if started is None or limit is None or job.spec.suspend:
        return None
    return max(0.0, (started + timedelta(seconds=limit) - now).total_seconds())


def _scaling(
    seen: ObservedJob, counts: Counts, verdict: JobCondition | None
) -> tuple[tuple[Action, ...], float | None]:
    """Return what brings the number of running pods nearer to the wanted one, and when more may."""
    job, active = seen.job, counts.active
    wanted = _wanted(job, counts, verdict)
    if len(active) > wanted:
        victims = choose_victims(active, len(active) - wanted, related=active, now=seen.now)
        told = reference_to(JOBS, job)
        return tuple(
            Delete(resource=PODS, key=key_of(pod), uid=pod.metadata.uid, told=told)
            for pod in victims
        ), None
    pause = _pause(seen) if len(active) < wanted else None
    if len(active) == wanted or pause:
        return (), pause
    return _creations(job, counts, min(wanted - len(active), BURST)), None


def _wanted(job: Job, counts: Counts, verdict: JobCondition | None) -> int:
    if verdict is not None or job.spec.suspend:
        return 0
    if job.spec.completions is None:
        return len(counts.active) if counts.succeeded else job.spec.parallelism
    return min(job.spec.parallelism, job.spec.completions - counts.succeeded)


def _pause(seen: ObservedJob) -> float | None:
    """Return how long to wait after the last failures before another pod is tried."""
    last_success = max((_ended(pod, seen.now) for pod in seen.pods if has_succeeded(pod)),
                       default=None)  # fmt: skip
    failures = [_ended(pod, seen.now) for pod in seen.pods if has_failed(pod)]
    recent = [each for each in failures if last_success is None or each > last_success]
    if not recent:
        return None
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (len(recent) - 1))
    left = (max(recent) + timedelta(seconds=pause) - seen.now).total_seconds()
    return left if left > 0 else None


def _ended(pod: Pod, now: datetime) -> datetime:
    """Return when *pod* ended, as far as it says."""
    statuses = pod.status.container_statuses if pod.status else ()
    ends = [
        time_of(each.state.terminated.finished_at)
        for each in statuses
        if each.state is not None and each.state.terminated is not None
    ]
    known = [each for each in ends if each is not None]
    if known:
        return max(known)
    return time_of(pod.metadata.deletion_timestamp) or _last_transition(pod) or now


def _last_transition(pod: Pod) -> datetime | None:
    conditions = pod.status.conditions if pod.status else ()
    times = [time_of(each.last_transition_time) for each in conditions]
    return max((each for each in times if each is not None), default=None)


def _creations(job: Job, counts: Counts, number: int) -> tuple[Create, ...]:
    told = reference_to(JOBS, job)
    if not is_indexed(job):
        document = _pod(job, f"{job.metadata.name}-", None)
        return (Create(resource=PODS, document=document, told=told),) * number
    taken = {index_of(pod) for pod in counts.active} | counts.indexes
    free = [index for index in range(job.spec.completions or 0) if index not in taken]
    return tuple(
        Create(resource=PODS, document=_pod(job, f"{job.metadata.name}-{index}-", index), told=told)
        for index in free[:number]
    )


def _pod(job: Job, prefix: str, index: int | None) -> Document:
    numbered = {} if index is None else {COMPLETION_INDEX: str(index)}
    pod = pod_from_template(
        job.spec.template,
        namespace=job.metadata.namespace,
        owner=owner_document(JOBS, job),
        generate_name=prefix,
        labels=numbered,
        annotations=numbered,
        finalizers=(TRACKING,),
    )
    return pod if index is None else {**pod, "spec": _indexed_spec(pod["spec"], job, index)}


def _indexed_spec(spec: Document, job: Job, index: int) -> Document:
    """Return the spec of a pod that learns its index from its environment and host name."""
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    changed = {
        kind: [{**each, "env": [*(each.get("env") or ()), variable]} for each in spec[kind]]
        for kind in ("containers", "initContainers")
        if spec.get(kind)
    }
    return {**spec, **changed, "hostname": f"{job.metadata.name}-{index}"}


def _status(
    seen: ObservedJob, counts: Counts, verdict: JobCondition | None
) -> tuple[JobStatus, tuple[Note, ...]]:
    job, now = seen.job, seen.now
    status = msgspec.structs.replace(
        job.status,
        active=len(counts.active),
        ready=sum(map(is_ready, counts.active)),
        terminating=counts.terminating,
        succeeded=counts.total_succeeded,
        failed=counts.total_failed,
        uncounted_terminated_pods=counts.uncounted,
        completed_indexes=format_indexes(counts.indexes),
    )
    status, notes = _suspension(job, status, now)
    if verdict is None:
        return status, notes
    if _find(job, verdict.type) is None:
        status = _with(status, verdict)
    if counts.is_settled:
        return _ended_status(job, status, verdict, now)
    return status, notes


def _ended_status(
    job: Job, status: JobStatus, verdict: JobCondition, now: datetime
) -> tuple[JobStatus, tuple[Note, ...]]:
    kind = _INTERIM[verdict.type]
    end = _condition(kind, verdict.reason, verdict.message, now)
    about = reference_to(JOBS, job)
    status = _with(status, end)
    if kind == "Complete":
        status = msgspec.structs.replace(status, completion_time=format_time(now))
        return status, (Note(about=about, reason="Completed", message="Job completed"),)
    note = Note(about=about, reason=verdict.reason, message=verdict.message, warning=True)
    return status, (note,)


def _suspension(job: Job, status: JobStatus, now: datetime) -> tuple[JobStatus, tuple[Note, ...]]:
    """Return the status with its start, and the news of a suspension that began or ended."""
    suspended = _find(job, "Suspended")
    was = suspended is not None and suspended.status == "True"
    notes: tuple[Note, ...] = ()
    if job.spec.suspend != was:
        word = "suspended" if job.spec.suspend else "resumed"
        condition = _condition(
            "Suspended", f"Job{word.capitalize()}", f"Job {word}", now, holds=job.spec.suspend
        )
        status = _with(status, condition)
        about = reference_to(JOBS, job)
        notes = (Note(about=about, reason=word.capitalize(), message=f"Job {word}"),)
        if job.spec.suspend:
            status = msgspec.structs.replace(status, start_time=None)
    if status.start_time is None and not job.spec.suspend:
        status = msgspec.structs.replace(status, start_time=format_time(now))
    return status, notes


def _find(job: Job, *kinds: str) -> JobCondition | None:
    """Return a condition of one of *kinds* that holds, or any of the type ``Suspended``."""
    for each in job.status.conditions:
        if each.type in kinds and (each.status == "True" or each.type == "Suspended"):
            return each
    return None


def _with(status: JobStatus, condition: JobCondition) -> JobStatus:
    others = tuple(each for each in status.conditions if each.type != condition.type)
    return msgspec.structs.replace(status, conditions=(*others, condition))


def _condition(
    kind: str, reason: str, message: str, now: datetime, *, holds: bool = True
) -> JobCondition:
    moment = format_time(now)
    return JobCondition(
        type=kind,
        status="True" if holds else "False",
        reason=reason,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment,
    )


class Jobs(LabController):
    """Looks after all jobs."""

    name: ClassVar[str] = "job-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._jobs = cluster.mirror(JOBS)
        self._pods = cluster.mirror(PODS)

    def watch(self) -> None:
        """Look again when a job or a pod of it changes."""
        self.follow(self._jobs)
        self.follow(self._pods, _jobs_of)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one job."""
        job = self._jobs.get(key)
        strays = self._strays(key, job)
        if job is None:
            return ObjectPlan(strays)
        pods = self._pods.managed_by(job.metadata.uid)
        plan = reconcile(ObservedJob(job=job, pods=pods, now=self.clock.now()))
        return replace(plan, actions=(*strays, *plan.actions))

    def _strays(self, key: ObjectKey, job: Job | None) -> tuple[Action, ...]:
        """Release pods of a job that is gone or has let go of them; they are no longer counted."""
        uid = job.metadata.uid if job is not None else ""
        left = (
            pod
            for pod in self._pods.in_namespace(key.namespace)
            if TRACKING in pod.metadata.finalizers and key in _jobs_of(pod)
        )
        return tuple(
            released(pod)
            for pod in left
            if not uid or pod.metadata.controller is None or pod.metadata.controller.uid != uid
        )


def _jobs_of(pod: Pod) -> tuple[ObjectKey, ...]:
    """Return the key of the job of *pod*; of one that was let go, that of its former job."""
    keys = owner_key(pod, "Job")
    if keys or TRACKING not in pod.metadata.finalizers:
        return keys
    names = {pod.metadata.labels.get(label, "") for label in _JOB_NAME_LABELS}
    return tuple(ObjectKey(pod.metadata.namespace, name) for name in sorted(names) if name)
