"""Jobs of batch/v1."""

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.wire import Timestamp, Wire, always
from numakube.kube.resource_types import Document, Resource


class JobSpec(Wire, frozen=True):
    """What a job wants."""

    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    selector: LabelSelector = LabelSelector()
    template: Document = {}
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False


class JobCondition(Wire, frozen=True):
    """One aspect of a job's state: ``Complete``, ``Failed`` or ``Suspended``."""

    type: str
    status: str
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None
    reason: str = ""
    message: str = ""


class UncountedPods(Wire, frozen=True):
    """Pods that ended and are not yet part of the counts."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True):
    """What a job has done."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods | None = None


class Job(Wire, frozen=True):
    """Pods that run to an end."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    api_version: str = always("batch/v1")
    kind: str = always("Job")


JOBS = Resource(
    group="batch", version="v1", plural="jobs", kind="Job", namespaced=True, object_type=Job
)
