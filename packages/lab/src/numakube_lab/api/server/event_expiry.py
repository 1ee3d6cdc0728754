"""Events expire an hour after they were last written, as a kube-apiserver does by default.

A server that kept them for ever would grow with everything that ever happened in its cluster. A lab
keeps them in memory, so the oldest expire earlier where there are very many. What has expired is
removed after a request, so that no timer is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from numakube_lab.api.store.store import ChangeType

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.api.handling.server_state import State
    from numakube_lab.api.store.store import Change, Key

EVENT_LIFETIME: Final = timedelta(hours=1)
"""The default of kube-apiserver's ``--event-ttl``."""
MOST_EVENTS: Final = 50_000
"""Some hundred megabytes; ten thousand pods have about as many."""
_SHELF: Final = "events"


class EventExpiry:
    """Removes events that have not been written for an hour, and the oldest of too many."""

    def __init__(self, state: State, *, most: int = MOST_EVENTS) -> None:
        self._state = state
        self._most = most
        written = state.now()
        # When those of an earlier run were written is not known; their hour starts now.
        self._written: OrderedDict[Key, datetime] = OrderedDict(
            (stored.key, written) for stored in state.store.listed(_SHELF)
        )
        state.store.subscribe(_SHELF, self._note)

    def remove_expired(self) -> None:
        """Remove events that were not written for an hour, and the oldest of too many."""
        written = self._written
        while written and (
            len(written) > self._most
            or next(iter(written.values())) + EVENT_LIFETIME <= self._state.now()
        ):
            self._state.store.remove(next(iter(written)))

    def _note(self, change: Change) -> None:
        key = change.now.key
        self._written.pop(key, None)
        if change.type is not ChangeType.DELETED:
            self._written[key] = self._state.now()
