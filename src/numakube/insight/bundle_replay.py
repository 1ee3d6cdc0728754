"""Decide again about every waiting pod, and compare with what the scheduler said of it.

A scheduler writes why a pod waits into the pod's condition ``PodScheduled``. On the state of a
bundle its plugins must come to the same verdict, in the same words; where they do not, the state
has changed since, or it knew something that is not in the bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.insight.known_schedulers import said_of
from numakube.scheduling.cycle import Chosen, Cycle, Failed, FirstOfEquals
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine

_TAIL: Final = " preemption: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Redecision:
    """What is decided about one pod, and what the scheduler had said.

    Attributes:
        node: where it would go now; empty if nowhere.
        message: why nowhere; so is ``recorded``, which is empty if the pod was never refused.
    """

    pod: str
    node: str = ""
    message: str = ""
    recorded: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the scheduler said the same; what preemption adds does not count."""
        return _verdict(self.message) == _verdict(self.recorded)


def redecide(facts: ClusterFacts, engine: Engine) -> Iterator[Redecision]:
    """Yield a decision about every pod that waits for one of the engine's profiles."""
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    for pod in facts.pods:
        info = PodInfo(pod)
        if pod.spec.node_name or has_ended(pod) or info.scheduler_name not in engine.runtimes:
            continue
        yield _decided(cycle, engine, info)


def _decided(cycle: Cycle, engine: Engine, info: PodInfo) -> Redecision:
    runtime = engine.runtime_for(info.scheduler_name)
    recorded = said_of(info.pod)
    held = runtime.pre_enqueue(info)
    if not held.ok:
        return Redecision(pod=info.key, message=held.message, recorded=recorded)
    decision = cycle.decide(info, runtime)
    if isinstance(decision, Chosen):
        return Redecision(pod=info.key, node=decision.node, recorded=recorded)
    text = decision.status.message if isinstance(decision, Failed) else decision.diagnosis.message()
    return Redecision(pod=info.key, message=text, recorded=recorded)


def _verdict(message: str) -> str:
    return message.partition(_TAIL)[0].strip()
