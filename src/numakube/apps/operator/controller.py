"""Watches what matters, and reconciles a user's object whenever one of its inputs has changed.

Every change leads to the same question, so a pass needs no memory of what happened: it looks at the
stores, plans, acts, and says how things stand. Errors are said too, and tried again with growing
pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from numakube.api import nrt, nrt_update
from numakube.api.meta import Named
from numakube.api.numaresources import (
    GROUP,
    MachineConfigPool,
    NUMAResourcesOperator,
    NUMAResourcesScheduler,
)
from numakube.api.workloads import ConfigMap, DaemonSet, Deployment
from numakube.apps.operator.exporters_plan import KubeletConfigObject, Seen, plan_exporters
from numakube.apps.operator.plan_executor import FIELD_MANAGER, ActionFailed
from numakube.apps.operator.planned_actions import INTERNAL_ERROR, Made, conditions_of, degraded
from numakube.apps.operator.scheduler_plan import SchedulerSeen, plan_scheduler
from numakube.apps.ownership_labels import MANAGED_BY
from numakube.errors import NotFound, NumakubeError
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from numakube.kube.client import merge_patch
from numakube.kube.event_recorder import reference_to
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import ObjectKey, Resource
from numakube.kube.store import Updated
from numakube.manifests.secondary_scheduler import NAME as SCHEDULER_DEPLOYMENT
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.meta import ObjectMeta
    from numakube.api.nodes import Node
    from numakube.apps.operator.exporters_plan import Setup
    from numakube.apps.operator.metrics import OperatorMetrics
    from numakube.apps.operator.plan_executor import Executor
    from numakube.apps.operator.planned_actions import OperatorPlan, PassVerdict
    from numakube.apps.operator.scheduler_plan import SchedulerSetup
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import Document
    from numakube.kube.store import Change


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
        if isinstance(outcome, ActionFailed):
            await self._say(wanted, degraded(INTERNAL_ERROR, outcome.message), {})
            return outcome.message
        for document in outcome.written:
            self._metrics.writes.labels(document["kind"]).inc()
            _log.info("object_written", kind=document["kind"], name=document["metadata"]["name"])
        # What was just written may not be in the stores yet, and is not ready before it is seen.
        after: OperatorPlan | None = self._view.plan(wanted, outcome.written)
        if after is not None:
            await self._say(wanted, after.verdict, after.status)
        return ""

    async def _say(self, wanted: T, verdict: PassVerdict, fields: dict[str, Any]) -> None:
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

    def _announce(self, wanted: T, verdict: PassVerdict) -> None:
        before = {condition.type: condition for condition in wanted.status.conditions}
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


# What the operator watches, and the present state as its plans want it.


Object = TypeVar("Object", bound=msgspec.Struct)
W = TypeVar("W", NUMAResourcesOperator, NUMAResourcesScheduler)

DEFINITIONS: Final = tuple(f"{one.PLURAL}.{one.GROUP}" for one in (nrt, nrt_update))
"""What the operator installs for the exporters."""
MACHINE_CONFIG_GROUP: Final = "machineconfiguration.openshift.io"


def _cluster_wide(group: str, plural: str, kind: str, type_: type[Object]) -> Resource[Object]:
    return Resource(
        group=group, version="v1", plural=plural, kind=kind, namespaced=False, object_type=type_
    )


OPERATORS: Final = _cluster_wide(
    GROUP, "numaresourcesoperators", "NUMAResourcesOperator", NUMAResourcesOperator
)
SCHEDULERS: Final = _cluster_wide(
    GROUP, "numaresourcesschedulers", "NUMAResourcesScheduler", NUMAResourcesScheduler
)
MACHINE_CONFIG_POOLS: Final = _cluster_wide(
    MACHINE_CONFIG_GROUP, "machineconfigpools", "MachineConfigPool", MachineConfigPool
)
KUBELET_CONFIGS: Final = _cluster_wide(
    MACHINE_CONFIG_GROUP, "kubeletconfigs", "KubeletConfig", KubeletConfigObject
)
DAEMON_SET_KIND: Final = DAEMON_SETS.decoded_as(DaemonSet)
DEPLOYMENT_KIND: Final = DEPLOYMENTS.decoded_as(Deployment)
CONFIG_MAP_KIND: Final = CONFIG_MAPS.decoded_as(ConfigMap)
_NAMESPACED: Final = (
    *(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS),
    *(NETWORK_POLICIES, SERVICES, POD_DISRUPTION_BUDGETS),
)
_CLUSTER_WIDE: Final = (
    *(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS),
    *(VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS),
)


class Watched:
    """Mirrors of everything that plans look at, and of what they made.

    Args:
        openshift: whether the cluster has pools of machines.
    """

    def __init__(self, client: Client, namespace: str, *, openshift: bool) -> None:
        ours = f"{MANAGED_BY}={FIELD_MANAGER}"
        self.operators: Reflector[NUMAResourcesOperator] = Reflector(client, OPERATORS)
        self.schedulers: Reflector[NUMAResourcesScheduler] = Reflector(client, SCHEDULERS)
        self.nodes: Reflector[Node] = Reflector(client, NODES)
        self.daemon_sets = Reflector(client, DAEMON_SET_KIND, namespace=namespace)
        self.deployments = Reflector(client, DEPLOYMENT_KIND, namespace=namespace)
        self.config_maps = Reflector(client, CONFIG_MAP_KIND, namespace=namespace)
        self.pools = Reflector(client, MACHINE_CONFIG_POOLS) if openshift else None
        self.kubelet_configs = Reflector(client, KUBELET_CONFIGS) if openshift else None
        self._made: dict[str, Reflector[Named]] = {
            resource.kind: Reflector(
                client, resource.decoded_as(Named), namespace=namespace, labels=ours
            )
            for resource in _NAMESPACED
        }
        for resource in _CLUSTER_WIDE:
            self._made[resource.kind] = Reflector(client, resource.decoded_as(Named), labels=ours)
        # A server has many definitions, and can select one by its name, but not two.
        self._definitions: dict[str, Reflector[Named]] = {
            name: Reflector(
                client,
                CUSTOM_RESOURCE_DEFINITIONS.decoded_as(Named),
                fields=f"metadata.name={name}",
            )
            for name in DEFINITIONS
        }

    def reflectors(self) -> list[Reflector[Any]]:
        """Return all of them."""
        optional = [one for one in (self.pools, self.kubelet_configs) if one is not None]
        return [
            *(self.operators, self.schedulers, self.nodes),
            *(self.daemon_sets, self.deployments, self.config_maps),
            *optional,
            *self._made.values(),
            *self._definitions.values(),
        ]

    def missing(self) -> str:
        """Return what has not been read yet; empty if everything has."""
        return ", ".join(
            str(reflector) for reflector in self.reflectors() if not reflector.synced.is_set()
        )

    def made(self) -> tuple[Made, ...]:
        """Return everything that was made for objects of users."""
        kinds: dict[Resource[Any], Reflector[Any]] = {
            DAEMON_SETS: self.daemon_sets,
            DEPLOYMENTS: self.deployments,
            CONFIG_MAPS: self.config_maps,
            **{resource: self._made[resource.kind] for resource in (*_NAMESPACED, *_CLUSTER_WIDE)},
        }
        return tuple(
            Made(api_version=kind.api_version, kind=kind.kind, metadata=one.metadata)
            for kind, reflector in kinds.items()
            for one in reflector.store.values()
        )

    def live(self, kind: str, key: ObjectKey) -> ObjectMeta | None:
        """Return the metadata of an object that is watched."""
        typed: Mapping[str, Reflector[Any]] = {
            "DaemonSet": self.daemon_sets,
            "Deployment": self.deployments,
            "ConfigMap": self.config_maps,
        }
        if kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
            reflector = self._definitions.get(key.name)
        else:
            reflector = typed.get(kind) or self._made.get(kind)
        found = None if reflector is None else reflector.store.get(key)
        return None if found is None else found.metadata

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have *tell* called whenever a pass might come to another result."""

        def of_node(change: Change[Node]) -> None:
            if not isinstance(change, Updated) or (
                change.old.metadata.labels != change.object.metadata.labels
            ):
                tell()

        self.nodes.store.subscribe(of_node)
        for reflector in self.reflectors():
            if reflector is not self.nodes:
                reflector.store.subscribe(lambda _: tell())


