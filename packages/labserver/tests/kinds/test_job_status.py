"""The status of a job stays consistent."""

from __future__ import annotations

from typing import Any

import pytest
from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json

JOB = GVK("batch", "v1", "Job")
START, END = "2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z"


def job(status: Json, **spec: Any) -> Json:
    """Return a job."""
    meta = {"name": "j", "namespace": "n", "resourceVersion": "1"}
    return {"metadata": meta, "spec": spec, "status": status}


def conditions(*kinds: str) -> list[Json]:
    """Return conditions that are true."""
    return [{"type": kind, "status": "True"} for kind in kinds]


def fields(new: Json, old: Json) -> list[str]:
    """Return the fields that are wrong in a new status."""
    return [error.field for error in rules(JOB).validate_update(new, old, subresource="status")]


def test_a_job_that_completes_tells_when() -> None:
    """A job that completes tells when."""
    done = {
        "startTime": START,
        "completionTime": END,
        "conditions": conditions("SuccessCriteriaMet", "Complete"),
    }
    assert fields(job(done), job({})) == []


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (
            {"conditions": conditions("Complete")},
            ["status.completionTime", "status.conditions", "status.startTime"],
        ),
        ({"completionTime": END}, ["status.completionTime"]),
        ({"active": -1}, ["status.active"]),
        ({"ready": 2, "active": 1}, ["status.ready"]),
        ({"startTime": START, "conditions": conditions("Failed")}, ["status.conditions"]),
        (
            {"uncountedTerminatedPods": {"failed": ["a", "a"]}},
            ["status.uncountedTerminatedPods.failed[1]"],
        ),
        ({"completedIndexes": "0"}, ["status.completedIndexes"]),
        ({"failedIndexes": "0"}, ["status.failedIndexes"]),
    ],
)
def test_a_status_that_contradicts_itself_is_refused(status: Json, wrong: list[str]) -> None:
    """A status that contradicts itself is refused."""
    assert fields(job(status), job({})) == wrong


def test_what_was_wrong_before_may_stay() -> None:
    """What was wrong before may stay."""
    status = {"completedIndexes": "0", "ready": 2}
    assert fields(job(status | {"failed": 1}), job(status)) == []


def test_an_index_cannot_both_complete_and_fail() -> None:
    """An index cannot both complete and fail."""
    spec = {"completionMode": "Indexed", "completions": 9, "backoffLimitPerIndex": 1}
    status = {"completedIndexes": "0-3,6", "failedIndexes": "2,6"}
    (error,) = rules(JOB).validate_update(
        job(status, **spec), job({}, **spec), subresource="status"
    )
    assert error.detail == "failedIndexes and completedIndexes overlap at index: 2"


def test_an_end_is_final() -> None:
    """An end is final."""
    over = {"startTime": START, "conditions": conditions("FailureTarget", "Failed")}
    assert fields(job({"startTime": START}), job(over)) == ["status.conditions"] * 2


def test_counters_do_not_decrease() -> None:
    """Counters do not decrease."""
    assert fields(job({}), job({"failed": 1, "succeeded": 1})) == [
        "status.failed",
        "status.succeeded",
    ]
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    assert fields(job({}, **spec), job({"succeeded": 1}, **spec)) == []


def test_a_running_job_keeps_its_start() -> None:
    """A running job keeps its start."""
    assert fields(job({}), job({"startTime": START})) == ["status.startTime"]
    assert fields(job({}, suspend=True), job({"startTime": START}, suspend=True)) == []
