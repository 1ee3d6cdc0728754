"""How long a plan takes at 500 nodes that are nearly full, in CPU time of one core.

Budget: 10 s, for a plan that needs moves and for the answer that no moves help.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Final

from benchmarks.defrag_quality import admitted, owned
from numakube.insight.how_many_fit import copies
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod
from numakube_planning.defrag.plan_making import plan_moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod

NODES: Final = 500
SHAPE: Final = "2 sockets, 16 cores, smt 2, 256Gi, gpu 4"
KINDS: Final = (("4", 1), ("8", 1), ("8", 2), ("2", 0), ("6", 0))
"""CPUs and GPUs of the pods that run."""


def nearly_full(nodes: int = NODES) -> World:
    """Return nodes each of which has been offered pods until it refused some."""
    rng, world = Random(1), World()
    for number in range(nodes):
        name = f"n{number:03}"
        world.add_node(name, machine=SHAPE)
        for index in range(16):
            cpu, gpu = rng.choice(KINDS)
            one = owned(f"{name}-{index}", cpu=cpu, **({"gpu": gpu} if gpu else {}))
            if admitted(world.kubelets[name], one):
                world.run(one, name)
    return world


def run() -> Iterator[dict[str, object]]:
    """Measure plans for pods that need moves, and for one that is too large."""
    facts = nearly_full().facts()
    asked = {
        "4 pods with half of a NUMA node": list(copies(pod("w", cpu="16", gpu=2), 4)),
        "4 pods with a NUMA node each": list(copies(pod("w", cpu="30", gpu=4), 4)),
        "a pod that fits no NUMA node": [pod("w", cpu="33", gpu=5)],
    }
    for text, pods in asked.items():
        yield _measured(text, pods, facts)


def _measured(text: str, pods: list[Pod], facts: object) -> dict[str, object]:
    begun = time.process_time()
    engine = engine_of(facts)  # type: ignore[arg-type]
    filled = time.process_time()
    plan = plan_moves(engine, pods)
    end = time.process_time()
    return {
        "metric": f"plan for {text}, {NODES} nodes",
        "value": round(end - begun, 2),
        "unit": "s of CPU",
        "budget": 10,
        "filling": round(filled - begun, 2),
        "moves": plan.moves,
        "fit": len(plan.nodes),
    }
