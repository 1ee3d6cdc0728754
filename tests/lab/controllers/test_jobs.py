"""Jobs run pods to their end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.controllers.kit import Bench, bench

from numakube.api.pod import Pod
from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.kube.clock import ManualClock
from numakube_lab.controllers.cluster.garbage_collector import GarbageCollector
from numakube_lab.controllers.object_types import JOBS, Job
from numakube_lab.controllers.workloads.job_controller import (
    TRACKING,
    Jobs,
    format_indexes,
    index_of,
    parse_indexes,
)


def job(name: str, **spec: Any) -> dict[str, Any]:
    """A job."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


def ended(one: Job) -> str:
    """Return how a job ended, and why."""
    for each in one.status.conditions:
        if each.type in ("Complete", "Failed") and each.status == "True":
            return f"{each.type}: {each.reason}"
    return ""


def succeed(_: Pod) -> tuple[str, bool]:
    """Let every pod succeed."""
    return "Succeeded", False


def fail(_: Pod) -> tuple[str, bool]:
    """Let every pod fail."""
    return "Failed", False


async def test_a_job_completes_when_enough_pods_have_succeeded() -> None:
    """Not more of them run at a time than may, and each is counted once."""
    async with bench(Jobs) as lab:
        lab.kubelet.outcome = succeed
        most = 0

        def note(_: object) -> None:
            nonlocal most
            running = [pod for pod in lab.pods.store.values() if not _is_over(pod)]
            most = max(most, len(running))

        lab.pods.store.subscribe(note)
        await lab.apply(JOBS, job("work", completions=5, parallelism=2))
        done = await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        assert ended(done) == "Complete: CompletionsReached"
        assert (done.status.succeeded, done.status.active, done.status.failed) == (5, 0, 0)
        assert done.status.completion_time is not None
        assert most <= 2
        assert all(TRACKING not in pod.metadata.finalizers for pod in lab.pods.store.values())
        await lab.recorded()
        told = {
            (event.reason, event.message) for event in (await lab.client.list(CORE_EVENTS)).items
        }
        assert ("Completed", "Job completed") in told


async def test_a_work_queue_ends_with_its_first_success() -> None:
    """Without a number of completions, no pod is started after one has succeeded."""
    async with bench(Jobs) as lab:
        lab.kubelet.outcome = succeed
        document = job("work", parallelism=2)
        document["spec"]["completions"] = None
        await lab.apply(JOBS, document)
        done = await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        assert 1 <= done.status.succeeded <= 2


async def test_failures_are_tried_again_after_growing_pauses_up_to_a_limit() -> None:
    """The pauses are 10 and 20 s; the third failure is one too many."""
    clock = ManualClock()
    async with bench(Jobs, clock=clock) as lab:
        lab.kubelet.outcome = fail
        await lab.apply(JOBS, job("work", backoffLimit=2))
        for count, pause in ((1, 10), (2, 20)):
            await lab.sees(JOBS, "work", partial(_has_failed, count))
            await clock.advance(pause - 1)
            assert len(lab.pods.store) == count
            await clock.advance(1)
        done = await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        assert ended(done) == "Failed: BackoffLimitExceeded"
        assert done.status.failed == 3


async def test_a_deadline_ends_a_job() -> None:
    """Its pods are deleted."""
    clock = ManualClock()
    async with bench(Jobs, clock=clock) as lab:
        await lab.apply(JOBS, job("work", activeDeadlineSeconds=30))
        await lab.sees(JOBS, "work", lambda one: one.status.active == 1)
        await clock.advance(31)
        done = await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        assert ended(done) == "Failed: DeadlineExceeded"
        await lab.until(PODS, lambda: not len(lab.pods.store))


