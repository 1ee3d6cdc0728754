"""Objects that could not be taken over: what is reported of them, and that nothing else suffers.

Whatever an object says, the worst that may happen is that it counts for nothing. So a handler that
raises is followed by the removal of what was known of the object before, and the object is listed
with the reason until a version of it can be used, or it is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from numakube.kube.resource_types import KubeObject, key_of
from numakube.kube.store import Removed, Updated
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.kube.store import Change

T = TypeVar("T", bound=KubeObject)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class UnusableObjects:
    """Objects whose handling failed.

    Attributes:
        reasons: why, by kind and key, such as ``Pod default/web``.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def guarding(
        self, kind: str, handler: Callable[[Change[T]], None]
    ) -> Callable[[Change[T]], None]:
        """Return *handler* for objects of *kind*, so that it never raises."""

        def guarded(change: Change[T]) -> None:
            subject = f"{kind} {key_of(change.object)}"
            try:
                handler(change)
            except Exception as error:
                self._note(subject, error)
                self._forget(handler, change)
            else:
                self.reasons.pop(subject, None)
            if isinstance(change, Removed):
                self.reasons.pop(subject, None)

        return guarded

    def _note(self, subject: str, error: Exception) -> None:
        reason = reason_of(error)
        if self.reasons.get(subject) != reason:
            self.reasons[subject] = reason
            _log.error("object_unusable", object=subject, error=reason, exc_info=error)

    def _forget(self, handler: Callable[[Change[T]], None], change: Change[T]) -> None:
        """Drop what was taken over from the version before, or from a part of this one."""
        known = change.old if isinstance(change, Updated) else change.object
        try:
            handler(Removed(known))
        except Exception as error:
            _log.debug("object_not_forgotten", object=str(key_of(known)), error=reason_of(error))
