"""Many runs: every arm with every seed, on whatever executes them.

Runs are independent of each other, so any `concurrent.futures.Executor` will do: processes of this
machine, or those of a cluster of computers. Results come as they are finished.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from numakube.simulation.simulator import DEFAULTS, Options, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from numakube.simulation.cluster_model import SimulatedCluster
    from numakube.simulation.compared_schedulers import Arm
    from numakube.simulation.run_result import RunResult
    from numakube.simulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One arm with one seed."""

    cluster: SimulatedCluster
    workload: Workload
    arm: Arm
    seed: int
    options: Options = DEFAULTS

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{self.arm.name}, seed {self.seed}"

    def execute(self) -> RunResult:
        """Simulate."""
        return simulate(self.cluster, self.workload, self.arm, seed=self.seed, options=self.options)


def digest(run: PlannedRun) -> str:
    """Return a text that tells this run from every other one."""
    return hashlib.sha256(msgspec.json.encode(run, enc_hook=_plain)).hexdigest()


def _plain(value: object) -> object:
    """Return what msgspec does not know as what it knows."""
    if hasattr(value, "items"):
        return dict(value.items())
    return repr(value)


def _frozen(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


def _packed(proxy: MappingProxyType[Any, Any]) -> tuple[Any, tuple[dict[Any, Any]]]:
    return _frozen, (dict(proxy),)


# Runs travel to other processes, and have read-only maps in many places.
copyreg.pickle(MappingProxyType, _packed)


@lru_cache(maxsize=1)
def _world(packed: bytes) -> tuple[SimulatedCluster, Workload]:
    world: tuple[SimulatedCluster, Workload] = pickle.loads(packed)  # noqa: S301 - packed below
    return world


def _execute(world: bytes, arm: bytes) -> RunResult:
    cluster, workload = _world(world)
    run = PlannedRun(cluster=cluster, workload=workload, **pickle.loads(arm))  # noqa: S301
    return run.execute()


class _Packer:
    """Packs runs to travel; a cluster with its workload is packed once for all arms."""

    def __init__(self) -> None:
        self._worlds: dict[tuple[int, int], bytes] = {}

    def __call__(self, run: PlannedRun) -> tuple[bytes, bytes]:
        key = id(run.cluster), id(run.workload)
        if key not in self._worlds:
            self._worlds[key] = pickle.dumps((run.cluster, run.workload))
        return self._worlds[key], pickle.dumps(
            {"arm": run.arm, "seed": run.seed, "options": run.options}
        )


def sweep(
    runs: Sequence[PlannedRun], executor: Executor | None = None
) -> Iterator[tuple[PlannedRun, RunResult]]:
    """Yield each of *runs* with its result, in the order in which they are finished.

    Without an *executor* they are executed here, one after the other.
    """
    if executor is None:
        yield from ((run, run.execute()) for run in runs)
        return
    # Packed here: what cannot be packed is an error now, not in a thread of the executor.
    packed = _Packer()
    futures = {executor.submit(_execute, *packed(run)): run for run in runs}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
