"""How many moves plans take on small random clusters, beside the fewest that there are.

The fewest are found by trying every sequence of moves: any pod that may move, to any node whose
kubelet model takes it. `python -m benchmarks.defrag_quality 1000` compares so many clusters on all
cores. Budget: 1.1 times the fewest, over all clusters, and no cluster for which no plan is found
although there is one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.meta import OwnerReference
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.admission_outcome import Rejected
from numakube.testing import World, pod
from numakube.topology.model_report import zones_of
from numakube_planning.defrag.plan_making import plan_moves
from numakube_planning.defrag.room_search import MOST_MOVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube_planning.defrag.defrag_plan import MovePlan

SHAPE: Final = "2 sockets, 4 cores, smt 1, 16Gi"
CLUSTERS: Final = 40
NONE: Final = -1
"""Instead of a number of moves: no moves help."""
_MOST_STATES: Final = 3000
_OWNER: Final = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="app", uid="app", controller=True
)


def owned(name: str, cpu: str = "2", **more: Any) -> Pod:  # noqa: ANN401 - as `pod`
    """Return a pod that its controller makes again."""
    one = pod(name, cpu=cpu, labels={"app": "a"}, **more)
    meta = msgspec.structs.replace(one.metadata, owner_references=(_OWNER,))
    return msgspec.structs.replace(one, metadata=meta)


def crowd(seed: int) -> tuple[World, Pod]:
    """Return a cluster that is nearly full, and a pod that is to fit."""
    rng, world = Random(seed), World()
    for number in range(rng.choice((2, 3, 3, 4))):
        name, left = f"n{number}", rng.randint(4, 7)
        policy = rng.choice(("single-numa-node", "single-numa-node", "restricted"))
        world.add_node(name, policy, machine=SHAPE)
        for index in range(8):
            make, cpu = (owned if rng.random() < 0.75 else pod), rng.randint(1, 3)
            one = make(f"{name}-{index}", cpu=str(cpu))
            if cpu <= left and admitted(world.kubelets[name], one):
                world.run(one, name)
                left -= cpu
    return world, pod("wanted", cpu=rng.choice("2334"))


def admitted(kubelet: KubeletNode, one: Pod) -> KubeletNode | None:
    """Return the kubelet when it has admitted the pod; ``None`` if it refuses."""
    after = kubelet.clone()
    return None if isinstance(after.admit(one), Rejected) else after


@dataclass(frozen=True, slots=True)
class _State:
    """Which kubelet has which pod, by its name, with the uid that it has there."""

    kubelets: Mapping[str, KubeletNode]
    where: Mapping[str, tuple[str, str]]

    @property
    def key(self) -> object:
        """Equal for states in which the same can be done."""
        zones = [[zone.available for zone in zones_of(node)] for node in self.kubelets.values()]
        return repr((zones, sorted((name, node) for name, (node, _) in self.where.items())))

    def after(self, one: Pod, to_node: str) -> _State | None:
        """Return the state when the pod has moved; ``None`` if the kubelet there refuses it."""
        name = one.metadata.name
        node, uid = self.where[name]
        meta = msgspec.structs.replace(one.metadata, uid=f"{uid}+")
        spec = msgspec.structs.replace(one.spec, node_name="")
        new = msgspec.structs.replace(one, metadata=meta, spec=spec)
        arrived = admitted(self.kubelets[to_node], new) if to_node != node else None
        if arrived is None:
            return None
        left = self.kubelets[node].clone()
        left.remove(uid)
        kubelets = {**self.kubelets, node: left, to_node: arrived}
        return _State(kubelets, {**self.where, name: (to_node, f"{uid}+")})


def fewest_moves(world: World, wanted: Pod, most: int = MOST_MOVES) -> int | None:
    """Return the fewest moves after which *wanted* fits, or `NONE`; ``None`` if that takes long."""
    movable = [one for one in world.pods if one.metadata.controller is not None]
    where = {one.metadata.name: (one.spec.node_name, one.metadata.uid) for one in world.pods}
    level, known = [_State(dict(world.kubelets), where)], set[object]()
    for moves in range(most + 1):
        if any(admitted(node, wanted) for state in level for node in state.kubelets.values()):
            return moves
        if moves == most:
            break
        new = (state.after(one, to) for state in level for one in movable for to in state.kubelets)
        level = [one for one in new if one is not None and _is_new(one, known)]
        if len(level) > _MOST_STATES:
            return None
    return NONE


def _is_new(state: _State, known: set[object]) -> bool:
    key = state.key
    return key not in known and not known.add(key)  # type: ignore[func-returns-value]


def planned(world: World, wanted: Pod) -> MovePlan:
    """Return our plan."""
    return plan_moves(engine_of(world.facts()), [wanted])


def compare(seed: int) -> tuple[int, int | None, int]:
    """Return the number of the cluster, the fewest moves, and ours."""
    world, wanted = crowd(seed)
    plan = planned(world, wanted)
    return seed, fewest_moves(world, wanted), plan.moves if plan.nodes else NONE


def measure(clusters: int) -> Iterator[dict[str, object]]:
    """Yield how our plans compare."""
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(compare, range(clusters), chunksize=5))
    solved = [(best, ours) for _, best, ours in found if best is not None and best > 0]
    missed = [seed for seed, best, ours in found if best is not None and ours == NONE != best]
    both = [(best, ours) for best, ours in solved if ours != NONE]
    ratio = sum(ours for _, ours in both) / max(1, sum(best for best, _ in both))
    yield {
        "metric": f"moves, {clusters} random clusters",
        "value": round(ratio, 3),
        "unit": "times the fewest",
        "budget": 1.1,
        "pairs": {f"{best} {ours}": n for (best, ours), n in sorted(Counter(solved).items())},
        "undecided": sum(best is None for _, best, _ in found),
    }
    yield {
        "metric": "clusters without a plan although there is one",
        "value": round(100 * len(missed) / max(1, len(solved)), 2),
        "unit": "% of those that need moves",
        "clusters": missed,
    }


def run() -> Iterator[dict[str, object]]:
    """Compare on a few clusters."""
    return measure(CLUSTERS)


if __name__ == "__main__":
    for result in measure(int(sys.argv[1]) if len(sys.argv) > 1 else CLUSTERS):
        print(json.dumps(result), flush=True)
