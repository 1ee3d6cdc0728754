"""Arguments of the plugin: upstream's NodeResourceTopologyMatchArgs, and fields of our own.

Upstream's fields, defaults and checks are those of its v1 API (August 2026), so that an existing
``pluginConfig`` works unchanged. Ours are ``mode``, ``native``, ``cache.kind`` and how strict
native mode is: ``missingData``, ``requiredPolicy`` and ``weakerPolicy``. A field that does not
exist is an error; upstream's decoder is strict as well.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

import msgspec

from numakube.api.codec import Wire, convert
from numakube.api.strictness import Leniency, Strictness
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.scheduling.numa.caches.known_pods import ForeignPods
from numakube.scheduling.numa.caches.overreserve import ResyncScope
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods
from numakube.scheduling.numa.native.reference_alignment_score import TypicalPods
from numakube.values.gotext import go_quote
from numakube.values.resources import amounts_of
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

E = TypeVar("E", bound=StrEnum)

KIND: Final = "NodeResourceTopologyMatchArgs"
STRATEGIES: Final = ("MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes")
LEAST_FRAGMENTATION: Final = "LeastFragmentation"
"""The strategy of native mode that keeps room for typical pods."""
PREEMPTION_MODES: Final = ("Disabled", "Enabled")
DEFAULT_RESYNC_SECONDS: Final = 5
"""How often doubts are settled if nothing is said; what upstream's documentation recommends."""

_REMOVED: Final = frozenset({"kubeconfigpath", "kubeconfigPath", "namespaces"})
_PER_CENT: Final = 100
_INFORMER_MODES: Final = ("Shared", "Dedicated")


class Mode(StrEnum):
    """Who decides about alignment."""

    NATIVE = "native"
    """We predict what the kubelet will do, for every policy."""
    UPSTREAM = "upstream"
    """The decisions of the Go plugin."""


class CacheKind(StrEnum):
    """How pods are accounted for between their binding and the next report."""

    PASSTHROUGH = "passthrough"
    DISCARD_RESERVED = "discardreserved"
    OVER_RESERVE = "overreserve"
    PREDICT = "predict"


class ResourceWeight(Wire, frozen=True):
    """How much a resource counts in LeastAllocated and MostAllocated; 0 and less count as 1."""

    name: str
    weight: int = 1


_CPU_AND_MEMORY = (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))


class TypicalPodArgs(Wire, frozen=True):
    """What pods of a kind request, and how often they come compared with the others."""

    requests: dict[str, str | int] = {}  # noqa: RUF012 - msgspec gives each instance its own
    weight: int = 1


class ZoneScoringStrategy(Wire, frozen=True):
    """How upstream mode rates nodes; native mode has one more type, and ``typical_pods`` for it."""

    type: str = ""
    resources: tuple[ResourceWeight, ...] = ()
    typical_pods: tuple[TypicalPodArgs, ...] = ()


class CacheArgs(Wire, frozen=True):
    """Settings of the cache; all but ``kind`` are upstream's and only concern ``overreserve``."""

    foreign_pods_detect: str = "All"
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str = "All"
    kind: CacheKind | None = None


class NativeArgs(Wire, frozen=True):
    """Settings of native mode; `native_options.NativeOptions` explains them."""

    fidelity: str = "exact"
    alignment_weight: int = 70
    packing_weight: int = 20
    balance_weight: int = 10
    closeness_weight: int = 40


