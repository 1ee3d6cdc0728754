"""Which pods of a job have ended how, each counted exactly once.

A job's pods carry a finalizer, so that none can vanish before it is counted. A pod that ended is
first named in the job's status (``uncountedTerminatedPods``), then loses its finalizer, and only
then becomes part of the totals: whatever is interrupted in between, nothing is lost or counted
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import key_of
from numakube_lab.controllers.common.controller_actions import Change
from numakube_lab.controllers.common.pod_states import is_active, is_terminating, phase_of
from numakube_lab.controllers.types.workload_types import UncountedPods

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.pod import Pod
    from numakube_lab.controllers.types.workload_types import Job

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
    releases: tuple[Change, ...]
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


def released(pod: Pod) -> Change:
    """Return the removal of the finalizer of *pod*."""
    others = [each for each in pod.metadata.finalizers if each != TRACKING]
    metadata = {
        "uid": pod.metadata.uid,
        "resourceVersion": pod.metadata.resource_version,
        "finalizers": others or None,
    }
    return Change(resource=PODS, key=key_of(pod), patch={"metadata": metadata})
