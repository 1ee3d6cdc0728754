"""What a plan consists of: moves, in steps that each open room on a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that leaves its node for another.

    Attributes:
        pod: ``namespace/name``.
        closed: nodes that are cordoned meanwhile, so that its replacement goes where it should.
    """

    pod: str
    from_node: str
    to_node: str
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """The moves that open room on a node, in their order."""

    node: str
    moves: tuple[Move, ...]


@dataclass(slots=True)
class Plan:
    """How room is made.

    Attributes:
        wanted: pods that are to fit.
        aligns: the pod that runs and is to be aligned, ``namespace/name``, if the plan is for that.
        nodes: where each of those goes that fit, in order.
        steps: what is moved for them.
        why_not: why the next one does not fit, whatever is moved; empty if all fit.
        stranded: what is stranded in the cluster before the moves, if that is to be less.
        stranded_after: what is stranded after them.
    """

    wanted: int
    nodes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    why_not: str = ""
    aligns: str = ""
    stranded: Amounts | None = None
    stranded_after: Amounts | None = None

    @property
    def moves(self) -> int:
        """How many pods are restarted."""
        return sum(len(step.moves) for step in self.steps)
