"""From a NUMAResourcesOperator and the present state to exporters on the nodes of its pools.

What the operator has made for this object and no longer wants is removed: the exporters of a group
that is gone, or additions of annexes that were switched off. Where exporters cannot read the
kubelet's own file, its policy and scope reach them by a ConfigMap, made from OpenShift's
KubeletConfig.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import Wire
from numakube.api.crds import UPDATE_CRD, crd
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.numaresources import (
    OPERATOR_NAME,
    NamespacedName,
    NodeGroupStatus,
    PoolStatus,
    RelatedObject,
)
from numakube.api.selectors import selector_of
from numakube.api.yaml_text import dump_yaml
from numakube.apps.operator.group_additions import (
    accounts_of,
    addition_objects,
    daemon_sets_of,
)
from numakube.apps.operator.node_pools import (
    ENABLED,
    EVENTS,
    PERIODIC,
    BadGroups,
    OperatorPool,
    Pools,
    expressions_of,
    log_level,
    pools_of,
)
from numakube.apps.operator.planned_actions import (
    POOL_PAUSED,
    Apply,
    Extra,
    Made,
    OperatorPlan,
    degraded,
    leftovers,
    owned,
    verdict_of,
)
from numakube.errors import InvalidValue
from numakube.manifests.cluster_policies import API_PORTS
from numakube.manifests.exporter import PoolExporter, PoolExporters
from numakube.manifests.node_agents import AdditionSite
from numakube.manifests.pod_template_parts import hash_of
from numakube.manifests.release_image import told_gates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.api.numaresources import MachineConfigPool, NUMAResourcesOperator
    from numakube.api.workloads import ConfigMap, DaemonSet
    from numakube.kube.resource_types import Document


PAUSE: Final = "config.numa-operator.openshift.io/pause-reconciliation"
KEEP_DEFINITION: Final = "config.numa-operator.openshift.io/nrt-api-definition"
SEVERAL_POOLS: Final = "config.node.openshift-kni.io/multiple-pools-per-tree"
CR_LABEL: Final = "numaresourcesoperator.nodetopology.openshift.io/name"
POOL_LABEL: Final = "nodegroup.nodetopology.openshift.io/machineconfigpool"

BAD_NAME: Final = "IncorrectNUMAResourcesOperatorResourceName"
BAD_IMAGE: Final = "CustomUserImage"
BAD_GROUPS: Final = "ValidationErrorUnderNodeGroups"

_FINGERPRINTS: Final[Mapping[str, str]] = {
    "Enabled": "all",
    "EnabledExclusiveResources": "with-exclusive-resources",
}
_FIELDS: Final = ("topologyManagerPolicy", "topologyManagerScope")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the operator itself was told.

    Attributes:
        namespace: where everything lives.
        image: of the exporters; so is ``pull_policy``.
        feature_gates: what all programs are told of them, as their flag has it.
        custom_image: whether the user may name another.
    """

    namespace: str
    image: str
    pull_policy: str = "IfNotPresent"
    feature_gates: str = ""
    custom_image: bool = True
    api_ports: tuple[int, ...] = API_PORTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The present state.

    Attributes:
        daemon_sets: those of our namespace, by name; so are ``config_maps``.
        made: everything that operators have made.
        machine_config_pools: ``None`` where there are no such things.
        kubelet_configs: OpenShift's objects of that kind.
    """

    object: NUMAResourcesOperator
    nodes: tuple[Node, ...] = ()
    daemon_sets: Mapping[str, DaemonSet] = field(default_factory=lambda: MappingProxyType({}))
    config_maps: Mapping[str, ConfigMap] = field(default_factory=lambda: MappingProxyType({}))
    made: tuple[Made, ...] = ()
    machine_config_pools: tuple[MachineConfigPool, ...] | None = None
    kubelet_configs: tuple[KubeletConfigObject, ...] = ()


def plan_exporters(seen: Seen, setup: Setup) -> OperatorPlan | None:
    """Return what to do; ``None`` if the user asked to leave everything alone."""
    wanted = seen.object
    if wanted.metadata.name != OPERATOR_NAME:
        text = f"incorrect NUMAResourcesOperator resource name: {wanted.metadata.name}"
        return _stopped(BAD_NAME, text)
    if wanted.metadata.annotations.get(PAUSE) == "enabled":
        return None
    if wanted.spec.image_spec and not setup.custom_image:
        text = f"custom operand image is not supported: {wanted.spec.image_spec}"
        return _stopped(BAD_IMAGE, text)
    pools = pools_of(
        wanted.spec.node_groups,
        machine_config_pools=seen.machine_config_pools,
        nodes=seen.nodes,
        several_pools_allowed=wanted.metadata.annotations.get(SEVERAL_POOLS) == "enabled",
    )
    if isinstance(pools, BadGroups):
        return _stopped(BAD_GROUPS, pools.message)
    return _Pass(seen, setup, pools).plan()


def _stopped(reason: str, message: str) -> OperatorPlan:
    return OperatorPlan(verdict=degraded(reason, message), status={})


class _Pass:
    """One pass over a state that makes sense."""

    def __init__(self, seen: Seen, setup: Setup, pools: Pools) -> None:
        self._seen = seen
        self._setup = setup
        self._pools = pools.pools
        self._doubt = pools.doubt
        self._owner: Document = msgspec.to_builtins(seen.object)

    def plan(self) -> OperatorPlan:
        waiting = self._first_not_ready()
        operands = self._operands()
        old = leftovers(self._seen.made, self._seen.object.metadata.uid, operands)
        return OperatorPlan(
            actions=(*old, *self._definition(), *operands),
            verdict=verdict_of(
                updating=waiting,
                wrong=(BAD_GROUPS, self._doubt) if self._doubt else None,
                extras=self._paused(),
            ),
            status=self._status(complete=waiting is None),
        )

    def _operands(self) -> list[Apply]:
        if not self._pools:
            return []
        configs = {pool.name: self._config_map(pool) for pool in self._pools}
        image = self._seen.object.spec.image_spec or self._setup.image
        openshift = self._seen.machine_config_pools is not None
        site = AdditionSite(namespace=self._setup.namespace, image=image, openshift=openshift)
        added = addition_objects(self._pools, site, self._setup.pull_policy)
        operands = PoolExporters(
            namespace=self._setup.namespace,
            image=image,
            pull_policy=self._setup.pull_policy,
            agents=accounts_of(self._pools),
            log_level=log_level(self._seen.object.spec.log_level),
            openshift=openshift,
            api_ports=self._setup.api_ports,
            pools=tuple(self._exporter(pool, configs[pool.name]) for pool in self._pools),
        )
        given = [config for config in configs.values() if config is not None]
        documents = told_gates(
            [*given, *operands.objects(), *added], image, self._setup.feature_gates
        )
        return [Apply(owned(document, self._owner)) for document in documents]

    def _exporter(self, pool: OperatorPool, config_map: Document | None) -> PoolExporter:
        config = pool.config
        name = self._name(pool)
        theirs = self._seen.config_maps.get(name)
        data = config_map["data"] if config_map else theirs.data if theirs else None
        return PoolExporter(
            name=name,
            node_labels=pool.selector.match_labels,
            node_expressions=expressions_of(pool.selector),
            config_hash=hash_of(data) if data is not None else "",
            fingerprint=_FINGERPRINTS.get(config.pods_fingerprinting or ""),
            period=None if config.info_refresh_mode == EVENTS else config.info_refresh_period,
            notified=config.info_refresh_mode != PERIODIC,
            paused=config.info_refresh_pause == ENABLED,
            measure=config.measure == ENABLED,
            max_silence=config.max_silence or "",
            tolerations=tuple(msgspec.to_builtins(toleration) for toleration in config.tolerations),
        )

    def _config_map(self, pool: OperatorPool) -> Document | None:
        """Return the exporters' configuration; one that the user made under its name counts."""
        name = self._name(pool)
        theirs = self._seen.config_maps.get(name)
        if theirs is not None and CR_LABEL not in theirs.metadata.labels:
            return None
        kubelet = kubelet_settings(pool, self._seen.kubelet_configs)
        excludes = [
            {"namespacePattern": exclude.namespace or "*", "namePattern": exclude.name or "*"}
            for exclude in self._seen.object.spec.pod_excludes
        ]
        if not kubelet and not excludes and theirs is None:
            return None
        content: dict[str, Any] = {"kubelet": kubelet}
        if excludes:
            content["podExclude"] = excludes
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._setup.namespace,
                "labels": {CR_LABEL: self._seen.object.metadata.name, POOL_LABEL: pool.name},
            },
            "data": {"config.yaml": dump_yaml(content)},
        }

    def _definition(self) -> list[Apply]:
        """Return the kinds of topologies and their updates, which outlive everything else."""
        kept = self._seen.object.metadata.annotations.get(KEEP_DEFINITION) == "cluster"
        return [] if kept else [Apply(crd()), Apply(crd(UPDATE_CRD))]

    def _first_not_ready(self) -> str | None:
        for name in (*map(self._name, self._pools), *daemon_sets_of(self._pools)):
            if not self._is_ready(name):
                return f"{self._setup.namespace}/{name}"
        return None

    def _is_ready(self, name: str) -> bool:
        daemon_set = self._seen.daemon_sets.get(name)
        return daemon_set is not None and daemon_set.is_ready

    def _paused(self) -> tuple[Extra, ...]:
        if self._seen.machine_config_pools is None:
            return ()
        names = sorted(pool.name for pool in self._pools if pool.paused)
        text = f"detected paused MCPs: {', '.join(names)}" if names else ""
        return (Extra(type=POOL_PAUSED, holds=bool(names), message=text),)

    def _status(self, *, complete: bool) -> dict[str, Any]:
        exporters = itertools.takewhile(self._is_ready, map(self._name, self._pools))
        ready = [
            NamespacedName(namespace=self._setup.namespace, name=exporter) for exporter in exporters
        ]
        added = [
            NamespacedName(namespace=self._setup.namespace, name=one)
            for one in daemon_sets_of(self._pools)
        ]
        status: dict[str, Any] = {
            "daemonsets": ready,
            "relatedObjects": _related(self._setup.namespace, [*ready, *added]),
        }
        if self._seen.machine_config_pools is not None:
            status["machineconfigpools"] = [
                PoolStatus(name=pool.name, config=pool.config) for pool in self._pools
            ]
        if complete:
            status["nodeGroups"] = [
                NodeGroupStatus(selector=pool.name, daemonsets=one, config=pool.config)
                for pool, one in zip(self._pools, ready, strict=True)
            ]
        document: dict[str, Any] = msgspec.to_builtins(status)
        return document

    def _name(self, pool: OperatorPool) -> str:
        return f"{self._seen.object.metadata.name}-{pool.name}"