class View(Protocol[W]):
    """One of the two kinds, and its plans."""

    @property
    def resource(self) -> Resource[W]:
        """The kind."""
        ...

    def object(self, name: str) -> W | None:
        """Return the user's object called *name*."""
        ...

    def plan(self, wanted: W, written: Iterable[Document]) -> OperatorPlan | None:
        """Return what to do about *wanted*; *written* is newer than what is watched."""
        ...


class ExporterView:
    """The state of exporters."""

    resource = OPERATORS

    def __init__(self, watched: Watched, setup: Setup) -> None:
        self._watched = watched
        self._setup = setup

    def object(self, name: str) -> NUMAResourcesOperator | None:
        """Return the user's object called *name*."""
        return self._watched.operators.store.get(ObjectKey("", name))

    def plan(
        self, wanted: NUMAResourcesOperator, written: Iterable[Document]
    ) -> OperatorPlan | None:
        """Return what to do about *wanted*."""
        watched = self._watched
        daemon_sets = {one.metadata.name: one for one in watched.daemon_sets.store.values()}
        daemon_sets |= {
            document["metadata"]["name"]: msgspec.convert(document, DaemonSet)
            for document in written
            if document["kind"] == "DaemonSet"
        }
        pools, configs = watched.pools, watched.kubelet_configs
        seen = Seen(
            object=wanted,
            nodes=tuple(watched.nodes.store.values()),
            daemon_sets=daemon_sets,
            config_maps={one.metadata.name: one for one in watched.config_maps.store.values()},
            made=watched.made(),
            machine_config_pools=None if pools is None else tuple(pools.store.values()),
            kubelet_configs=() if configs is None else tuple(configs.store.values()),
        )
        return plan_exporters(seen, self._setup)


class SchedulerView:
    """The state of the scheduler."""

    resource = SCHEDULERS

    def __init__(self, watched: Watched, setup: SchedulerSetup) -> None:
        self._watched = watched
        self._setup = setup

    def object(self, name: str) -> NUMAResourcesScheduler | None:
        """Return the user's object called *name*."""
        return self._watched.schedulers.store.get(ObjectKey("", name))

    def plan(
        self, wanted: NUMAResourcesScheduler, written: Iterable[Document]
    ) -> OperatorPlan | None:
        """Return what to do about *wanted*."""
        deployments = {
            deployment.metadata.name: deployment
            for deployment in self._watched.deployments.store.values()
        }
        deployments |= {
            document["metadata"]["name"]: msgspec.convert(document, Deployment)
            for document in written
            if document["kind"] == "Deployment"
        }
        seen = SchedulerSeen(
            object=wanted,
            nodes=tuple(self._watched.nodes.store.values()),
            deployment=deployments.get(SCHEDULER_DEPLOYMENT),
            companions=deployments,
            made=self._watched.made(),
        )
        return plan_scheduler(seen, self._setup)
