"""How DefaultPreemption is made from its arguments.

Names, defaults, limits and messages are those of kube-scheduler 1.35
(kubescheduler.config.k8s.io/v1, DefaultPreemptionArgs).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from numakube.api.codec import Wire, convert
from numakube.errors import ConfigError
from numakube.scheduling.framework.registry import Factory, Handle
from numakube.scheduling.preemption.default_preemption import DefaultPreemption, PreemptionArgs
from numakube.scheduling.preemption.disruption_budgets import budgets_of

_WHOLE: Final = 100


class DefaultPreemptionArgs(Wire, frozen=True):
    """Arguments of DefaultPreemption as they stand under ``pluginConfig``."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    api_version: str = ""
    kind: str = ""


def make_preemption(args: Mapping[str, object], handle: Handle) -> DefaultPreemption:
    """Make the plugin; raises `ConfigError` if the arguments are wrong."""
    read = convert(DefaultPreemptionArgs, dict(args), "DefaultPreemptionArgs")
    problems = list(_problems(read))
    if problems:
        raise ConfigError("; ".join(problems))
    objects = handle.cluster.objects
    return DefaultPreemption(
        PreemptionArgs(
            min_candidate_nodes_percentage=read.min_candidate_nodes_percentage,
            min_candidate_nodes_absolute=read.min_candidate_nodes_absolute,
        ),
        handle,
        lambda: budgets_of(objects.disruption_budgets.values()),
    )


def _problems(args: DefaultPreemptionArgs) -> Iterator[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    of, other = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    if not 0 <= percentage <= _WHOLE:
        yield f"{of}: Invalid value: {percentage}: not in valid range [0, 100]"
    if absolute < 0:
        yield f"{other}: Invalid value: {absolute}: not in valid range [0, inf)"
    if percentage == 0 and absolute == 0:
        yield f"{of}: Invalid value: 0: cannot be zero at the same time as {other}"
        yield f"{other}: Invalid value: 0: cannot be zero at the same time as {of}"


REGISTRY: Final[Mapping[str, Factory]] = {DefaultPreemption.name: make_preemption}
"""Factory by the name that a KubeSchedulerConfiguration uses."""