async def test_a_suspended_job_runs_nothing() -> None:
    """Resuming it starts its time again."""
    async with bench(Jobs) as lab:
        await lab.apply(JOBS, job("work"))
        await lab.sees(JOBS, "work", lambda one: one.status.ready == 1)
        await lab.change(JOBS, "work", {"spec": {"suspend": True}})
        paused = await lab.sees(
            JOBS, "work", lambda one: one.status.start_time is None and one.status.active == 0
        )
        assert [condition.reason for condition in paused.status.conditions] == ["JobSuspended"]
        await lab.until(PODS, lambda: not len(lab.pods.store))
        await lab.change(JOBS, "work", {"spec": {"suspend": False}})
        resumed = await lab.sees(JOBS, "work", lambda one: one.status.ready == 1)
        assert [condition.reason for condition in resumed.status.conditions] == ["JobResumed"]
        assert resumed.status.start_time is not None


async def test_an_indexed_job_runs_every_index_once() -> None:
    """Each pod knows its number."""
    async with bench(Jobs) as lab:
        lab.kubelet.outcome = succeed
        await lab.apply(JOBS, job("work", completions=4, parallelism=2, completionMode="Indexed"))
        done = await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        assert done.status.completed_indexes == "0-3"
        assert done.status.succeeded == 4
        pods = list(lab.pods.store.values())
        assert sorted(str(index_of(pod)) for pod in pods) == ["0", "1", "2", "3"]
        assert sorted(pod.spec.hostname for pod in pods) == [f"work-{index}" for index in range(4)]


async def test_a_finished_job_is_deleted_after_its_time() -> None:
    """Not earlier."""
    clock = ManualClock()
    async with bench(Jobs, clock=clock) as lab:
        lab.kubelet.outcome = succeed
        await lab.apply(JOBS, job("work", ttlSecondsAfterFinished=60))
        await lab.sees(JOBS, "work", lambda one: bool(ended(one)))
        await clock.advance(59)
        assert lab.get(JOBS, "work").metadata.deletion_timestamp is None
        await clock.advance(1)
        await lab.sees(JOBS, "work", lambda one: one.metadata.deletion_timestamp is not None)


@pytest.mark.parametrize("propagation", ["Background", "Orphan"])
async def test_pods_of_a_deleted_job_are_let_go(propagation: str) -> None:
    """Their finalizer does not keep them forever."""
    async with bench(Jobs, GarbageCollector) as lab:
        await lab.apply(JOBS, job("work"))
        await lab.sees(JOBS, "work", lambda one: one.status.ready == 1)
        await lab.client.delete(JOBS, "work", namespace="default", propagation=propagation)
        await lab.until(PODS, lambda: _released(lab))


async def test_a_job_does_not_keep_pods_of_one_before_it_with_its_name() -> None:
    """They carry the name of the new one, but not its uid."""
    async with bench(Jobs, GarbageCollector) as lab:
        await lab.apply(JOBS, job("work"))
        await lab.sees(JOBS, "work", lambda one: one.status.ready == 1)
        (old,) = lab.pods.store.values()
        await lab.client.delete(JOBS, "work", namespace="default", propagation="Orphan")
        await lab.until(JOBS, lambda: not list(lab.mirror(JOBS).store))
        await lab.apply(JOBS, job("work"))
        await lab.sees(JOBS, "work", lambda one: one.status.ready == 1)
        await lab.sees(PODS, old.metadata.name, lambda one: not one.metadata.finalizers)


def _released(lab: Bench) -> bool:
    return all(TRACKING not in pod.metadata.finalizers for pod in lab.pods.store.values())


def _has_failed(count: int, one: Job) -> bool:
    return one.status.failed == count


def _is_over(one: Pod) -> bool:
    return one.status is not None and one.status.phase in ("Succeeded", "Failed")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2, 5], "0-2,5"), ([1, 3, 4, 5], "1,3-5")],
)
def test_indexes_are_written_as_ranges(numbers: list[int], text: str) -> None:
    """Two in a row are no range, as the real controller writes them."""
    assert format_indexes(numbers) == text


@given(st.frozensets(st.integers(0, 200)))
def test_indexes_survive_writing_and_reading(numbers: frozenset[int]) -> None:
    """What is written is read back."""
    assert parse_indexes(format_indexes(numbers)) == numbers
