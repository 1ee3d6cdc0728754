"""Carries out a plan: evicts a pod, waits for its replacement, and plans the rest again.

Carries out the moves of a plan: evicts a pod, waits for its replacement, goes on or stops.

    mover = Mover(client, patience=300.0, tell=print)
    await mover.lift_leftovers()
    async with mover.cordons():
        departure = await mover.carry_out(move, pod)  # empty if everything went as planned

Pods leave by the eviction API, so that the API server applies their disruption budgets. While a pod
moves, the nodes that the plan keeps its replacement off are cordoned, with the annotation
`CORDONED` that says since when; they stay cordoned until the next move needs others. However it
ends, by success, by a refusal or by cancellation, all are uncordoned. Only a process that is killed
leaves them cordoned, which is why every run begins with `Mover.lift_leftovers`: it ends the move
that was under way.

Follows a plan to its end: a move, a new look at the cluster, a new plan for the rest.

A replacement may go elsewhere than planned, since schedulers choose among equal nodes at random,
and other pods come and go meanwhile. What counts is that the rest of the plan still leads to the
promised end. So after every move, and before the next pod is evicted, the rest is planned again
from what the cluster is like then; as long as it takes no more moves than there were left, and
as many pods fit in the end, all is well. Otherwise reality has departed from the plan, and nothing
more is moved.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import is_rejected
from numakube.errors import Conflict, InvalidValue, NotFound, TooManyRequests
from numakube.kube import evict_pod, merge_patch
from numakube.kube.catalog import NODES, PODS
from numakube.kube.resource_types import ObjectKey
from numakube.values.resources import CPU, is_memory
from numakube.values.times import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.kube import Client
    from numakube.values.resources import Amounts
    from numakube_planning.defrag.defrag_plan import Move, MovePlan

CORDONED: Final = "numakube.dev/cordoned-for-move"
"""Annotation of nodes that a plan has cordoned: since when."""
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The taint that a cordon brings about."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_PAUSE_SECONDS: Final = 0.5
_BUDGET_PAUSE_SECONDS: Final = 5.0


@dataclass(slots=True)
class Mover:
    """Moves pods on a cluster.

    Attributes:
        patience: seconds that one move may take.
        tell: is told of every deed, in kubectl's style.
        dry_run: let the API server check everything and change nothing.
        arrived: is told of every replacement that a kubelet has taken.
        moved: how many there were.
    """

    client: Client
    patience: float
    tell: Callable[[str], None]
    dry_run: bool = False
    arrived: Callable[[Move, Pod], None] = lambda _move, _pod: None
    moved: int = 0
    _cordoned: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def cordons(self) -> AsyncIterator[None]:
        """Have nodes cordoned for moves until it ends, however that happens."""
        try:
            yield
        finally:
            # Cancelled or not, the nodes are opened again; a second cancellation must not stop it.
            await asyncio.shield(self._cordon_only(()))

    async def carry_out(self, move: Move, pod: Pod) -> str:
        """Carry out *move*; return why reality departs from it, or nothing if it does not.

        Args:
            move: who leaves which node.
            pod: as it was when *move* was planned.

        Raises:
            ApiError: something is not allowed, or the API server refuses it.
        """
        await self._cordon_only(move.closed)
        return await self._move(move, pod)

    async def lift_leftovers(self, *, older_than: float = 0.0) -> list[str]:
        """Uncordon the nodes that a process which was killed has left cordoned.

        A pod that it evicted may still have no replacement on a node. As long as that process would
        have waited for it, the nodes stay cordoned, so that it goes where it should.

        Return those that have been cordoned for less than *older_than* seconds: somebody may be
        moving their pods now.
        """
        nodes = [node for node in (await self.client.list(NODES)).items if _ours(node)]
        before = self.client.clock.now() - timedelta(seconds=older_than)
        recent = [node.metadata.name for node in nodes if older_than and _since(node) > before]
        left = [node for node in nodes if node.metadata.name not in recent]
        await self._settle(left)
        for name in (node.metadata.name for node in left):
            await self._set_cordon(name, cordoned=False, why="left behind by an interrupted run")
        return recent

    async def _settle(self, nodes: list[Node]) -> None:
        """Wait until pods that were made since *nodes* were cordoned have their nodes."""
        since = max(map(_since, nodes), default=_LONG_AGO)
        told = set[str]()
        while (self.client.clock.now() - since).total_seconds() < self.patience:
            pods = (await self.client.list(PODS)).items
            waiting = {one.metadata.name for one in pods if _is_replacement(one, since)}
            for name in sorted(waiting - told):
                self._say(f"pod/{name} has no node yet: waiting, as the interrupted run did")
            if not waiting:
                return
            told |= waiting
            await self.client.clock.sleep(_PAUSE_SECONDS)

    async def _cordon_only(self, nodes: Collection[str]) -> None:
        for name in sorted(self._cordoned - set(nodes)):
            await self._set_cordon(name, cordoned=False)
            self._cordoned.discard(name)
        for name in sorted(set(nodes) - self._cordoned):
            if await self._is_cordoned(name):
                continue
            self._cordoned.add(name)
            await self._set_cordon(name, cordoned=True)

    async def _is_cordoned(self, node: str) -> bool:
        """Tell whether somebody else has cordoned *node*: it stays cordoned then."""
        known = await self.client.get(NODES, node)
        return known.spec.unschedulable and not _ours(known)

    async def _set_cordon(self, node: str, *, cordoned: bool, why: str = "") -> None:
        since = format_time(self.client.clock.now()) if cordoned else None
        change = {
            "metadata": {"annotations": {CORDONED: since}},
            "spec": {"unschedulable": cordoned or None},
        }
        try:
            await self.client.patch(NODES, node, merge_patch(change), dry_run=self.dry_run)
        except NotFound:
            if cordoned:
                raise
            return
        self._say(f"node/{node} {'' if cordoned else 'un'}cordoned{f': {why}' if why else ''}")

    async def _move(self, move: Move, pod: Pod) -> str:
        """Evict *pod* and see a kubelet take its replacement; return why not."""
        known = {sibling.metadata.uid for sibling in await self._siblings(pod)}
        departure = await self._evict(pod)
        if departure or self.dry_run:
            return departure
        new: list[Pod] = []
        async for _ in self._tries(_PAUSE_SECONDS):
            new = [
                sibling
                for sibling in await self._siblings(pod)
                if sibling.metadata.uid not in known
            ]
            refusal = _refusal(move, new)
            taken = next(filter(_is_taken, new), None)
            if refusal:
                return refusal
            if taken is not None:
                self._arrived(move, taken)
                return ""
        return f"{_missing(move, new)}, after {self.patience:g} s"

    def _arrived(self, move: Move, pod: Pod) -> None:
        self.moved += 1
        self.arrived(move, pod)
        node = pod.spec.node_name
        other = "" if node == move.to_node else f" instead of {move.to_node}"
        self._say(f"pod/{pod.metadata.name} replaces it on {node}{other}")

    async def _evict(self, pod: Pod) -> str:
        """Evict *pod* as soon as its budgets allow it; return why not."""
        meta, why = pod.metadata, ""
        async for _ in self._tries(_BUDGET_PAUSE_SECONDS):
            try:
                key = ObjectKey(meta.namespace, meta.name)
                await evict_pod(self.client, key, uid=meta.uid, dry_run=self.dry_run)
            except TooManyRequests as error:
                why = f"{meta.key} may not be evicted: {error}"
                if self.dry_run:
                    return why
            except (NotFound, Conflict):
                return f"{meta.key} is gone already"
            else:
                self._say(f"pod/{meta.name} evicted from {pod.spec.node_name}")
                return ""
        return f"{why}, after {self.patience:g} s"

    async def _siblings(self, pod: Pod) -> list[Pod]:
        """Return the pods of the same controller."""
        found = (await self.client.list(PODS, namespace=pod.metadata.namespace)).items
        return [other for other in found if _owner(other) == _owner(pod)]

    async def _tries(self, pause: float) -> AsyncIterator[None]:
        """Yield again and again until the patience has run out."""
        clock = self.client.clock
        end = clock.monotonic() + self.patience
        while True:
            yield
            if clock.monotonic() + pause > end:
                return
            await clock.sleep(pause)

    def _say(self, text: str) -> None:
        self.tell(f"{text} (server dry run)" if self.dry_run else text)


def without_cordons(facts: ClusterFacts) -> ClusterFacts:
    """Return *facts* as they are once the nodes that a plan has cordoned are open again."""
    opened = {name: _opened(node) for name, node in facts.nodes.items() if _ours(node)}
    return replace(facts, nodes={**facts.nodes, **opened}) if opened else facts


def _opened(node: Node) -> Node:
    taints = tuple(taint for taint in node.spec.taints if taint.key != _UNSCHEDULABLE)
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, spec=spec)


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""


def _ours(node: Node) -> bool:
    return CORDONED in node.metadata.annotations


def _is_replacement(pod: Pod, since: datetime) -> bool:
    """Tell whether *pod* may replace one that was evicted after *since*, and has no node yet."""
    meta = pod.metadata
    made = parse_time(meta.creation_timestamp) if meta.creation_timestamp else _LONG_AGO
    # Times of objects have whole seconds.
    return bool(meta.controller) and not pod.spec.node_name and made >= since.replace(microsecond=0)


def _since(node: Node) -> datetime:
    """Return since when *node* is cordoned for a move; long ago if that cannot be read."""
    try:
        return parse_time(node.metadata.annotations[CORDONED])
    except InvalidValue:
        return _LONG_AGO


def _is_taken(pod: Pod) -> bool:
    """Tell whether a kubelet has taken *pod*."""
    status = pod.status
    return bool(pod.spec.node_name) and status is not None and status.start_time is not None


def _refusal(move: Move, new: list[Pod]) -> str:
    """Return how the kubelet refused the replacement, if it did."""
    refused = next((one for one in new if is_rejected(one)), None)
    if refused is None or refused.status is None:
        return ""
    status = refused.status
    where = refused.spec.node_name
    return f"{where} refused the replacement of {move.pod}: {status.reason}: {status.message}"


def _missing(move: Move, new: list[Pod]) -> str:
    """Return what is still missing, in the words of the scheduler if it has said something."""
    if not new:
        return f"nothing has replaced {move.pod}"
    one = new[0]
    if one.spec.node_name:
        return f"{one.metadata.key}, which replaces {move.pod}, has not started"
    conditions = one.status.conditions if one.status else ()
    said = next((each.message for each in conditions if each.status == "False"), "")
    told = f": {said}" if said else ""
    return f"{one.metadata.key}, which replaces {move.pod}, has no node{told}"


SETTLING_SECONDS: Final = 60.0
"""How long the reports of nodes may take to show the latest move."""
_LOOK_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFollower:
    """Carries out plans.

    Attributes:
        mover: moves pods.
        look: returns what the cluster is like now.
        plan: returns the plan for a cluster, with so many moves at most where it could go on for
            ever; it takes a while and runs in a thread.
    """

    mover: Mover
    look: Callable[[], Awaitable[ClusterFacts]]
    plan: Callable[[ClusterFacts, int], MovePlan]

    async def follow(self, plan: MovePlan, facts: ClusterFacts) -> str:
        """Carry out *plan*, made for *facts*; return why it was given up, or nothing.

        Raises:
            ApiError: something is not allowed, or the API server refuses it.
        """
        async with self.mover.cordons():
            while plan.steps:
                move, pods = plan.next, {one.metadata.key: one for one in facts.pods}
                departure = await self.mover.carry_out(move, pods[move.pod])
                rest = plan.after_next()
                if not departure and not self.mover.dry_run:
                    facts, rest, departure = await self._planned_again(rest)
                if departure:
                    return departure
                plan = rest
        return ""

    async def _planned_again(self, rest: MovePlan) -> tuple[ClusterFacts, MovePlan, str]:
        """Return the cluster after a move, the plan for the rest, and why it is not as good."""
        clock = self.mover.client.clock
        end = clock.monotonic() + SETTLING_SECONDS
        while True:
            facts = without_cordons(await self.look())
            again = await asyncio.to_thread(self.plan, facts, rest.moves)
            departure = _worse(again, rest)
            if not departure or clock.monotonic() > end:
                return facts, again, departure
            await clock.sleep(_LOOK_AGAIN_SECONDS)


def _worse(again: MovePlan, rest: MovePlan) -> str:
    """Return in which way *again* is worse than what was planned; empty if it is not."""
    if again.aligns and (again.steps or not again.nodes):
        return f"{again.aligns} is not aligned{f': {again.why_not}' if again.why_not else ''}"
    if len(again.nodes) < len(rest.nodes):
        fewer = f"{len(again.nodes)} of {again.wanted} pods fit now, planned were {len(rest.nodes)}"
        return f"{fewer}: {again.why_not}" if again.why_not else fewer
    if again.moves > rest.moves:
        return f"{again.moves} more moves would be needed now, planned were {rest.moves}"
    if rest.stranded is not None and not _is_less(again.stranded or {}, rest.stranded):
        return "as much is stranded as before"
    return ""


def _is_less(now: Amounts, before: Amounts) -> bool:
    """Tell whether less is stranded *now*; devices count before the rest."""
    devices = [
        sum(count for name, count in amounts.items() if name != CPU and not is_memory(name))
        for amounts in (now, before)
    ]
    if devices[0] != devices[1]:
        return devices[0] < devices[1]
    return any(now.get(name, 0) < amount for name, amount in before.items())
