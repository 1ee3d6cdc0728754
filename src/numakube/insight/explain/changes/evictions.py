"""Make room: which pods would have to go, as few and as unimportant ones as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.insight.explain.explained_pod import Subject
from numakube.insight.explain.explanation_document import Change
from numakube.insight.node_groups import stays_with_its_node
from numakube.scheduling.preemption.victims import (
    ChosenVictims,
    budgets_of,
    by_importance,
    find_victims,
    split_by_violation,
)
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.meta import OwnerReference
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.scheduling.preemption.victims import Budget, EvictionTrial
    from numakube.scheduling.snapshot.nodes import NodeInfo

_MOST_NODES: Final = 12
_MOST_VICTIMS: Final = 6
"""Beyond that it is no small change any more."""
_ABOVE_ALL: Final = (1 << 31) - 1

Cost: TypeAlias = tuple[int, int, int]
"""Budgets that are violated, pods that go, and the highest priority among them."""
_CHEAP: Final[Cost] = (0, 1, 0)
"""Nothing that is found elsewhere can be much better."""


def evictions(bench: Bench, judgement: Judgement) -> Iterator[Change]:
    """Yield the pods to evict on each node: by the scheduler itself, or by hand."""
    nomination = judgement.nomination
    if nomination is not None:
        yield _preempted(nomination.node, nomination.victims)
        return
    budgets = budgets_of(bench.engine.cluster.objects.disruption_budgets.values())
    found: list[tuple[Cost, str, tuple[PodInfo, ...]]] = []
    for name in _nodes(judgement):
        node = bench.node(name)
        victims = None if node is None else _least(bench, node, budgets)
        if victims:
            found.append((_cost(victims, budgets), name, victims))
            if found[-1][0] <= _CHEAP:
                break
    for _, name, victims in sorted(found, key=lambda one: one[:2])[:1]:
        yield _moved(bench, name, victims, budgets)


def _nodes(judgement: Judgement) -> list[str]:
    """Return the nodes where eviction may help, the closest of each group first."""
    groups = [refusal.nodes for refusal in judgement.refusals if refusal.eviction_helps]
    longest = max(map(len, groups), default=0)
    rounds = (nodes[turn] for turn in range(longest) for nodes in groups if turn < len(nodes))
    return [name for name, _ in zip(rounds, range(_MOST_NODES), strict=False)]


def _least(bench: Bench, node: NodeInfo, budgets: Sequence[Budget]) -> tuple[PodInfo, ...] | None:
    """Return the fewest, least important pods without which the pod fits *node*."""
    own = bench.pod.metadata.controller
    movable = {uid: pod for uid, pod in node.pods.items() if _is_movable(pod, own)}
    least = sorted(movable.values(), key=by_importance, reverse=True)
    for pod in sorted(least, key=lambda one: bool(split_by_violation([one], budgets)[0])):
        if bench.fits_without(node.name, [pod]):
            return (pod,)
    return _several(bench, node, movable, budgets)


def _several(
    bench: Bench, node: NodeInfo, movable: dict[str, PodInfo], budgets: Sequence[Budget]
) -> tuple[PodInfo, ...] | None:
    """Ask preemption, as if the pod were more important than anybody else."""
    above = msgspec.structs.replace(bench.pod.spec, priority=_ABOVE_ALL)
    first = msgspec.structs.replace(bench.pod, spec=above)
    if bench.trial(node.name, pod=first) is None:
        return None
    shown = node.clone()
    shown.pods = movable

    def trial() -> EvictionTrial:
        made = bench.trial(node.name, pod=first)
        assert made is not None  # noqa: S101 - the same call succeeded just before
        return made

    found = find_victims(PodInfo(first), shown, budgets, trial)
    if not isinstance(found, ChosenVictims) or not 0 < len(found.pods) <= _MOST_VICTIMS:
        return None
    return found.pods if bench.fits_without(node.name, found.pods) else None


def _is_movable(pod: PodInfo, own: OwnerReference | None) -> bool:
    """Tell whether it helps to send a pod away.

    Static pods come back, daemons belong to their node, and a replica of the same set, which *own*
    makes, would wait then.
    """
    owner = pod.pod.metadata.controller
    same = owner is not None and own is not None and (owner.uid, owner.name) == (own.uid, own.name)
    return not same and not stays_with_its_node(pod)


def _cost(victims: Sequence[PodInfo], budgets: Sequence[Budget]) -> Cost:
    violations = len(split_by_violation(victims, budgets)[0])
    return violations, len(victims), max(victim.priority for victim in victims)


def _preempted(node: str, victims: Sequence[PodInfo]) -> Change:
    text = (
        f"Wait: the scheduler evicts {_listed(victims)} from {node} by itself, of lower priority."
    )
    return Change(
        kind="preempt", text=text, node=node, pods=tuple(victim.key for victim in victims)
    )


def _moved(
    bench: Bench, node: str, victims: Sequence[PodInfo], budgets: Sequence[Budget]
) -> Change:
    where = _elsewhere(bench, node, victims)
    if where:
        text = f"Move {_listed(victims)} away from {node} ({where}): the pod then fits there."
    else:
        text = f"Stop {_listed(victims)} on {node}, for which there is no room elsewhere either."
    protected = split_by_violation(victims, budgets)[0]
    if protected:
        names = ", ".join(pod.key for pod in protected)
        text = f"{text} A disruption budget forbids to evict {names} for now."
    return Change(kind="evict", text=text, node=node, pods=tuple(victim.key for victim in victims))


def _elsewhere(bench: Bench, node: str, victims: Sequence[PodInfo]) -> str:
    others = bench.engine.cluster.row_of.keys() - {node}
    places = [bench.taker(Subject(victim.pod).unbound(), among=others) for victim in victims]
    known = list(dict.fromkeys(place for place in places if place is not None))
    if any(place is None for place in places):
        return ""
    return f"{', '.join(known)} {'has' if len(known) == 1 else 'have'} room"


def _listed(pods: Sequence[PodInfo]) -> str:
    return ", ".join(f"{pod.key} (priority {pod.priority})" for pod in pods)
