"""What small pods leave of whole domains for gangs: 64 pods without devices on 12 NVLink domains.

Each domain has 18 nodes with four GPUs. The pods come one after the other, and take most of the
CPUs and memory of a node. Counted is what is left for gangs of 18 and of 16 nodes, with the plugin
DomainProtection and without it, over five seeds of the scheduler's dice. No budget: the figures are
those of docs/results/domains.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.insight.how_many_fit import book
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_levels.domain_protection import DomainProtection
from numakube_levels.domain_states import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.assembly import Engine

_LABEL: Final = "nvidia.com/gpu.clique"
_MACHINE: Final = "2 sockets, 36 cores, smt 1, 240Gi, nvidia.com/gpu 2"
_DOMAINS: Final = 12
_TRAYS: Final = 18
_PODS: Final = 64
_SEEDS: Final = 5
_WHOLE: Final = {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "4"}


def run() -> Iterator[dict[str, object]]:
    """Measure every strength and size."""
    for size in (18, 16):
        for strength in ("Off", "Prefer", "Refuse"):
            gangs, unreachable, broken, placed = zip(
                *(_measured(strength, size, seed) for seed in range(_SEEDS)), strict=True
            )
            at = f"gangs of {size}, {strength}"
            for metric, numbers in (
                ("gangs that fit still", gangs),
                ("unreachable GPUs", unreachable),
                ("domains that are not whole", broken),
                ("pods with a place", placed),
            ):
                value = round(sum(numbers) / len(numbers), 1)
                told = {"least": min(numbers), "most": max(numbers)}
                yield {"metric": f"{at}: {metric}", "value": value, "unit": "", **told}


def _measured(strength: str, size: int, seed: int) -> tuple[int, int, int, int]:
    engine = _engine(strength, size)
    (runtime,) = engine.runtimes.values()
    cycle = Cycle(engine.cluster, engine.nominations, np.random.default_rng(seed))
    placed = 0
    for number in range(_PODS):
        one = PodInfo(pod(f"clean-{number}", "56", "400Gi"))
        decision = cycle.decide(one, runtime)
        if isinstance(decision, Chosen):
            placed += book(engine, runtime, decision.state, one, decision.node).ok
    plugin = runtime.profile.plugins()[DomainProtection.name]
    if not isinstance(plugin, DomainProtection):
        raise TypeError("the profile has another plugin of that name")
    ((_, _, states),) = plugin.states(engine.cluster.snapshot())
    total = summary_of(states)
    gangs = sum(one.takes // size for one in states)
    return gangs, total.unreachable, len(states) - total.by_state["whole"], placed


def _engine(strength: str, size: int) -> Engine:
    world = World()
    for tray in range(_TRAYS):
        for domain in range(_DOMAINS):
            labels = {_LABEL: f"rack-{domain:02}.0"}
            name = f"gb-{domain:02}-{tray:02}"
            world.add_node(name, "best-effort", machine=_MACHINE, labels=labels)
    shapes = [{"requests": _WHOLE, "count": size}]
    args = {"level": _LABEL, "strength": strength, "shapes": shapes}
    return world.scheduler(without_election(DomainProtection=args)).engine
