"""Events expire an hour after they were last written, as a kube-apiserver does by default.

A server that kept them for ever would grow with everything that ever happened in its cluster. What
has expired is removed after a request, so that no timer is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from numakube_lab.api.store.store import ChangeType

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.api.handling.state import State
    from numakube_lab.api.store.store import Change, Key

EVENT_LIFETIME: Final = timedelta(hours=1)
"""The default of kube-apiserver's ``--event-ttl``."""
_SHELF: Final = "events"


class EventExpiry:
    """Removes the events of a server that have not been written for an hour."""

    def __init__(self, state: State) -> None:
        self._state = state
        written = state.now()
        # When those of an earlier run were written is not known; their hour starts now.
        self._written: OrderedDict[Key, datetime] = OrderedDict(
            (stored.key, written) for stored in state.store.listed(_SHELF)
        )
        state.store.subscribe(_SHELF, self._note)

    def remove_expired(self) -> None:
        """Remove events that were not written for an hour."""
        written = self._written
        while written and next(iter(written.values())) + EVENT_LIFETIME <= self._state.now():
            self._state.store.remove(next(iter(written)))

    def _note(self, change: Change) -> None:
        key = change.now.key
        self._written.pop(key, None)
        if change.type is not ChangeType.DELETED:
            self._written[key] = self._state.now()