class NodeResourceTopologyMatchArgs(Wire, frozen=True):
    """The ``args`` of the plugin as they stand in a KubeSchedulerConfiguration."""

    scoring_strategy: ZoneScoringStrategy = ZoneScoringStrategy(
        type="LeastAllocated", resources=_CPU_AND_MEMORY
    )
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: CacheArgs = CacheArgs()
    preemption_mode: str | None = None
    mode: Mode = Mode.NATIVE
    native: NativeArgs = NativeArgs()
    missing_data: str = Leniency.DEPRIORITISE
    required_policy: str = TopologyPolicy.NONE
    weaker_policy: str = Leniency.DEPRIORITISE


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Which cache is made, and how; profiles that share one must agree on it."""

    kind: CacheKind
    foreign_pods: ForeignPods
    fingerprint_pods: FingerprintPods
    resync_scope: ResyncScope
    resync_seconds: int

    def differences(self, other: "CacheSettings") -> "Iterator[tuple[str, object, object]]":
        """Yield every argument that differs from that of *other*, with both values."""
        for field, argument in _CACHE_ARGUMENTS.items():
            own, others = getattr(self, field), getattr(other, field)
            if own != others:
                yield argument, own, others


_CACHE_ARGUMENTS: Final = {
    "kind": "cache.kind",
    "foreign_pods": "cache.foreignPodsDetect",
    "fingerprint_pods": "cache.resyncMethod",
    "resync_scope": "cache.resyncScope",
    "resync_seconds": "cacheResyncPeriodSeconds",
}
"""Where `CacheSettings` come from. The kind may follow from other arguments; stated, it decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the plugin does.

    Attributes:
        strategy: of upstream mode, with the weights of resources.
        typical: of native mode with the strategy LeastFragmentation: the pods to keep room for.
        strictness: of native mode, for pods that do not say.
        simulates_evictions: whether what-ifs of preemption free the victims' zones.
        notes: settings that are accepted but do nothing here, or not what they seem to.
    """

    mode: Mode
    strategy: str
    weights: "Mapping[str, int]"
    typical: TypicalPods | None
    native: NativeArgs
    strictness: Strictness
    cache: CacheSettings
    simulates_evictions: bool
    notes: tuple[str, ...] = ()


def read_args(tree: "Mapping[str, object]") -> Settings:
    """Return the settings in *tree*; raise `ConfigError` that names every wrong field."""
    known = {name: value for name, value in tree.items() if name not in ("apiVersion", "kind")}
    problems = list(_unknown(known, NodeResourceTopologyMatchArgs, ""))
    if problems:
        raise ConfigError("; ".join(problems))
    try:
        args = convert(NodeResourceTopologyMatchArgs, known, KIND)
    except MalformedObject as error:
        raise ConfigError(str(error)) from None
    problems = list(_problems(args))
    if problems:
        raise ConfigError("; ".join(problems))
    return Settings(
        mode=args.mode,
        strategy=args.scoring_strategy.type,
        weights=_weights(args.scoring_strategy),
        typical=_typical(args.scoring_strategy),
        native=args.native,
        strictness=_strictness(args),
        cache=_cache(args),
        simulates_evictions=_simulates_evictions(args),
        notes=tuple(_notes(args)),
    )


def _unknown(tree: "Mapping[str, object]", kind: type[Wire], path: str) -> "Iterator[str]":
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in tree.items():
        if name in _REMOVED and not path:
            yield f"{name}: upstream has removed this field; delete it"
        elif name not in fields:
            yield f"{path}{name}: there is no such field; there are {', '.join(sorted(fields))}"
        elif isinstance(value, dict) and _is_wire(fields[name]):
            yield from _unknown(value, fields[name], f"{path}{name}.")


def _is_wire(kind: object) -> TypeGuard[type[Wire]]:
    return isinstance(kind, type) and issubclass(kind, Wire)


def _problems(args: NodeResourceTopologyMatchArgs) -> "Iterator[str]":
    yield from _strategy_problems(args)
    mode = args.preemption_mode
    if mode is not None and mode not in PREEMPTION_MODES:
        yield f"preemptionMode: Invalid value: {go_quote(mode)}: invalid PreemptionMode"
    yield from _strictness_problems(args)
    native = args.native
    if native.fidelity not in ("exact", "counts"):
        yield f"native.fidelity: {go_quote(native.fidelity)} is neither exact nor counts"
    weights = {
        "alignmentWeight": native.alignment_weight,
        "packingWeight": native.packing_weight,
        "balanceWeight": native.balance_weight,
    }
    yield from (f"native.{name}: must not be negative" for name, w in weights.items() if w < 0)
    if not any(weights.values()):
        yield f"native: one of {', '.join(weights)} must be greater than 0"
    if not 0 <= native.closeness_weight <= _PER_CENT:
        yield "native.closenessWeight: must be from 0 to 100"


def _strategy_problems(args: NodeResourceTopologyMatchArgs) -> "Iterator[str]":
    strategy, typical = args.scoring_strategy.type, args.scoring_strategy.typical_pods
    if strategy == LEAST_FRAGMENTATION:
        if args.mode is Mode.UPSTREAM:
            yield f"scoringStrategy.type: only native mode has {LEAST_FRAGMENTATION}"
        if not typical:
            yield f"scoringStrategy.typicalPods: {LEAST_FRAGMENTATION} needs at least one"
    elif strategy not in STRATEGIES:
        yield (
            f"scoringStrategy.type: Invalid value: {go_quote(strategy)}:"
            " invalid ScoringStrategyType"
        )
    elif typical:
        yield f"scoringStrategy.typicalPods: only {LEAST_FRAGMENTATION} keeps room for them"
    for number, one in enumerate(typical):
        yield from _typical_problems(one, f"scoringStrategy.typicalPods[{number}]")


def _typical_problems(pod: TypicalPodArgs, path: str) -> "Iterator[str]":
    if pod.weight < 1:
        yield f"{path}.weight: must be greater than 0"
    try:
        amounts = amounts_of(pod.requests)
    except InvalidValue as error:
        yield f"{path}.requests: {error}"
        return
    if not any(amount > 0 for amount in amounts.values()):
        yield f"{path}.requests: asks for nothing"


def _strictness_problems(args: NodeResourceTopologyMatchArgs) -> "Iterator[str]":
    for field, value, known, default in (
        ("missingData", args.missing_data, tuple(Leniency), Leniency.DEPRIORITISE),
        ("requiredPolicy", args.required_policy, tuple(TopologyPolicy), TopologyPolicy.NONE),
        ("weakerPolicy", args.weaker_policy, tuple(Leniency), Leniency.DEPRIORITISE),
    ):
        if value not in known:
            yield f"{field}: {go_quote(value)} is not one of {', '.join(known)}"
        elif args.mode is Mode.UPSTREAM and value != default:
            yield f"{field}: only native mode has it; upstream mode decides as the Go plugin does"


def _strictness(args: NodeResourceTopologyMatchArgs) -> Strictness:
    return Strictness(
        missing_data=Leniency(args.missing_data),
        required_policy=TopologyPolicy(args.required_policy),
        weaker_policy=Leniency(args.weaker_policy),
    )


def _notes(args: NodeResourceTopologyMatchArgs) -> "Iterator[str]":
    """Say what upstream accepts silently."""
    cache = args.cache
    for field, value, known, effect in (
        ("foreignPodsDetect", cache.foreign_pods_detect, tuple(ForeignPods), "All"),
        ("resyncMethod", cache.resync_method, tuple(FingerprintPods), "All"),
        ("resyncScope", cache.resync_scope, tuple(ResyncScope), "OnlyResources"),
        ("informerMode", cache.informer_mode, _INFORMER_MODES, "Shared"),
    ):
        if value not in known:
            yield f"cache.{field}: {go_quote(value)} is unknown and means {effect}"
    if cache.informer_mode == "Shared":
        yield "cache.informerMode: has no effect; every watch here is our own"
    for resource in args.scoring_strategy.resources:
        if resource.weight < 0:
            yield f"scoringStrategy.resources: {resource.name}: a negative weight counts as 1"


def _weights(strategy: ZoneScoringStrategy) -> dict[str, int]:
    return {
        resource.name: max(1, resource.weight) for resource in strategy.resources or _CPU_AND_MEMORY
    }


def _typical(strategy: ZoneScoringStrategy) -> TypicalPods | None:
    if strategy.type != LEAST_FRAGMENTATION:
        return None
    return TypicalPods.weighted(
        [(amounts_of(typical.requests), typical.weight) for typical in strategy.typical_pods]
    )


def _simulates_evictions(args: NodeResourceTopologyMatchArgs) -> bool:
    """Tell whether preemption may count on the zones of its victims: upstream's default is no."""
    if args.preemption_mode is None:
        return args.mode is Mode.NATIVE
    return args.preemption_mode == "Enabled"


def _cache(args: NodeResourceTopologyMatchArgs) -> CacheSettings:
    cache, period = args.cache, args.cache_resync_period_seconds
    return CacheSettings(
        kind=cache.kind or _cache_kind(args),
        foreign_pods=_or(ForeignPods, cache.foreign_pods_detect, ForeignPods.ALL),
        fingerprint_pods=_or(FingerprintPods, cache.resync_method, FingerprintPods.ALL),
        resync_scope=_or(ResyncScope, cache.resync_scope, ResyncScope.ONLY_RESOURCES),
        resync_seconds=period if period > 0 else DEFAULT_RESYNC_SECONDS,
    )


def _cache_kind(args: NodeResourceTopologyMatchArgs) -> CacheKind:
    """Return what upstream's fields ask for; native mode predicts where upstream over-reserves."""
    if args.discard_reserved_nodes:
        return CacheKind.DISCARD_RESERVED
    if args.mode is Mode.NATIVE:
        return CacheKind.PREDICT
    if args.cache_resync_period_seconds > 0:
        return CacheKind.OVER_RESERVE
    return CacheKind.PASSTHROUGH


def _or(kind: type[E], value: str, otherwise: E) -> E:
    return kind(value) if value in tuple(kind) else otherwise
