"""Node groups: which nodes each of them stands for, and what their fields mean.

On OpenShift a group names a MachineConfigPool, or selects some by their labels. Without pools a
group selects nodes by their labels, or names their role (``node-role.kubernetes.io/<name>``). There
``machineConfigPoolSelector`` means what the labels of pools usually say: the role of their nodes.
Checks and texts are those of the NUMA Resources Operator.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.meta import LabelSelector, LabelSelectorRequirement
from numakube.api.nodes import ROLE_PREFIX
from numakube.api.numaresources import NodeGroupConfig, SchedulerSpec, ScoringStrategySpec
from numakube.api.selectors import selector_of
from numakube.apps.operator.group_additions import addition_mistakes, asked_of
from numakube.errors import InvalidValue
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.numaresources import MachineConfigPool, NodeGroup


# What fields of both objects mean when they are not given.


ENABLED: Final = "Enabled"
PERIODIC: Final = "Periodic"
EVENTS: Final = "Events"

NODE_GROUP: Final = NodeGroupConfig(
    pods_fingerprinting="EnabledExclusiveResources",
    info_refresh_mode=PERIODIC,
    info_refresh_period="10s",
    info_refresh_pause="Disabled",
)

_LOG_LEVELS: Final[Mapping[str, str]] = {
    "": "info",
    "Normal": "info",
    "Debug": "debug",
    "Trace": "debug",
    "TraceAll": "debug",
}


def normalised(config: NodeGroupConfig | None) -> NodeGroupConfig:
    """Return *config* with every field."""
    if config is None:
        return NODE_GROUP
    given = {
        name: value
        for name in NodeGroupConfig.__struct_fields__
        if (value := getattr(config, name)) is not None
    }
    return msgspec.structs.replace(NODE_GROUP, **given)


def normalised_scheduler(spec: SchedulerSpec) -> SchedulerSpec:
    """Return *spec* with every field but the replicas, which depend on the cluster."""
    scoring = spec.scoring_strategy or ScoringStrategySpec()
    return msgspec.structs.replace(
        spec,
        cache_resync_period=spec.cache_resync_period or "5s",
        cache_resync_debug=spec.cache_resync_debug or "DumpJSONFile",
        scheduler_informer=spec.scheduler_informer or "Dedicated",
        cache_resync_detection=spec.cache_resync_detection or "Relaxed",
        scoring_strategy=msgspec.structs.replace(scoring, type=scoring.type or "LeastAllocated"),
    )


def log_level(name: str) -> str:
    """Return our name of a log level of theirs."""
    return _LOG_LEVELS.get(name, "info")


MOST_ANNOTATIONS: Final = 8
_POOL_LABEL: Final = "pools.operator.machineconfiguration.openshift.io/"
_POOL_ROLE: Final = "machineconfiguration.openshift.io/role"


@dataclass(frozen=True, slots=True)
class BadGroups:
    """Why node groups cannot be used."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPool:
    """Nodes that get a DaemonSet of their own.

    Attributes:
        name: what it is called in names of objects.
        selector: which nodes it has.
        config: how their exporters work, complete.
        labels: of the MachineConfigPool, if there is one.
        paused: whether that one is paused.
        additions: what is asked of annexes there, by the field of the node group.
    """

    name: str
    selector: LabelSelector
    config: NodeGroupConfig
    labels: Mapping[str, str]
    paused: bool = False
    additions: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def has(self, node: Node) -> bool:
        """Tell whether *node* belongs to it."""
        return selector_of(self.selector).matches(node.metadata.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of all groups.

    Attributes:
        doubt: what is wrong, though all of them can be served.
    """

    pools: tuple[OperatorPool, ...]
    doubt: str = ""


def pools_of(
    groups: Sequence[NodeGroup],
    *,
    machine_config_pools: Sequence[MachineConfigPool] | None,
    nodes: Iterable[Node] = (),
    several_pools_allowed: bool = False,
) -> Pools | BadGroups:
    """Return the pools of *groups*.

    Args:
        groups: as the user gave them.
        machine_config_pools: those of the cluster; ``None`` where there are no such things.
        nodes: all nodes, to find those that are in two pools.
        several_pools_allowed: whether one group may stand for several pools.
    """
    message = _mistakes(groups)
    if message:
        return BadGroups(message)
    if machine_config_pools is None:
        pools, all_nodes = tuple(_plain(group) for group in groups), tuple(nodes)
        doubt = _shared_nodes(pools, all_nodes) or _empty(groups, pools, all_nodes)
        return Pools(pools=pools, doubt=doubt)
    return _openshift(groups, machine_config_pools, several_pools_allowed=several_pools_allowed)


def _mistakes(groups: Sequence[NodeGroup]) -> str:
    for check in (_specifiers, _names, _annotations, _selectors, addition_mistakes):
        problems = list(check(groups))
        if problems:
            return "\n".join(problems)
    return ""


def _specifiers(groups: Sequence[NodeGroup]) -> Iterable[str]:
    for index, group in enumerate(groups):
        given = [
            one
            for one in (group.pool_name, group.machine_config_pool_selector, group.node_selector)
            if one is not None
        ]
        if not given:
            yield f"node group {index} missing any pool specifier"
            return
        if len(given) > 1:
            yield (
                f"node group {index} must have only a single specifier set:"
                " either PoolName or MachineConfigPoolSelector"
            )
            return


def _names(groups: Sequence[NodeGroup]) -> Iterable[str]:
    seen: set[str] = set()
    for index, group in enumerate(groups):
        name = group.pool_name
        if name is None:
            continue
        if not name:
            yield f"pool name for pool #{index} cannot be empty"
        elif names.dns_subdomain(name):
            yield f'pool name "{name}" for pool #{index} is no valid name'
        elif name in seen:
            yield f'the pool name "{name}" has duplicates'
        seen.add(name)


def _annotations(groups: Sequence[NodeGroup]) -> Iterable[str]:
    for index, group in enumerate(groups):
        count = len(group.annotations)
        if count > MOST_ANNOTATIONS:
            yield f"pool #{index} has too many annotations {count} max {MOST_ANNOTATIONS}"


def _selectors(groups: Sequence[NodeGroup]) -> Iterable[str]:
    seen: set[tuple[str, str]] = set()
    for index, group in enumerate(groups):
        for name, selector in (
            ("machineConfigPoolSelector", group.machine_config_pool_selector),
            ("nodeSelector", group.node_selector),
        ):
            if selector is None:
                continue
            try:
                selector_of(selector)
            except InvalidValue as error:
                yield f"node group {index}: {name}: {error}"
                continue
            text = selector_text(selector)
            if (name, text) in seen:
                yield f'the node group with the {name} "{text}" has duplicates'
            seen.add((name, text))


def _plain(group: NodeGroup) -> OperatorPool:
    config = normalised(group.config)
    if group.pool_name is not None:
        selector = LabelSelector(match_expressions=(_has_role(group.pool_name),))
        name = group.pool_name
    elif group.machine_config_pool_selector is not None:
        selector = _nodes_of_pools(group.machine_config_pool_selector)
        roles = [
            expression.key.removeprefix(ROLE_PREFIX) for expression in selector.match_expressions
        ]
        alone = len(roles) == 1 and not selector.match_labels and "/" not in roles[0]
        name = roles[0] if alone else _name_of(selector)
    else:
        selector = group.node_selector or LabelSelector()
        name = _name_of(selector)
    return OperatorPool(
        name=name, selector=selector, config=config, labels={}, additions=asked_of(group)
    )


def _has_role(name: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=ROLE_PREFIX + name, operator="Exists")


def _nodes_of_pools(selector: LabelSelector) -> LabelSelector:
    """Return which nodes the pools with these labels usually have.

    A pool called ``worker`` has the nodes of that role, and a label that says so: `_POOL_LABEL` and
    its name, or `_POOL_ROLE`. Other labels are looked for on nodes.
    """
    roles: list[LabelSelectorRequirement] = []
    rest: dict[str, str] = {}
    for key, value in selector.match_labels.items():
        if key.startswith(_POOL_LABEL):
            roles.append(_has_role(key.removeprefix(_POOL_LABEL)))
        elif key == _POOL_ROLE:
            roles.append(_has_role(value))
        else:
            rest[key] = value
    for expression in selector.match_expressions:
        is_role = expression.key.startswith(_POOL_LABEL)
        key = ROLE_PREFIX + expression.key.removeprefix(_POOL_LABEL) if is_role else expression.key
        roles.append(msgspec.structs.replace(expression, key=key))
    return LabelSelector(match_labels=rest, match_expressions=tuple(roles))


def _empty(
    groups: Sequence[NodeGroup], pools: Sequence[OperatorPool], nodes: Sequence[Node]
) -> str:
    """Tell of selectors of pools that mean no node here: labels of pools need not be of nodes."""
    for index, (group, pool) in enumerate(zip(groups, pools, strict=True)):
        if group.machine_config_pool_selector is None or any(pool.has(node) for node in nodes):
            continue
        return (
            f"node group {index}: this cluster has no MachineConfigPools, and no node is selected"
            f" by {selector_text(pool.selector)}; use nodeSelector or poolName"
        )
    return ""


def _name_of(selector: LabelSelector) -> str:
    """Return a name for the nodes with these labels that stays the same."""
    labels = sorted(selector.match_labels.items())
    words = [value or key.rpartition("/")[2] for key, value in labels]
    text = "-".join(words).lower()
    readable = "".join(char for char in text if char.isalnum() or char == "-").strip("-")[:20]
    digest = hashlib.sha256(selector_text(selector).encode()).hexdigest()[:6]
    return f"{readable}-{digest}" if readable else f"nodes-{digest}"


def _openshift(
    groups: Sequence[NodeGroup],
    machine_config_pools: Sequence[MachineConfigPool],
    *,
    several_pools_allowed: bool,
) -> Pools | BadGroups:
    pools: list[OperatorPool] = []
    doubts: list[str] = []
    for group in groups:
        if group.node_selector is not None:
            pools.append(_plain(group))
            continue
        found = [pool for pool in machine_config_pools if _stands_for(group, pool)]
        if not found:
            return BadGroups(
                f"failed to find MachineConfigPool for the node group {group_text(group)}"
            )
        if len(found) > 1 and not several_pools_allowed:
            names = " ".join(pool.metadata.name for pool in found)
            doubts.append(
                f"found multiple pools matches for node group {group_text(group)} but expected"
                f" one. Pools found [{names}]"
            )
        for pool in found:
            if pool.spec.node_selector is None:
                return BadGroups(
                    f'the machine config pool "{pool.metadata.name}" does not have node selector'
                )
            pools.append(_of_machine_config(group, pool, pool.spec.node_selector))
    twice = _named_twice(pools)
    return BadGroups(twice) if twice else Pools(pools=tuple(pools), doubt="\n".join(doubts))


def _stands_for(group: NodeGroup, pool: MachineConfigPool) -> bool:
    if group.pool_name is not None:
        return pool.metadata.name == group.pool_name
    selector = group.machine_config_pool_selector
    return selector is not None and selector_of(selector).matches(pool.metadata.labels)


def _of_machine_config(
    group: NodeGroup, pool: MachineConfigPool, selector: LabelSelector
) -> OperatorPool:
    return OperatorPool(
        name=pool.metadata.name,
        selector=selector,
        config=normalised(group.config),
        labels=pool.metadata.labels,
        paused=pool.spec.paused,
        additions=asked_of(group),
    )


def _named_twice(pools: Iterable[OperatorPool]) -> str:
    seen: set[str] = set()
    twice = []
    for pool in pools:
        if pool.name in seen:
            twice.append(
                f'the MachineConfigPool "{pool.name}" selected by at least two node groups'
            )
        seen.add(pool.name)
    return "\n".join(twice)


def _shared_nodes(pools: Sequence[OperatorPool], nodes: Iterable[Node]) -> str:
    """Tell of nodes that two pools claim: the exporter of the second would not start there."""
    for node in nodes:
        names = [pool.name for pool in pools if pool.has(node)]
        if len(names) > 1:
            return f'node "{node.metadata.name}" is selected by node groups {", ".join(names)}'
    return ""


def group_text(group: NodeGroup) -> str:
    """Return how a group is called in messages."""
    if group.pool_name is not None:
        return group.pool_name
    selector = group.machine_config_pool_selector or group.node_selector
    return "<missingName>" if selector is None else selector_text(selector)


def selector_text(selector: LabelSelector) -> str:
    """Return a selector as one text, the same for the same selector."""
    words = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for expression in sorted(
        selector.match_expressions, key=lambda expression: (expression.key, expression.operator)
    ):
        values = f" ({','.join(sorted(expression.values))})" if expression.values else ""
        words.append(f"{expression.key} {expression.operator}{values}")
    return ",".join(words)


def expressions_of(selector: LabelSelector) -> tuple[dict[str, Any], ...]:
    """Return the conditions of *selector* besides its labels, as a node affinity has them."""
    return tuple(msgspec.to_builtins(expression) for expression in selector.match_expressions)
