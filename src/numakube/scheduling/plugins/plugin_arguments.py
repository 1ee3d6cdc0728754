"""Arguments of the plugins, as they stand under ``pluginConfig``, and what is wrong with them.

Names, defaults, limits and messages are those of kube-scheduler 1.37
(kubescheduler.config.k8s.io/v1).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeVar

import msgspec

from numakube.api.affinity_and_taints import NodeAffinity, TopologySpreadConstraint
from numakube.api.codec import DurationText, Wire, convert
from numakube.dra.device_places import DriverAttributes
from numakube.errors import ConfigError, InvalidValue
from numakube.scheduling.framework.registry import unknown_fields
from numakube.scheduling.matching import node_preferences, node_rule
from numakube.values import names
from numakube.values.gotext import go_quote
from numakube.values.resources import CPU, MEMORY
from numakube.values.times import SECOND, parse_duration

T = TypeVar("T")

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_TYPE_META: Final = ("apiVersion", "kind")
_MAX_WEIGHT: Final = 100
_MAX_SHAPE_SCORE: Final = 10


class WeightedResource(Wire, frozen=True):
    """A resource and how much it counts."""

    name: str
    weight: int = 1


DEFAULT_RESOURCES: Final = (WeightedResource(name=CPU), WeightedResource(name=MEMORY))


class UtilizationShapePoint(Wire, frozen=True):
    """At how much use (in percent) a node gets which score (of ten)."""

    utilization: int
    score: int


DEFAULT_STORAGE_SHAPE: Final = (
    UtilizationShapePoint(utilization=0, score=_MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=_MAX_WEIGHT, score=0),
)
"""Nodes with more storage to spare are better."""


class RequestedToCapacityRatioParam(Wire, frozen=True):
    """A broken line from use to score."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Wire, frozen=True):
    """How nodes are rated by what is free on them."""

    type: str = ""
    resources: tuple[WeightedResource, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(Wire, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST_ALLOCATED)


class NodeResourcesBalancedAllocationArgs(Wire, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[WeightedResource, ...] = DEFAULT_RESOURCES


class NodeAffinityArgs(Wire, frozen=True):
    """Arguments of NodeAffinity: affinity that every pod of the profile gets."""

    added_affinity: NodeAffinity | None = None


class PodTopologySpreadArgs(Wire, frozen=True):
    """Arguments of PodTopologySpread: constraints of pods that have none."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class InterPodAffinityArgs(Wire, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class VolumeBindingArgs(Wire, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = DEFAULT_STORAGE_SHAPE


class DynamicResourcesArgs(Wire, frozen=True):
    """Arguments of DynamicResources.

    Ours are ``featureGates``, for features that are alpha, ``deviceChoice``: ``Aligned`` takes
    devices near what the kubelet gives the pod, ``FirstFit`` those that kube-scheduler takes, and
    ``deviceAttributes``: by driver, which attributes say where its devices are.
    """

    filter_timeout: DurationText = "10s"
    binding_timeout: DurationText = "10m"
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    device_choice: Literal["Aligned", "FirstFit"] = "Aligned"
    device_attributes: dict[str, DriverAttributes] = msgspec.field(default_factory=dict)

    @property
    def filter_timeout_seconds(self) -> float:
        """How long the search on one node may take; 0 for as long as it takes."""
        return parse_duration(self.filter_timeout) / SECOND

    @property
    def binding_timeout_seconds(self) -> float:
        """How long devices may take until they are ready."""
        return parse_duration(self.binding_timeout) / SECOND


def read_args(kind: type[T], args: Mapping[str, object]) -> T:
    """Return *args* as a *kind*, with defaults.

    Raises:
        ConfigError: they are not valid, in kube-scheduler's words.
    """
    given = {name: value for name, value in args.items() if name not in _TYPE_META}
    read = _defaulted(convert(kind, given, kind.__name__))
    problems = [*unknown_fields(given, kind), *_problems(read)]
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise ConfigError(f"{kind.__name__}: {text}")
    return read


def _defaulted(args: T) -> T:
    """Return *args* where empty lists and weights of zero have their defaults."""
    match args:
        case NodeResourcesFitArgs(scoring_strategy=strategy):
            resources = _resources(strategy.resources)
            strategy = msgspec.structs.replace(strategy, resources=resources)
            return msgspec.structs.replace(args, scoring_strategy=strategy)
        case NodeResourcesBalancedAllocationArgs(resources=resources):
            return msgspec.structs.replace(args, resources=_resources(resources))
        case VolumeBindingArgs(shape=()):
            return msgspec.structs.replace(args, shape=DEFAULT_STORAGE_SHAPE)
        case _:
            return args


def _resources(resources: tuple[WeightedResource, ...]) -> tuple[WeightedResource, ...]:
    weighted = (
        WeightedResource(name=resource.name, weight=resource.weight or 1) for resource in resources
    )
    return tuple(weighted) or DEFAULT_RESOURCES


def _problems(args: object) -> Iterator[str]:
    match args:
        case NodeResourcesFitArgs():
            yield from _fit_problems(args)
        case NodeResourcesBalancedAllocationArgs():
            yield from _balanced_problems(args)
        case NodeAffinityArgs():
            yield from _affinity_problems(args)
        case PodTopologySpreadArgs():
            yield from _spread_problems(args)
        case InterPodAffinityArgs(hard_pod_affinity_weight=weight):
            if not 0 <= weight <= _MAX_WEIGHT:
                yield _invalid("hardPodAffinityWeight", weight, "not in valid range [0, 100]")
        case VolumeBindingArgs():
            yield from _binding_problems(args)
        case DynamicResourcesArgs(device_attributes=by_driver):
            yield from _attribute_problems(by_driver)
        case _:
            return


def _fit_problems(args: NodeResourcesFitArgs) -> Iterator[str]:
    for index, name in enumerate(args.ignored_resources):
        yield from _name_problems(f"ignoredResources[{index}]", name)
    for index, name in enumerate(args.ignored_resource_groups):
        path = f"ignoredResourceGroups[{index}]"
        if "/" in name:
            yield _invalid(path, name, "resource group name can't contain '/'")
        yield from _name_problems(path, name)
    strategy = args.scoring_strategy
    if strategy.type not in _STRATEGIES:
        yield _unsupported("scoringStrategy.type", strategy.type, _STRATEGIES)
    for index, one in enumerate(strategy.resources):
        if not 0 < one.weight <= _MAX_WEIGHT:
            text = f"resource weight of {one.name} not in valid range (0, 100]"
            yield _invalid(f"scoringStrategy.resources[{index}].weight", one.weight, text)
    ratio = strategy.requested_to_capacity_ratio
    if ratio is not None or strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        yield from _shape_problems("scoringStrategy.shape", ratio.shape if ratio else ())


def _shape_problems(path: str, shape: tuple[UtilizationShapePoint, ...]) -> Iterator[str]:
    if not shape:
        yield f"{path}: Required value: at least one point must be specified"
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            text = "values must be sorted in increasing order"
            yield _invalid(f"{path}[{index}].utilization", shape[index].utilization, text)
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= _MAX_WEIGHT:
            text = "not in valid range [0, 100]"
            yield _invalid(f"{path}[{index}].utilization", point.utilization, text)
        if not 0 <= point.score <= _MAX_SHAPE_SCORE:
            yield _invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]")


def _balanced_problems(args: NodeResourcesBalancedAllocationArgs) -> Iterator[str]:
    seen = set[str]()
    for index, one in enumerate(args.resources):
        if one.name in seen:
            yield f"resources[{index}].name: Duplicate value: {go_quote(one.name)}"
        seen.add(one.name)
        if one.weight != 1:
            yield _invalid(f"resources[{index}].weight", one.weight, "must be 1")


def _affinity_problems(args: NodeAffinityArgs) -> Iterator[str]:
    added = args.added_affinity
    if added is None:
        return
    yield from node_rule(added.required).problems
    try:
        node_preferences(added.preferred)
    except InvalidValue as error:
        yield str(error)


def _spread_problems(args: PodTopologySpreadArgs) -> Iterator[str]:
    if args.defaulting_type not in ("System", "List"):
        yield _unsupported("defaultingType", args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        text = "when .defaultConstraints are not empty"
        yield _invalid("defaultingType", args.defaulting_type, text)
    seen = set[tuple[str, str]]()
    for index, one in enumerate(args.default_constraints):
        path = f"defaultConstraints[{index}]"
        yield from _constraint_problems(path, one)
        identity = (one.topology_key, one.when_unsatisfiable)
        if identity in seen:
            shown = go_quote(f"{{{one.topology_key}, {one.when_unsatisfiable}}}")
            yield f"{path}: Duplicate value: {shown}"
        seen.add(identity)


def _constraint_problems(path: str, one: TopologySpreadConstraint) -> Iterator[str]:
    if one.max_skew <= 0:
        yield _invalid(f"{path}.maxSkew", one.max_skew, "not in valid range (0, inf)")
    if not one.topology_key:
        yield f"{path}.topologyKey: Required value: can not be empty"
    else:
        yield from _name_problems(f"{path}.topologyKey", one.topology_key)
    if not one.when_unsatisfiable:
        yield f"{path}.whenUnsatisfiable: Required value: can not be empty"
    elif one.when_unsatisfiable not in _ACTIONS:
        yield _unsupported(f"{path}.whenUnsatisfiable", one.when_unsatisfiable, _ACTIONS)
    if one.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        yield f"{path}.labelSelector: Forbidden: {text}"


def _binding_problems(args: VolumeBindingArgs) -> Iterator[str]:
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield _invalid("bindTimeoutSeconds", args.bind_timeout_seconds, text)
    yield from _shape_problems("shape", args.shape)


def _attribute_problems(by_driver: Mapping[str, DriverAttributes]) -> Iterator[str]:
    for driver, attributes in by_driver.items():
        path = f"deviceAttributes[{driver}]"
        yield from (_invalid(path, driver, name) for name in names.dns_subdomain(driver))
        for field, name in msgspec.to_builtins(attributes).items():
            if name:
                yield from _name_problems(f"{path}.{field}", name)


def _name_problems(path: str, name: str) -> Iterator[str]:
    return (_invalid(path, name, problem) for problem in names.qualified_name(name))


def _invalid(path: str, value: object, text: str) -> str:
    shown = go_quote(value) if isinstance(value, str) else value
    return f"{path}: Invalid value: {shown}: {text}"


def _unsupported(path: str, value: str, supported: Iterable[str]) -> str:
    listed = ", ".join(go_quote(one) for one in sorted(supported))
    return f"{path}: Unsupported value: {go_quote(value)}: supported values: {listed}"
