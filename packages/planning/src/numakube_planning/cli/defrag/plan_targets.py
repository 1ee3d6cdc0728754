"""What a plan is to achieve: a target, ``--shape``, ``-f`` or ``--reduce-stranded``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from numakube.api.pod import has_ended
from numakube.cli.shared.kubectl_names import kind_of
from numakube.cli.shared.wanted_pod import known_in
from numakube.errors import ConfigError
from numakube.insight import engine_of
from numakube.insight.explain import manifest_subject
from numakube.insight.how_many_fit import copies
from numakube.insight.unknown_zones import nothing_known
from numakube_planning.defrag.defrag_plan import on_known_zones
from numakube_planning.defrag.plan_making import (
    gang_members,
    plan_alignment,
    plan_for_waiting,
    plan_moves,
    reduce_stranded,
    replacement_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.cli.shared.pods_in_manifests import Batch
    from numakube.insight import ClusterFacts
    from numakube_planning.defrag.defrag_plan import MovePlan

    Planner = Callable[[ClusterFacts, int], MovePlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planners:
    """Makes the function that makes a plan for a cluster; without known zones there is none."""

    config: KubeSchedulerConfiguration | None
    namespace: str

    def more_pods(self, wanted: Batch, count: int) -> Planner:
        """Room for *count* pods like those *wanted*."""

        def plan(facts: ClusterFacts, most: int) -> MovePlan:
            del most
            pod = known_in(_known(facts), wanted).pod
            subject = manifest_subject(pod, classes=facts.priority_classes)
            waiting = [one for one in facts.pods if _waits(one)]

            def make(known: ClusterFacts) -> MovePlan:
                engine = engine_of(known, self.config, pod.spec.scheduler_name)
                return plan_moves(engine, copies(subject.pod, count), waiting=waiting)

            return on_known_zones(facts, [subject.pod], make)

        return plan

    def waiting(self, target: str) -> Planner:
        """Room for the pod, or the pods of the gang, that *target* (``pod/NAME``) names.

        A pod that runs is aligned; once it is gone, its replacement is looked at.
        """
        kind, slash, name = target.partition("/")
        if not slash or not name or (kind_of(kind) != "pod" and kind.lower() not in _GROUPS):
            raise click.UsageError(f"{target!r} is not like pod/NAME or podgroup/NAME.")

        began: list[ClusterFacts] = []

        def plan(facts: ClusterFacts, most: int) -> MovePlan:
            del most
            _known(facts)
            began.append(facts)
            pods = self._named(facts, kind, name, began[0])
            ran = began[0].pod(self.namespace, name) if kind_of(kind) == "pod" else None

            def make(known: ClusterFacts) -> MovePlan:
                engine = engine_of(known, self.config, pods[0].spec.scheduler_name)
                if ran is not None and ran.spec.node_name:
                    return plan_alignment(known, engine, pods[0])
                return plan_for_waiting(engine, pods)

            return on_known_zones(facts, pods, make)

        return plan

    def less_stranded(self) -> Planner:
        """Less that is free and of no use."""

        def plan(facts: ClusterFacts, most: int) -> MovePlan:
            return on_known_zones(
                _known(facts),
                (),
                lambda known: reduce_stranded(engine_of(known, self.config), most=most),
            )

        return plan

    def _named(self, facts: ClusterFacts, kind: str, name: str, before: ClusterFacts) -> list[Pod]:
        if kind.lower() in _GROUPS:
            found = gang_members(facts.pods, self.namespace, name)
        else:
            pod, old = (one.pod(self.namespace, name) for one in (facts, before))
            if pod is None and old is not None:
                pod = replacement_of(old, before, facts)
            found = [pod] if pod is not None else []
        if not found:
            what = "pod group" if kind.lower() in _GROUPS else "pod"
            raise ConfigError(f"there is no {what} {self.namespace}/{name}, or it has no pods")
        return found


def _known(facts: ClusterFacts) -> ClusterFacts:
    """Return *facts*; a plan without any zone would evict pods for a guess."""
    unknown = nothing_known(facts)
    if unknown:
        raise ConfigError(f"{unknown}, so no move can be planned")
    return facts


def _waits(pod: Pod) -> bool:
    ended = has_ended(pod) or pod.metadata.deletion_timestamp is not None
    return not pod.spec.node_name and not ended


_GROUPS = ("podgroup", "podgroups", "pg")
