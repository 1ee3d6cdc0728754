"""Making the plugin from its arguments, with the disruption budgets of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.selectors import selector_of
from numakube.errors import ConfigError, InvalidValue
from numakube.scheduling.preemption.budgets import Budget
from numakube.scheduling.preemption.plugin import DefaultPreemption, PreemptionArgs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.objects import ClusterObjects

_PERCENTAGE = "minCandidateNodesPercentage"
_ABSOLUTE = "minCandidateNodesAbsolute"
_TYPE_META = frozenset({"apiVersion", "kind"})


def make_preemption(args: Mapping[str, object], handle: Handle) -> DefaultPreemption:
    """Make the plugin; raise `ConfigError` naming the argument that is wrong."""
    objects = handle.cluster.objects
    return DefaultPreemption(read_args(args), handle, lambda: tuple(budgets_of(objects)))


def read_args(args: Mapping[str, object]) -> PreemptionArgs:
    """Return kube-scheduler's ``DefaultPreemptionArgs``, checked as it does."""
    unknown = sorted(args.keys() - _TYPE_META - {_PERCENTAGE, _ABSOLUTE})
    if unknown:
        raise ConfigError(f"{unknown[0]}: there is no such argument")
    percentage = _integer(args, _PERCENTAGE, 10)
    absolute = _integer(args, _ABSOLUTE, 100)
    if not 0 <= percentage <= 100:
        raise ConfigError(f"{_PERCENTAGE}: {percentage} is not in the range [0, 100]")
    if absolute < 0:
        raise ConfigError(f"{_ABSOLUTE}: {absolute} must not be negative")
    if percentage == absolute == 0:
        raise ConfigError(f"{_PERCENTAGE} and {_ABSOLUTE} cannot both be 0")
    return PreemptionArgs(percentage, absolute)


def budgets_of(objects: ClusterObjects) -> Iterator[Budget]:
    """Yield the disruption budgets; one whose selector cannot be read protects nobody."""
    for budget in objects.disruption_budgets.values():
        try:
            selector = selector_of(budget.spec.selector)
        except InvalidValue:
            continue
        yield Budget(
            namespace=budget.metadata.namespace,
            pods=selector,
            allowed=budget.status.disruptions_allowed,
            disrupted=frozenset(budget.status.disrupted_pods),
        )


def _integer(args: Mapping[str, object], name: str, default: int) -> int:
    value = args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}: {value!r} is not an integer")
    return value
