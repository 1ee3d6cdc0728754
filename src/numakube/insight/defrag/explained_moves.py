"""Offers moves among the changes that would make a pod fit, where no smaller change helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.defrag.opened_room import plan_for_waiting
from numakube.insight.explain.explanation import Change, Explanation

if TYPE_CHECKING:
    from numakube.insight.explain.explained_pod import Subject
    from numakube.scheduling.assembly import Engine

_LARGER: Final = frozenset({"evict"})
"""Kinds of changes that cost more than a move: the pods that go are lost."""


def with_moves(found: Explanation, engine: Engine, subject: Subject) -> Explanation:
    """Return *found* with the moves that let *subject* fit, if they do and nothing smaller does."""
    smaller = [one for one in found.changes if one.kind not in _LARGER]
    if found.verdict != "refused" or subject.pod.spec.node_name or smaller:
        return found
    plan = plan_for_waiting(engine, [subject.pod])
    moves = [move for step in plan.steps for move in step.moves]
    if not moves or not plan.nodes:
        return found
    texts = [f"{move.pod} from {move.from_node} to {move.to_node}" for move in moves]
    text = f"Move {', then '.join(texts)}; `kubectl numa defrag` does it"
    pods = tuple(move.pod for move in moves)
    change = Change(kind="move", text=text, node=plan.nodes[0], pods=pods)
    return msgspec.structs.replace(found, changes=(change, *found.changes))
