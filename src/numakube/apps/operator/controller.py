"""Watches what matters, and passes over an object of the user whenever something has changed.

Every change leads to the same question, so a pass needs no memory of what happened: it looks at the
stores, plans, acts, and says how things stand. Errors are said too, and tried again with growing
pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
import structlog

from numakube.api.numaresources import NUMAResourcesOperator, NUMAResourcesScheduler
from numakube.apps.operator.plan_executor import FIELD_MANAGER, Failed
from numakube.apps.operator.status_conditions import INTERNAL_ERROR, conditions_of, degraded
from numakube.errors import NotFound, NumakubeError
from numakube.kube.client import merge_patch
from numakube.kube.event_recorder import reference_to
from numakube.values.times import format_time

if TYPE_CHECKING:
    from numakube.apps.operator.metrics import OperatorMetrics
    from numakube.apps.operator.plan_executor import Executor
    from numakube.apps.operator.planned_actions import Plan
    from numakube.apps.operator.status_conditions import Verdict
    from numakube.apps.operator.watched_state import View
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import Document

T = TypeVar("T", NUMAResourcesOperator, NUMAResourcesScheduler)

RESYNC_SECONDS: Final = 600.0
"""How often everything is looked at and written again even if nothing has changed."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class PassFailed(NumakubeError):
    """A pass could not be completed; it is tried again."""


class Controller(Generic[T]):
    """Looks after the objects of one of the two kinds."""

    def __init__(
        self,
        view: View[T],
        client: Client,
        executor: Executor,
        recorder: EventRecorder,
        metrics: OperatorMetrics,
    ) -> None:
        self._view: View[T] = view
        self._client = client
        self._executor = executor
        self._recorder = recorder
        self._metrics = metrics
        self._kind = view.resource.kind

    async def reconcile(self, name: str) -> float | None:
        """Make one pass over the object called *name*; return when to make the next.

        Raises:
            PassFailed: something could not be done.
        """
        wanted = self._view.object(name)
        if wanted is None or wanted.metadata.deletion_timestamp is not None:
            return None
        started = self._client.clock.monotonic()
        try:
            failure = await self._pass(wanted)
        finally:
            elapsed = self._client.clock.monotonic() - started
            self._metrics.seconds.labels(self._kind).observe(elapsed)
        self._metrics.passes.labels(self._kind, "error" if failure else "success").inc()
        if failure:
            raise PassFailed(failure)
        return RESYNC_SECONDS

    async def _pass(self, wanted: T) -> str:
        """Return what went wrong; empty if nothing did."""
        plan = self._view.plan(wanted, ())
        if plan is None:
            return ""
        outcome = await self._executor.perform(plan.actions)
        if isinstance(outcome, Failed):
            await self._say(wanted, degraded(INTERNAL_ERROR, outcome.message), {})
            return outcome.message
        for document in outcome.written:
            self._metrics.writes.labels(document["kind"]).inc()
            _log.info("object_written", kind=document["kind"], name=document["metadata"]["name"])
        # What was just written may not be in the stores yet, and is not ready before it is seen.
        after: Plan | None = self._view.plan(wanted, outcome.written)
        if after is not None:
            await self._say(wanted, after.verdict, after.status)
        return ""

    async def _say(self, wanted: T, verdict: Verdict, fields: dict[str, Any]) -> None:
        """Write the status, if it differs from what the object has."""
        before: Document = msgspec.to_builtins(wanted.status)
        now = format_time(self._client.clock.now())
        conditions = conditions_of(
            verdict, wanted.status.conditions, generation=wanted.metadata.generation, now=now
        )
        after = {**before, **fields, "conditions": msgspec.to_builtins(conditions)}
        for condition in conditions:
            self._metrics.conditions.labels(self._kind, condition.type).set(
                condition.status == "True"
            )
        if after == before:
            return
        try:
            await self._client.patch(
                self._view.resource,
                wanted.metadata.name,
                merge_patch({"status": after}),
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except NotFound:
            return  # It was deleted meanwhile.
        self._announce(wanted, verdict)

    def _announce(self, wanted: T, verdict: Verdict) -> None:
        before = {one.type: one for one in wanted.status.conditions}
        old = before.get(verdict.state)
        if old is not None and old.status == "True" and old.message == verdict.message:
            return
        about = reference_to(self._view.resource, wanted)
        text = verdict.message or f"{self._kind} is {verdict.state.lower()}"
        if verdict.reason:
            self._recorder.warning(about, verdict.reason, text)
        else:
            self._recorder.normal(about, verdict.state, text)
        _log.info(
            "state", kind=self._kind, state=str(verdict.state), message=verdict.message or None
        )
