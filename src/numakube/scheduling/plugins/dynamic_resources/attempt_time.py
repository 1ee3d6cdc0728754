"""How long the claims of one pod may be searched for, on one node and in one attempt.

kube-scheduler limits the search on each node (``filterTimeout``), and searches beside its loop.
Here nobody else is served meanwhile, so the attempt as a whole is limited, too, by processor time.
Selectors that have judged a device are not asked again in the next attempt, so one that stops early
in a huge cluster is not made in vain.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.resource_claims import ResourceClaim
    from numakube.scheduling.plugins.dynamic_resources.claim_actions import ClaimActions

ATTEMPT_SECONDS: Final = 1.0
"""Processor time for the claims of a pod; a search among a thousand nodes takes a tenth of it."""
FINAL_SECONDS: Final = 0.5
"""What there is left at least to choose devices on the nodes that were found."""
MOST_STEPS: Final = 1_000_000
"""Steps of a search that no clock limits."""


class AttemptTime:
    """The time of one attempt.

    Attributes:
        is_over: whether a search was stopped because the attempt had no more time.
    """

    def __init__(self, actions: ClaimActions | None, node_seconds: float) -> None:
        self.is_over = False
        self._is_final = False
        self._actions = actions
        self._node_seconds = node_seconds
        self._ends = actions.cpu_seconds() + ATTEMPT_SECONDS if actions is not None else 0.0

    def search(self) -> Callable[[], bool]:
        """Return what tells whether a search that begins now has to stop.

        Without a clock it stops after many steps.
        """
        actions = self._actions
        if actions is None:
            left = iter(range(MOST_STEPS))
            return lambda: next(left, None) is None
        if not self._node_seconds:
            return lambda: self._is_over(actions)
        end = actions.now() + timedelta(seconds=self._node_seconds)
        return lambda: self._is_over(actions) or actions.now() > end

    def begin_final_checks(self) -> None:
        """Leave some time, once, to choose among the devices of nodes that were found."""
        if self._actions is not None and not self._is_final:
            self._is_final, self.is_over = True, False
            self._ends = max(self._ends, self._actions.cpu_seconds() + FINAL_SECONDS)

    def problem(self, claims: Iterable[ResourceClaim]) -> str:
        """Say what came of it."""
        keys = ", ".join(claim.metadata.key for claim in claims)
        return (
            f"claim {keys}: no devices found within {ATTEMPT_SECONDS:g} s of processor time, which "
            "is what an attempt may take"
        )

    def _is_over(self, actions: ClaimActions) -> bool:
        self.is_over = self.is_over or actions.cpu_seconds() > self._ends
        return self.is_over
