"""When everything is gone and a minute has passed, nothing of it is left in memory.

A world that is cleared, filled and cleared again is to be as it was after the first time: tasks,
watches, and whatever schedulers keep in collections.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterator
from typing import Any, Final

from tests.worlds.virtual_lab import EXPORTERS, Lab

_COLLECTIONS: Final = (dict, set, list, deque, OrderedDict)
_DEEPEST: Final = 7
_KEPT: Final = frozenset(
    {
        "_recorder", "recorder", "recording", "registry", "_metrics", "metrics", "_clock", "clock",
        "_known", "_touched", "_derived", "derived", "_answers", "_columns", "_latest", "_active",
        "_waiting", "_eager", "_reported", "guard", "_unused", "_writes",
    }
)  # fmt: skip
"""What remembers on purpose, each within a bound of its own, or is swept from time to time."""


def left_over(lab: Lab) -> Counter[str]:
    """Return how many there are of what should be as many as before.

    What is kept for a node that is there does not count: which nodes a scheduler has looked at
    closely depends on the pods that came.
    """
    found = Counter(f"tasks {_name(task)}" for task in asyncio.all_tasks() if not task.done())
    programs: dict[str, object] = {
        f"scheduler {name}": running.process
        for name, running in lab.schedulers.items()
        if not running.task.done()
    }
    if lab.extender is not None:
        programs["extender"] = lab.extender.process
    nodes = lab.pool.kubelets
    for name, program in programs.items():
        for path, things in _collections(program, set()):
            others = sum(not (isinstance(thing, str) and thing in nodes) for thing in things)
            found[f"{name}: {path}"] = others
    return found


def grown(before: Counter[str], after: Counter[str]) -> list[str]:
    """Return what there is more of."""
    return [
        f"{what}: {after[what]} instead of {before[what]}"
        for what in sorted(after)
        if after[what] > before[what]
    ]


def holding_on(lab: Lab) -> Iterator[str]:
    """Yield what is still there of pods, of which there are none any more."""
    staying = {pod.metadata.uid for pod in lab.pods if pod.metadata.namespace == EXPORTERS}
    for pod in lab.pods:
        if pod.metadata.uid not in staying:
            yield f"pod {pod.metadata.name} is still there"
    for name, kubelet in lab.pool.kubelets.items():
        if kubelet.admission is not None and set(kubelet.admission.model.pods) - staying:
            yield f"the kubelet of {name} still has pods"
    for name, running in lab.schedulers.items():
        if running.task.done() or not running.process.leading:
            continue
        process = running.process
        if len(process.scheduler.queue):
            yield f"scheduler {name} still has a queue"
        if len(process.parts.holds):
            yield f"scheduler {name} still keeps room"
        if any(node.pods.keys() - staying for node in process.mirror.cluster.nodes()):
            yield f"scheduler {name} still has pods on nodes"


def _name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _collections(
    thing: object, seen: set[int], path: str = "", deep: int = 0
) -> Iterator[tuple[str, Collection[object]]]:
    """Yield all collections that an object of ours has, by where they are."""
    if deep > _DEEPEST or id(thing) in seen:
        return
    seen.add(id(thing))
    for name in _fields(thing):
        value = getattr(thing, name, None)
        where = f"{path}.{name}" if path else name
        if name in _KEPT:
            continue
        if isinstance(value, _COLLECTIONS):
            if id(value) not in seen:
                seen.add(id(value))
                yield where, value
        elif type(value).__module__.startswith("numakube."):
            yield from _collections(value, seen, where, deep + 1)


def _fields(thing: object) -> list[str]:
    own = list(getattr(thing, "__dict__", ()))
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return sorted({*own, *slots} - {"__dict__", "__weakref__"})
