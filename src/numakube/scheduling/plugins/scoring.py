"""Ways to bring raw scores to the scale from 0 to `MAX_NODE_SCORE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE

if TYPE_CHECKING:
    from numakube.scheduling.framework.verdicts import Amount


def share_of_largest(scores: Amount) -> Amount:
    """Return each of *scores* as a share of the largest."""
    largest = int(scores.max(initial=0))
    return MAX_NODE_SCORE * scores // largest if largest else scores


def share_below_largest(scores: Amount) -> Amount:
    """Return how far each of *scores*, which count what is bad, lies below the largest."""
    largest = int(scores.max(initial=0))
    if not largest:
        return np.full_like(scores, MAX_NODE_SCORE)
    return MAX_NODE_SCORE - MAX_NODE_SCORE * scores // largest