def _related(namespace: str, daemon_sets: list[NamespacedName]) -> list[RelatedObject]:
    openshift = "machineconfiguration.openshift.io"
    return [
        RelatedObject(resource="namespaces", name=namespace),
        RelatedObject(group=openshift, resource="kubeletconfigs"),
        RelatedObject(group=openshift, resource="machineconfigs"),
        RelatedObject(group="topology.node.k8s.io", resource="noderesourcetopologies"),
        *(
            RelatedObject(
                group="apps", resource="daemonsets", namespace=name.namespace, name=name.name
            )
            for name in daemon_sets
        ),
    ]


class KubeletConfigSpec(Wire, frozen=True):
    """Which pools it is for, and a KubeletConfiguration as it stands."""

    machine_config_pool_selector: LabelSelector | None = None
    kubelet_config: dict[str, Any] | None = None


class KubeletConfigObject(Wire, frozen=True):
    """An object of kind KubeletConfig."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KubeletConfigSpec = KubeletConfigSpec()


def kubelet_settings(pool: OperatorPool, configs: Iterable[KubeletConfigObject]) -> dict[str, str]:
    """Return policy and scope of the kubelets of *pool*, as far as an object tells them."""
    for config in configs:
        payload = config.spec.kubelet_config
        if payload and _is_for(config, pool):
            return {key: value for key in _FIELDS if isinstance(value := payload.get(key), str)}
    return {}


def _is_for(config: KubeletConfigObject, pool: OperatorPool) -> bool:
    try:
        return selector_of(config.spec.machine_config_pool_selector).matches(pool.labels)
    except InvalidValue:
        return False
