"""What a user can choose about native mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.api.strictness import DEFAULT, Strictness
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE

if TYPE_CHECKING:
    from numakube.scheduling.numa.native.reference_alignment_score import TypicalPods

_PER_CENT: Final = 100


class Fidelity(StrEnum):
    """What decides in the end."""

    COUNTS = "counts"
    """Amounts by zone only."""
    EXACT = "exact"
    """The kubelet model, on nodes with exact data; amounts by zone on the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOptions:
    """Options of native mode, with defaults.

    Attributes:
        alignment_weight: what few zones close together count for in a score.
        packing_weight: what keeping room for large pods counts for.
        balance_weight: what using resources of a zone evenly counts for.
        typical: what packing keeps room for; without it, parts of a zone.
        closeness_weight: what devices close to each other count for, in per cent of the score of
            pods with devices of several resources.
        fidelity: whether the kubelet model has the last word.
        strictness: what is done about nodes that promise less than a pod wants, unless it says.
        remembered_refusals: how many refusals of the model are kept, so as not to ask again
            before the node has changed.
    """

    alignment_weight: int = 70
    packing_weight: int = 20
    balance_weight: int = 10
    typical: TypicalPods | None = None
    closeness_weight: int = 40
    fidelity: Fidelity = Fidelity.EXACT
    strictness: Strictness = DEFAULT
    remembered_refusals: int = 20_000

    def __post_init__(self) -> None:
        weights = (self.alignment_weight, self.packing_weight, self.balance_weight)
        if min(weights) < 0 or not any(weights):
            raise ValueError(f"weights must not be negative, nor all zero: {weights}")
        if not 0 <= self.closeness_weight <= _PER_CENT:
            raise ValueError(f"closeness_weight must be 0 to 100: {self.closeness_weight}")

    @property
    def points(self) -> tuple[float, float, float]:
        """What full alignment, packing and balance add to the score of a node with data."""
        weights = self.alignment_weight, self.packing_weight, self.balance_weight
        each = (MAX_NODE_SCORE - 1) / sum(weights)
        return weights[0] * each, weights[1] * each, weights[2] * each
