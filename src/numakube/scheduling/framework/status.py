"""What a plugin says: a code, reasons for people, and details for programs.

Codes and their names follow kube-scheduler 1.35. An expected refusal is always a `Status`; an
exception from a plugin is a bug in it, which the runtime turns into `Code.ERROR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final


class Code(IntEnum):
    """Outcome of one plugin at one extension point."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    """Not now; evicting other pods may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Not now, and no eviction helps."""
    WAIT = 4
    SKIP = 5
    PENDING = 6
    """Not before something outside the scheduler happens."""

    @property
    def label(self) -> str:
        """The name that kube-scheduler prints, such as ``UnschedulableAndUnresolvable``."""
        return _LABELS[self]

    @property
    def is_rejection(self) -> bool:
        """Tell whether the pod was refused, rather than accepted or met by a failure."""
        return self in _REJECTIONS


_LABELS: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTIONS: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)


@dataclass(frozen=True, slots=True)
class Status:
    """The answer of one plugin.

    Attributes:
        reasons: short texts for events and logs, stable so that equal refusals aggregate.
        plugin: who said so; filled in by the runtime.
        detail: the refusal as a value, such as
            `numakube.scheduling.numa.alignment_rejection.Rejection`.
        cause: a short text for the event that may differ from node to node; of many the most
            frequent one is told.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    detail: object = None
    cause: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the plugin has nothing against it."""
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        """Tell whether the plugin has nothing to do for this pod."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Tell whether the pod was refused."""
        return self.code.is_rejection

    @property
    def message(self) -> str:
        """All reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same answer, signed by *plugin*."""
        return Status(self.code, self.reasons, plugin, self.detail, self.cause)


class TooCostly(Enum):
    """The detail of a status: to find out took all the time that a pod may take.

    If no node is left, the pod is tried again late, and later each time: others have to be served.
    """

    TOO_COSTLY = "too costly"


TOO_COSTLY: Final = TooCostly.TOO_COSTLY
SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str, detail: object = None) -> Status:
    """Refuse; evicting other pods may help."""
    return Status(Code.UNSCHEDULABLE, reasons, detail=detail)


def unresolvable(*reasons: str, detail: object = None) -> Status:
    """Refuse; no eviction helps."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, detail=detail)


def failure(*reasons: str, detail: object = None) -> Status:
    """Say that the plugin could not tell."""
    return Status(Code.ERROR, reasons, detail=detail)
